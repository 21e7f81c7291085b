"""Makes a client from plain settings: where ConfigDB is, how to log in, who writes (U5)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from configdb_sync.configdb import tokens, urls
from configdb_sync.configdb.calls import Caller, Surroundings
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.exchange import Exchange
from configdb_sync.configdb.http import HttpExchange
from configdb_sync.configdb.inprocess import InProcessExchange
from configdb_sync.configdb.model import Limits, Writer
from configdb_sync.configdb.retry import RetryPolicy
from configdb_sync.errors import MissingError, SettingsError, UnexpectedAnswerError

EMBEDDED = "embedded"
CATALOG = "catalog"


def connect(
    where: str,
    *,
    database_url: str | None = None,
    token_file: Path | None = None,
    token: str | None = None,
    writer: Writer | None = None,
    limits: Limits | None = None,
    workers: int = 4,
    ca_file: Path | None = None,
    insecure: bool = False,
    require_tls: bool = False,
    environ: Mapping[str, str] | None = None,
    region: str | None = None,
    interface: str | None = None,
    fallback: Callable[[], str | None] | None = None,
    policy: RetryPolicy | None = None,
    surroundings: Surroundings | None = None,
) -> ConfigDBClient:
    """Return a client of the ConfigDB at ``where``: ``embedded``, ``catalog`` or an address.

    ``embedded`` needs ``database_url`` (SQLAlchemy). An address takes the token of ``token_file`` (or ``token``), if
    any. ``catalog`` logs in to Keystone by ``OS_*`` or ``clouds.yaml`` of ``environ`` and takes the endpoint of type
    ``config``; without one, the address that ``fallback`` gives, if a ConfigDB answers there. Nothing is sent before
    the first call, but ``catalog`` logs in. Raises ``SettingsError``; ``AccessError``, ``UnavailableError`` and
    ``MissingError`` of Keystone and of what the fallback names.
    """
    exchange: Exchange
    source: tokens.TokenSource | None = None
    missing: MissingError | None = None
    if where == EMBEDDED:
        exchange = _embedded(database_url, workers)
    elif where == CATALOG:
        from configdb_sync.configdb import catalog

        found = catalog.log_in(
            os.environ if environ is None else environ,
            ca_file=ca_file,
            insecure=insecure,
            region=region,
            interface=interface,
            limits=limits or Limits(),
            fallback=fallback,
        )
        source, missing = found.tokens, found.missing
        exchange = _http(
            found.endpoint,
            limits=limits,
            workers=workers,
            ca_file=found.ca_file,
            insecure=found.insecure,
            require_tls=require_tls,
        )
    else:
        exchange = _http(
            where,
            limits=limits,
            workers=workers,
            ca_file=ca_file,
            insecure=insecure,
            require_tls=require_tls,
        )
        if token is not None:
            source = tokens.FixedToken(token)
        elif token_file is not None:
            source = tokens.from_file(token_file)
    client = ConfigDBClient(Caller(exchange, source, writer, policy, surroundings))
    if missing is not None:
        _check(client, missing)
    return client


def _check(client: ConfigDBClient, missing: MissingError) -> None:
    """Raise ``missing`` if no ConfigDB is where it is only supposed to be."""
    try:
        client.server()
    except (MissingError, UnexpectedAnswerError):
        client.close()
        raise missing from None
    except BaseException:
        client.close()
        raise


def _http(
    where: str,
    *,
    limits: Limits | None,
    workers: int,
    ca_file: Path | None,
    insecure: bool,
    require_tls: bool,
) -> HttpExchange:
    base = urls.base_url(where)
    if require_tls and not base.startswith("https:") and not urls.is_loopback(base):
        raise SettingsError(f"{base} is not https, and TLS is required", way_out="give an https address")
    if ca_file is not None and not ca_file.is_file():
        raise SettingsError(f"the authority file {ca_file} isn't there", way_out="see --configdb-ca")
    return HttpExchange(base, limits=limits, workers=workers, ca_file=ca_file, insecure=insecure, to_tls=True)


def _embedded(database_url: str | None, workers: int) -> InProcessExchange:
    if database_url is None:
        raise SettingsError("the embedded ConfigDB needs a database", way_out="see --configdb-database and --state")
    # Only here the client knows of the server, and only when it is to be in this process.
    from configdb_sync.configdb_server import access, app

    application = app.create_app(database_url, access=access.OpenAccess(), connections=workers)
    return InProcessExchange(application, application.close)
