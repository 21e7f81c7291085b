"""ConfigDB: the client, and the embedded server with the same API. Knows nothing of nodes and files."""
