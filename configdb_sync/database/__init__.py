"""The product's databases: one way to open them, to change them and to keep their tables up to date."""

from configdb_sync.database.database import Database
from configdb_sync.database.lookup import Lookup
from configdb_sync.database.schema import Schema, opened

__all__ = ["Database", "Lookup", "Schema", "opened"]
