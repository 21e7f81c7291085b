"""``configdb-sync doctor`` and ``ping``: every setting with its origin, and each peer tested in turn (U3, U8)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from configdb_sync.cli.help import command
from configdb_sync.cli.listing import ListOutput, list_options
from configdb_sync.cli.options import BUS, env_option, format_option, node_names, node_option, shown, with_session
from configdb_sync.cli.output import show_json, show_note
from configdb_sync.clock import SystemClock
from configdb_sync.errors import BusError, NodeError, ProductError, StateError
from configdb_sync.exits import Exit, exit_of
from configdb_sync.http import urls
from configdb_sync.masking import is_secret_name
from configdb_sync.settings import READERS

if TYPE_CHECKING:
    from configdb_sync.cli.command_session import Session
    from configdb_sync.nodes.mcollective import NodeCheck

_PATIENCE = 5.0
_LONGEST = 20.0
_SHOWN = 5
_SKEW = 30.0


@dataclass(frozen=True)
class Check:
    """The test of one peer: what was found, or what is wrong. With neither it was not tested, and ``why`` says why."""

    name: str
    found: str | None = None
    error: ProductError | None = None
    why: str = "not used"

    @property
    def mark(self) -> str:
        """``ok``, ``FAIL`` or ``-``."""
        return "FAIL" if self.error is not None else "-" if self.found is None else "ok"

    @property
    def json(self) -> dict[str, Any]:
        """The check as the JSON output has it."""
        return {
            "name": self.name,
            "result": {"ok": "ok", "FAIL": "failed", "-": "unused"}[self.mark],
            "found": self.found,
            "what": None if self.error is None else self.error.what,
            "way_out": None if self.error is None else self.error.way_out,
        }


@command("doctor", example="configdb-sync doctor --env 1")
@with_session(*READERS)
@env_option("Also look for this environment at the peers.", required=False)
@format_option("text", "json")
def doctor(session: Session, *, environment: int | None, form: str) -> Exit:
    """Show all settings and test every connection.

    Shows each setting with its origin, then tests each peer. Changes nothing except the state folder.
    """
    rows = list(_settings(session))
    if form == "text":
        click.echo("Settings:")
        for name, value, origin in rows:
            click.echo(f"  {name:<20} {value}  ({origin})")
        click.echo("Peers:")
    checks = []
    for check in _checks(session, environment):
        checks.append(check)
        if form == "text":
            click.echo(f"  {check.mark:<5} {check.name:<13} {check.error or check.found or check.why}")
    failed = [check.error for check in checks if check.error is not None]
    if form == "json":
        settings = [{"name": name, "value": value, "origin": origin} for name, value, origin in rows]
        show_json({"settings": settings, "peers": [check.json for check in checks]})
    else:
        click.echo(f"{len(failed)} of {len(checks)} failed." if failed else "Everything in use works.")
    return exit_of(failed[0]) if failed else Exit.OK


def _settings(session: Session) -> Iterator[tuple[str, str, str]]:
    """Yield name, value fit to be shown, and origin of each setting and of keystoneauth's variables."""
    settings = session.settings
    for name in READERS:
        yield name, _shown(name, getattr(settings, name)), settings.origins[name]
    for name, value in sorted(settings.login.items()):
        text = "(set, not shown)" if is_secret_name(name) else urls.shown(value)
        yield name, text, settings.login_origins[name]


def _shown(name: str, value: Any) -> str:
    """Return a setting's value without any password in it."""
    from configdb_sync.store.engine import parsed

    if value is None or value == ():
        return "-"
    if name.endswith("database"):
        try:
            url = parsed(str(value), name)
        except StateError:
            return "(no database URL)"
        return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)
    text = shown(value)
    return urls.shown(text) if "://" in text else text


def _checks(session: Session, environment: int | None) -> Iterator[Check]:
    used = _uses_bus(session)
    tests: dict[str, Callable[[], str | None]] = {
        "state folder": lambda: str(session.state.folder),
        "database": lambda: _database(session),
        "Keystone": lambda: _keystone(session),
        "ConfigDB": lambda: _configdb(session, environment),
        "Nailgun": lambda: _nailgun(session, environment),
        "broker": lambda: _brokers(session) if used else None,
    }
    reached = False
    for name, test in tests.items():
        check = _tested(name, test)
        reached = check.found is not None
        yield check
    if used and not reached:
        yield Check("nodes", why="not tested: they can't be reached without the broker")
    else:
        yield _tested("nodes", lambda: _nodes(session, environment) if used else None)


def _tested(name: str, test: Callable[[], str | None]) -> Check:
    try:
        return Check(name, test())
    except ProductError as error:
        return Check(name, error=error)


def _database(session: Session) -> str:
    with closing(session.records()) as database:
        encrypted = " (encrypted)" if database.sealing.on else ""
    return f"{_shown('database', session.settings.database or session.state.database_url)}{encrypted}"


def _keystone(session: Session) -> str | None:
    from configdb_sync.configdb.connect import CATALOG

    settings, environ = session.settings, session.environ
    if not environ.get("OS_AUTH_URL") and not environ.get("OS_CLOUD"):
        return None
    if not settings.names_user and settings.configdb != CATALOG:
        # On a master the plugin always names Keystone, even if nothing in use needs it.
        return None
    # Late: keystoneauth takes longer to load than all the rest.
    from configdb_sync.http.transport import TransferLimits
    from configdb_sync.keystone.login import read_login
    from configdb_sync.nailgun.connect import Trust, trust_in

    trust = Trust()
    if settings.nailgun is not None:
        trust = trust_in(settings.nailgun_ca).of_keystone(environ, settings.nailgun)
    limits = TransferLimits(connect=5.0, read=20.0, total=30.0)
    login = read_login(environ, default_ca=trust.file, any_name=trust.any_name, limits=limits)
    login.token()
    return f"{login.where} gives a token{' (certificate not verified)' if login.cloud.insecure else ''}"


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
    from configdb_sync.nailgun.roster import why_not

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


