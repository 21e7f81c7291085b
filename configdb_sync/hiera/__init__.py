"""Hiera's files: documents as Ruby reads them, and which data source a file is. It uses no network and no database."""

from configdb_sync.hiera.documents import HieraDocument, Reader, created, document_of
from configdb_sync.hiera.rewriting import KeptText, Rewrite, either

__all__ = ["HieraDocument", "KeptText", "Reader", "Rewrite", "created", "document_of", "either"]
