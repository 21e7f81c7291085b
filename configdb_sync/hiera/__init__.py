"""Hiera's files: documents as Ruby reads them, and which data source a file is. It uses no network and no database."""

from configdb_sync.hiera.documents import HieraDocument, KeptText, Reader, Rewrite, created, either

__all__ = ["HieraDocument", "KeptText", "Reader", "Rewrite", "created", "either"]
