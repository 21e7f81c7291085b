"""The watch: what is the matter with environments between runs, found without changing anything (U29)."""
