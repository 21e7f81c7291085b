"""What people look at: runs, nodes by data sources, documents and their history; as JSON, as pages, and as a file."""
