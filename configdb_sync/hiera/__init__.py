"""Hiera's files: documents as Ruby reads them, and which data source a file is. It uses no network and no database."""
