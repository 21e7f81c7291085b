"""``configdb-sync doctor``: every setting with its origin, and each peer tried in turn (U3)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import click

from configdb_sync.cli.options import ALL, ENVIRONMENT, Session, settings_options
from configdb_sync.cli.output import show_json
from configdb_sync.configdb import clouds, urls
from configdb_sync.configdb.connect import CATALOG
from configdb_sync.configdb.model import Limits
from configdb_sync.errors import ProductError, StateError
from configdb_sync.exits import Exit, exit_of
from configdb_sync.masking import is_secret_name
from configdb_sync.nailgun.connect import Trust, trust_in
from configdb_sync.nailgun.roster import why_not
from configdb_sync.settings import READERS
from configdb_sync.store.connections import parsed
from configdb_sync.store.opening import open_store

_LIMITS = Limits(connect=5.0, read=20.0, total=30.0)


@dataclass(frozen=True)
class Check:
    """One peer, tried: what was found, or what is wrong; None for both: it wasn't tried, and ``why`` says why."""

    name: str
    found: str | None = None
    error: ProductError | None = None
    why: str = "not used"

    @property
    def mark(self) -> str:
        """``ok``, ``FAIL`` or ``-``."""
        return "FAIL" if self.error is not None else "-" if self.found is None else "ok"


@click.command()
@settings_options(*ALL)
@click.option(
    "--env",
    "environment",
    type=ENVIRONMENT,
    metavar="N",
    help="Look for this environment at the peers too.",
)
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def doctor(session: Session, *, environment: int | None, output: str) -> Exit:
    """Show every setting and where it comes from, and try each peer in turn. Changes nothing but the state folder."""
    rows = list(_settings(session))
    checks = []
    if output == "text":
        click.echo("Settings:")
        for name, value, origin in rows:
            click.echo(f"  {name:<20} {value}  ({origin})")
        click.echo("Peers:")
    for check in _checks(session, environment):
        checks.append(check)
        if output == "text":
            click.echo(f"  {check.mark:<5} {check.name:<13} {check.error or check.found or check.why}")
    failed = [check.error for check in checks if check.error is not None]
    if output == "json":
        show_json(_json(rows, checks))
    else:
        click.echo(f"{len(failed)} of {len(checks)} failed." if failed else "All that is used works.")
    return exit_of(failed[0]) if failed else Exit.OK


def _json(rows: list[tuple[str, str, str]], checks: list[Check]) -> dict[str, Any]:
    return {
        "settings": [{"name": name, "value": value, "origin": origin} for name, value, origin in rows],
        "peers": [
            {
                "name": check.name,
                "result": {"ok": "ok", "FAIL": "failed", "-": "unused"}[check.mark],
                "found": check.found,
                "what": None if check.error is None else check.error.what,
                "way_out": None if check.error is None else check.error.way_out,
            }
            for check in checks
        ],
    }


def _settings(session: Session) -> Iterator[tuple[str, str, str]]:
    """Yield name, value fit to be shown, and origin of each setting, and of what keystoneauth reads itself."""
    for name in READERS:
        yield name, _shown(name, getattr(session.settings, name)), session.settings.origins[name]
    for name, value in sorted(session.settings.login.items()):
        shown = "(set, not shown)" if is_secret_name(name) else urls.shown(value)
        yield name, shown, session.settings.login_origins[name]


def _shown(name: str, value: Any) -> str:
    if value is None or value == ():
        return "-"
    if name == "levels":
        return ",".join(f"{level}={template}" for level, template in value)
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    if name.endswith("database"):
        try:
            url = parsed(str(value), name)
        except StateError:
            return "(no database URL)"
        return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)
    return urls.shown(str(value)) if "://" in str(value) else str(value)


def _checks(session: Session, environment: int | None) -> Iterator[Check]:
    # Late: the bus takes its own libraries.
    from configdb_sync.cli import bus_checks

    used = bus_checks.uses_bus(session)
    looks: dict[str, Callable[[], str | None]] = {
        "state folder": lambda: str(session.state.folder),
        "database": lambda: _database(session),
        "Keystone": lambda: _keystone(session),
        "ConfigDB": lambda: _configdb(session, environment),
        "Nailgun": lambda: _nailgun(session, environment),
        "broker": lambda: bus_checks.check_brokers(session) if used else None,
    }
    reached = False
    for name, look in looks.items():
        check = _tried(name, look)
        reached = check.found is not None
        yield check
    if used and not reached:
        yield Check("nodes", why="not tried: without the broker they can't be asked")
    else:
        yield _tried("nodes", lambda: bus_checks.check_nodes(session, environment) if used else None)


def _tried(name: str, look: Callable[[], str | None]) -> Check:
    try:
        return Check(name, look())
    except ProductError as error:
        return Check(name, error=error)


def _database(session: Session) -> str:
    with closing(open_store(session.database)) as database:
        encrypted = " (encrypted)" if database.sealing.on else ""
    return f"{_shown('database', session.settings.database or session.state.database_url)}{encrypted}"


def _keystone(session: Session) -> str | None:
    environ = session.environ
    if not environ.get("OS_AUTH_URL") and not environ.get("OS_CLOUD"):
        return None
    if not session.settings.names_user and session.settings.configdb != CATALOG:
        # On a master the plugin always names Keystone; nothing that is used asks it.
        return None
    # Late: keystoneauth takes longer to load than all the rest.
    from configdb_sync.configdb import catalog

    settings = session.settings
    trust = Trust()
    if settings.nailgun is not None:
        trust = trust_in(settings.nailgun_ca).of_keystone(environ, settings.nailgun)
    catalog.tokens_of(environ, default_ca=trust.file, any_name=trust.any_name, limits=_LIMITS).token()
    cloud = clouds.read(environ)
    return (
        f"{urls.shown(cloud.auth['auth_url'])} gives a token{' (certificate not verified)' if cloud.insecure else ''}"
    )


def _configdb(session: Session, environment: int | None) -> str:
    with session.client() as client:
        found = f"{client.server().value} at {client.base.removesuffix(':')}"
        if session.settings.configdb_insecure:
            found += " (certificate not verified)"
        if environment is None:
            return found
        there = client.environment(environment)
        if there is None:
            return f"{found}; it has no environment {environment} yet, the first run makes it"
        return f"{found}; environment {environment} has the levels {', '.join(there.levels) or 'none'}"


def _nailgun(session: Session, environment: int | None) -> str | None:
    client = session.nailgun()
    if client is None:
        return None
    with client:
        version = client.version()
        found = f"Fuel {version.release} at {client.base}{'' if version.auth_required else ' (without authentication)'}"
        if environment is None:
            return found
        nodes = client.nodes(environment)
        ready = sum(why_not(node) is None for node in nodes)
        return f"{found}; environment {environment}: {ready} of {len(nodes)} nodes can be worked on"
