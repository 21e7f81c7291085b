"""Finer meanings of what ConfigDB or the way to it answered; kinds and exit codes are those of ``errors``."""

from __future__ import annotations

from configdb_sync.errors import ConfigDBError, UnavailableError


class RefusedError(ConfigDBError):
    """The server refused the request itself (400, 405, 413, 415, 422 and other 4xx without a class of their own)."""


class ConflictError(ConfigDBError):
    """The server says 409: it exists already, another writer was there, or it isn't valid; only a GET can tell."""


class PreconditionError(ConfigDBError):
    """The document is no longer the one whose ETag was sent (412)."""


class UnsupportedError(ConfigDBError):
    """This kind of server can't do what was asked (PyPI's 0.1.0)."""


class LostError(UnavailableError):
    """The connection broke or timed out; whether the request was carried out isn't known."""


class ThrottledError(UnavailableError):
    """The server keeps asking to come back later (429, or 503 with a wait beyond what is waited for)."""


class TLSError(UnavailableError):
    """The peer's certificate can't be verified; nothing was sent."""
