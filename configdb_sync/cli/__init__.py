"""The command ``configdb-sync``: arguments in, one call, text out."""
