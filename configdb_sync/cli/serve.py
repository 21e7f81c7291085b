"""``configdb-sync configdb serve``: the embedded ConfigDB for others to reach."""

from __future__ import annotations

import os
from pathlib import Path

import click

from configdb_sync.cli.tokens import read_token
from configdb_sync.state import State, locate, open_state


@click.group()
def configdb() -> None:
    """The embedded ConfigDB server."""


@configdb.command()
@click.option("--listen", default="127.0.0.1:8082", show_default=True, metavar="HOST:PORT", help="Port 0 takes any.")
@click.option(
    "--auth",
    type=click.Choice(["token", "keystone", "none"]),
    default="token",
    show_default=True,
    help="Who may call; none on loopback only.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="Holds the token, mode 0600. Default: made in the state folder.",
)
@click.option(
    "--configdb-database", metavar="URL", help="SQLAlchemy URL (sqlite, postgresql). Default: in the state folder."
)
@click.option("--state", metavar="DIR", help="The state folder.")
@click.option(
    "--write-role", default="admin", show_default=True, help="With keystone: the role that may read and write."
)
@click.option("--read-role", help="With keystone: a role that may read alone. Default: none.")
@click.option("--tls-cert", type=click.Path(path_type=Path), help="Certificate, PEM, with its chain.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its key, PEM, not encrypted.")
@click.option("--behind-proxy", is_flag=True, help="A proxy in front does TLS and holds back slow clients.")
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Processes.")
@click.option("--threads", type=click.IntRange(1, 64), default=4, show_default=True, help="Threads of each process.")
@click.option(
    "--body-limit",
    type=click.IntRange(1),
    default=64,
    show_default=True,
    metavar="MIB",
    help="Largest body of a request.",
)
@click.option(
    "--versions", type=click.IntRange(1), default=30, show_default=True, help="Versions kept of each document."
)
def serve(
    *,
    listen: str,
    auth: str,
    token_file: Path | None,
    configdb_database: str | None,
    state: str | None,
    write_role: str,
    read_role: str | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    behind_proxy: bool,
    workers: int,
    threads: int,
    body_limit: int,
    versions: int,
) -> None:
    """Serve ConfigDB until SIGTERM or Ctrl-C.

    With --auth keystone the service logs in by OS_* or clouds.yaml to have the callers' tokens checked.
    """
    # Late, so that the other commands needn't load the server.
    from configdb_sync.configdb import clouds
    from configdb_sync.configdb.server import keystone, service
    from configdb_sync.configdb.server.access import Access, OpenAccess, TokenAccess
    from configdb_sync.configdb.server.call import Limits

    folder = _State(state)
    access: Access | keystone.Guard = OpenAccess()
    if auth == "keystone":
        access = keystone.guard(clouds.read(os.environ), write_role, read_role)
    elif auth == "token":
        access = TokenAccess(folder.open().token() if token_file is None else read_token(token_file))
    told = service.Service(
        listen=service.read_listen(listen),
        access=access,
        database_url=configdb_database or folder.open().configdb_database_url,
        certificate=tls_cert,
        key=tls_key,
        behind_proxy=behind_proxy,
        workers=workers,
        threads=threads,
        limits=Limits(body=body_limit * 1024 * 1024, versions=versions),
    )

    def announce(url: str) -> None:
        click.echo(f"ConfigDB listens on {url}")
        if auth == "token":
            click.echo(f"its token is in {token_file or folder.open().token_file}")

    service.serve(told, announce)


class _State:
    """The state folder, made only if something of it is needed."""

    def __init__(self, flag: str | None) -> None:
        self._flag = flag

    def open(self) -> State:
        return open_state(locate(self._flag, os.environ, root=os.geteuid() == 0))
