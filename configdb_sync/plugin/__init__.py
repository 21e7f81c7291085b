"""The Fuel plugin's side of the product: what the master's files and Nailgun say about its settings."""
