"""The status page: environments, nodes, runs and documents as pages, as calls of the tenant API, and as one file."""
