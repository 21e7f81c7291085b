"""Makes a client from plain settings: where ConfigDB is, how to log in, who writes (U5)."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from configdb_sync.configdb import api_paths
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import ChangeAuthor
from configdb_sync.errors import MissingError, SettingsError, UnexpectedAnswerError
from configdb_sync.http import tokens, urls
from configdb_sync.http.session import ApiSession, RetryPolicy, Timing
from configdb_sync.http.transport import InProcessTransport, TransferLimits, Transport
from configdb_sync.keystone.clouds import SERVICE_TYPE

if TYPE_CHECKING:
    from configdb_sync.keystone.login import Login

EMBEDDED = "embedded"
CATALOG = "catalog"

CONFIGDB = urls.Peer(
    "ConfigDB",
    address="https://host:port/path, without ? and #",
    login="give a token: --configdb-token-file FILE",
    authority="--configdb-ca FILE",
)


def connect(
    where: str,
    *,
    database_url: str | None = None,
    token_file: Path | None = None,
    token: str | None = None,
    author: ChangeAuthor | None = None,
    limits: TransferLimits | None = None,
    workers: int = 4,
    ca_file: Path | None = None,
    insecure: bool = False,
    require_tls: bool = False,
    environ: Mapping[str, str] | None = None,
    region: str | None = None,
    interface: str | None = None,
    fallback: Callable[[], str | None] | None = None,
    policy: RetryPolicy | None = None,
    timing: Timing | None = None,
) -> ConfigDBClient:
    """Return a client of the ConfigDB at ``where``: ``embedded``, ``catalog`` or an address.

    ``embedded`` needs ``database_url`` (SQLAlchemy). An address takes the token of ``token_file`` (or ``token``), if
    any. ``catalog`` logs in to Keystone by ``OS_*`` or ``clouds.yaml`` of ``environ`` and takes the endpoint of type
    ``config``; without one, the address that ``fallback`` gives, if a ConfigDB answers there. Nothing is sent before
    the first call, but ``catalog`` logs in. Raises ``SettingsError``; ``AccessError``, ``UnavailableError``,
    ``UnexpectedAnswerError`` and ``MissingError`` of Keystone and of what the fallback names, ``ConfigDBError`` if the
    catalog has several endpoints.
    """
    source: tokens.TokenSource | None = None
    missing: MissingError | None = None
    if where == EMBEDDED:
        return open_client(_embedded(database_url, workers), None, author, policy, timing)
    if where == CATALOG:
        # Late: keystoneauth takes longer to load than all the rest.
        from configdb_sync.keystone.login import read_login

        login = read_login(
            os.environ if environ is None else environ,
            ca_file=ca_file,
            insecure=insecure,
            limits=limits or TransferLimits(),
        )
        where, missing = _found(login, region, interface, fallback)
        source, ca_file, insecure = login, login.verified_by, login.insecure
    elif token is not None:
        source = tokens.FixedToken(token)
    elif token_file is not None:
        source = tokens.from_file(token_file)
    base = CONFIGDB.base_url(where)
    if require_tls and not base.startswith("https:") and not urls.is_loopback(base):
        raise SettingsError(f"{base} is not https, and TLS is required", way_out="give an https address")
    if ca_file is not None and not ca_file.is_file():
        raise SettingsError(f"the authority file {ca_file} isn't there", way_out="see --configdb-ca")
    # Late: a server in this process needs none of it.
    from configdb_sync.http.connections import HttpTransport

    transport = HttpTransport(
        base,
        limits=limits,
        workers=workers,
        ca_file=ca_file,
        insecure=insecure,
        authority=CONFIGDB.authority,
        to_tls=True,
    )
    client = open_client(transport, source, author, policy, timing)
    if missing is not None:
        _check(client, missing)
    return client


def open_client(
    transport: Transport,
    token: tokens.TokenSource | None = None,
    author: ChangeAuthor | None = None,
    policy: RetryPolicy | None = None,
    timing: Timing | None = None,
) -> ConfigDBClient:
    """Return a client over a transport."""
    changing = api_paths.author_headers(author or ChangeAuthor())
    return ConfigDBClient(
        ApiSession(
            transport,
            CONFIGDB,
            token,
            changing=changing,
            redirected=api_paths.redirected,
            policy=policy,
            timing=timing,
        )
    )


def _found(
    login: Login, region: str | None, interface: str | None, fallback: Callable[[], str | None] | None
) -> tuple[str, MissingError | None]:
    """Return the catalog's address of ConfigDB; else the fallback's, and the error if no ConfigDB is there."""
    login.token()
    region = region or login.cloud.region
    interface = interface or login.cloud.interface
    endpoint = login.endpoint(SERVICE_TYPE, interface, region)
    if endpoint is not None:
        return endpoint, None
    missing = MissingError(
        f"the catalog of Keystone {login.where} has no {interface} endpoint of type {SERVICE_TYPE}"
        f"{f' in region {region}' if region else ''}",
        way_out="`configdb-sync keystone register` adds it; or give ConfigDB's address with --configdb URL",
    )
    endpoint = None if fallback is None else fallback()
    if endpoint is None:
        raise missing
    missing.what += f", and {urls.shown(endpoint)} is no ConfigDB"
    return endpoint, missing


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


def _embedded(database_url: str | None, workers: int) -> Transport:
    if database_url is None:
        raise SettingsError("the embedded ConfigDB needs a database", way_out="see --configdb-database and --state")
    # Only here the client knows of the server, and only when it is to be in this process.
    from configdb_sync.configdb_server import app

    application = app.create_app(database_url, connections=workers)
    return InProcessTransport(application, application.close)
