"""Hiera's files: documents as Ruby reads them, and which data source a file is. Knows no network, no database."""