def _uses_bus(session: Session) -> bool:
    """Tell whether the settings name MCollective's, or Fuel's are in their usual place."""
    settings = session.settings
    if settings.origins["mco_config"] != "default":
        return True
    try:
        # Other installations of MCollective do not concern the product.
        return b"rabbitmq" in settings.mco_config.read_bytes()
    except OSError:
        return settings.mco_config.exists()


def _brokers(session: Session) -> str:
    """Test each broker of the pool. Raises ``SettingsError``, ``BusError``."""
    from configdb_sync.cli.sources import bus_settings
    from configdb_sync.mcollective.broker import try_broker

    settings = bus_settings(session.settings)
    found, failed = [], []
    for host in settings.hosts:
        try:
            found.append(try_broker(host, settings, SystemClock(), f"doctor-{secrets.token_hex(6)}"))
        except BusError as error:
            failed.append(error)
    if len(failed) > 1:
        raise BusError("; ".join(error.what for error in failed), way_out=failed[0].way_out)
    if failed:
        raise failed[0]
    return f"{', '.join(found)} takes user {settings.hosts[0].user!r}, both exchanges work"


def _nodes(session: Session, environment: int | None) -> str:
    """Test the nodes of an environment, by Nailgun, or all that answer.

    Raises ``BusError``, and ``NodeError`` if a node can't be worked on.
    """
    from configdb_sync.cli.sources import bus_settings
    from configdb_sync.mcollective.client import BusRpc
    from configdb_sync.names import natural_key
    from configdb_sync.nodes.mcollective import MASTER, NodeCheck, check_over_bus
    from configdb_sync.nodes.node_files import is_plain

    clock = SystemClock()
    expected = _expected(session, environment)
    timeout = min(session.settings.mco_timeout, _LONGEST)
    with BusRpc(bus_settings(session.settings)) as rpc:
        answering = rpc.discover(timeout=_PATIENCE, expected=expected or ())
        there = [name for name in answering if name != MASTER and is_plain(name)]
        names = sorted(there if expected is None else expected, key=natural_key)
        if not there:
            raise BusError(
                f"no node answers within {_PATIENCE:g} s",
                way_out="check that nodes are on, and that mcollective runs on them with the master's psk",
            )
        tested = check_over_bus(
            rpc, [name for name in names if name in there], timeout=timeout, now=lambda: clock.now().timestamp()
        )
    silent = [name for name in names if name not in there]
    trials = [*tested, *(NodeCheck(name, error=_silent(name)) for name in silent)]
    faults = [trial.error for trial in trials if trial.error is not None]
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        first = "; ".join(f"node {fault.node}: {fault.what}" for fault in faults[:_SHOWN])
        raise NodeError(f"{len(faults)} of {len(trials)} can't be worked on: {first}{more}", way_out=faults[0].way_out)
    files = sum(trial.files for trial in trials)
    return f"{len(trials)} answer, both agents work, {files} settings files{_skew(trials)}"


def _expected(session: Session, environment: int | None) -> list[str] | None:
    """Return the nodes that should answer, None if this is unknown."""
    from configdb_sync.nailgun.roster import why_not

    if environment is None:
        return None
    try:
        client = session.nailgun()
        if client is None:
            return None
        with client:
            return [node.identity for node in client.nodes(environment) if why_not(node) is None]
    except ProductError:
        return None  # Nailgun's own line shows the error.


def _silent(name: str) -> NodeError:
    return NodeError(
        f"doesn't answer within {_PATIENCE:g} s",
        way_out="check that it is on, and that mcollective runs on it with the master's psk",
        node=name,
    )


def _skew(trials: Sequence[NodeCheck]) -> str:
    apart = [trial for trial in trials if abs(trial.ahead) > _SKEW]
    first = [f"node {trial.identity} by {trial.ahead:+.0f} s" for trial in apart[:_SHOWN]]
    return f"; clocks differ from this one's: {', '.join(first)}" if first else ""


@command("ping", example="configdb-sync ping --node 1,2,3")
@with_session("state", *BUS)
@node_option
@list_options("answered", "node", "answered")
def ping(session: Session, *, nodes: tuple[str, ...], output: ListOutput) -> Exit:
    """Show which nodes answer over MCollective.

    Waits 5 seconds, or as long as --mco-timeout says; with --node only until these nodes have answered. Changes
    nothing.
    """
    from configdb_sync.cli.sources import open_bus

    settings = session.settings
    timeout = settings.mco_timeout if settings.origins["mco_timeout"] == "--mco-timeout" else _PATIENCE
    expected = node_names(nodes)
    with open_bus(settings) as bus:
        found = bus.discover(timeout=timeout, expected=expected)
    missing = [name for name in expected if name not in found]
    if not output.is_own:
        rows = [{"node": name, "answered": name in found} for name in (*found, *missing)]
        output.show(found, {"missing": missing}, rows=rows)
    else:
        for name in found:
            click.echo(name)
        show_note(f"{len(found)} nodes answered" + (f", missing: {', '.join(missing)}" if missing else ""))
    if not found:
        return Exit.NODES
    return Exit.PARTIAL if missing else Exit.OK
