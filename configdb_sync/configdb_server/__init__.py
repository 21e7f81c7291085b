"""The embedded ConfigDB server: a WSGI application over SQLAlchemy, compatible with tuning-box."""

from configdb_sync.configdb_server.app import create_app

__all__ = ["create_app"]
