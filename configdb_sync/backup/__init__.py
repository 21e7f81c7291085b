"""The product's state as one file, and back: what is in it, how it is copied while everything runs, how it is read."""
