"""Hiera's files: documents as Ruby reads them, and which data source a file is. Knows no network, no database."""

from configdb_sync.hiera.documents import HieraDocument, KeptText, Reader, Rewrite, created, either

__all__ = ["HieraDocument", "KeptText", "Reader", "Rewrite", "created", "either"]
