"""``configdb-sync tenants``: the tenant admin API, and its calls for people."""

from __future__ import annotations

from pathlib import Path

import click

from configdb_sync.cli.options import CONNECTION, Session, settings_options
from configdb_sync.cli.tenant_commands import COMMANDS
from configdb_sync.cli.tokens import read_token
from configdb_sync.clock import SystemClock
from configdb_sync.sync.records import open_records
from configdb_sync.tenants.drivers import DEFAULT
from configdb_sync.tenants.registry import Registry


@click.group(commands=COMMANDS)
def tenants() -> None:
    """Tenants: who owns which environment and data source."""


@tenants.command()
@settings_options(*CONNECTION)
@click.option("--admin", default="127.0.0.1:8083", show_default=True, metavar="HOST:PORT", help="The admin endpoint.")
@click.option(
    "--auth",
    type=click.Choice(["token", "none"]),
    default="token",
    show_default=True,
    help="Who may call; none on loopback only.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="Holds the admin token, mode 0600. Default: made in the state folder.",
)
@click.option("--retention", type=click.FloatRange(0), default=30, show_default=True, metavar="DAYS", help="Recovery.")
@click.option("--listed", type=click.IntRange(0), default=100, show_default=True, help="Longest list of a move action.")
@click.option(
    "--drivers",
    default=",".join(DEFAULT),
    show_default=True,
    metavar="LIST",
    help="Status drivers in the order in which they are asked; none for none.",
)
@click.option("--max-age", type=click.FloatRange(0), default=10, show_default=True, help="Seconds a status holds.")
@click.option("--tls-cert", type=click.Path(path_type=Path), help="Certificate, PEM, with its chain.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its key, PEM, not encrypted.")
@click.option("--behind-proxy", is_flag=True, help="A proxy in front does TLS and holds back slow clients.")
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Processes.")
@click.option("--threads", type=click.IntRange(1, 64), default=4, show_default=True, help="Threads of each process.")
def serve(
    session: Session,
    *,
    admin: str,
    auth: str,
    token_file: Path | None,
    retention: float,
    listed: int,
    drivers: str,
    max_age: float,
    tls_cert: Path | None,
    tls_key: Path | None,
    behind_proxy: bool,
    workers: int,
    threads: int,
) -> None:
    """Serve the admin API until SIGTERM or Ctrl-C."""
    # Late, so that the other commands needn't load the server.
    from configdb_sync.serving import Transport, read_listen
    from configdb_sync.tenants import service
    from configdb_sync.tenants.access import Access, OpenAccess, TokenAccess
    from configdb_sync.tenants.chain import Chain
    from configdb_sync.tenants.context import DAY, Limits, NoPull, Pull
    from configdb_sync.tenants.drivers import Surroundings, load
    from configdb_sync.tenants.following import Connected, Following

    access: Access = OpenAccess()
    token_path = token_file
    if auth == "token":
        access = TokenAccess(session.state.tenants_token() if token_file is None else read_token(token_file))
        token_path = token_file or session.state.tenants_token_file

    def announce(url: str) -> None:
        click.echo(f"the tenant admin API listens on {url}")
        if token_path is not None:
            click.echo(f"its token is in {token_path}")

    named = [] if drivers == "none" else [name.strip() for name in drivers.split(",")]

    def pull(registry: Registry) -> Pull:
        around = Surroundings(registry.database, Connected(session.client), SystemClock())
        return Chain(registry, load(named, around), SystemClock(), max_age) if named else NoPull()

    open_records(session.database).close()  # what the runs recorded is asked for
    told = service.Service(
        admin=read_listen(admin, "--admin"),
        access=access,
        database_url=session.database,
        transport=Transport(tls_cert, tls_key, behind_proxy, workers, threads),
        limits=Limits(retention=int(retention * DAY)),
        listed=listed,
        follow=lambda registry: Following(registry, Connected(session.client), SystemClock()),
        pull=pull,
    )
    service.serve(told, announce)
