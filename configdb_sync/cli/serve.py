"""``configdb-sync configdb serve``: the embedded ConfigDB for others to reach."""

from __future__ import annotations

from pathlib import Path

import click

from configdb_sync.cli.options import Session, service_id, settings_options, sign_log_lines
from configdb_sync.cli.service_options import configured
from configdb_sync.cli.tokens import read_token


@click.group()
def configdb() -> None:
    """The embedded ConfigDB server."""


@configdb.command()
@settings_options("configdb_database", "state")
@configured("configdb")
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
    session: Session,
    *,
    listen: str,
    auth: str,
    token_file: Path | None,
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

    What no flag says, `services.configdb` in the settings file does. With --auth keystone the service logs in, as the
    settings say, to have the callers' tokens checked.
    """
    # Late, so that the other commands needn't load the server.
    from configdb_sync.configdb import clouds
    from configdb_sync.configdb_server import service
    from configdb_sync.configdb_server.access import Access, Guard, OpenAccess, TokenAccess, guard
    from configdb_sync.configdb_server.messages import Limits

    sign_log_lines(service_id(session.run))
    access: Access | Guard = OpenAccess()
    if auth == "keystone":
        access = guard(clouds.read(session.environ), write_role, read_role)
    elif auth == "token":
        access = TokenAccess(session.state.token() if token_file is None else read_token(token_file))
    told = service.Service(
        listen=service.read_listen(listen),
        access=access,
        database_url=session.configdb_database,
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
            click.echo(f"its token is in {token_file or session.state.token_file}")

    service.serve(told, announce)
