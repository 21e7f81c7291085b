"""What ``doctor`` tries of the way to the nodes: the brokers, then the nodes themselves (U3, U8)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from configdb_sync.cli.bus import bus_settings
from configdb_sync.cli.options import Session
from configdb_sync.clock import SystemClock
from configdb_sync.errors import BusError, NodeError, ProductError
from configdb_sync.mcollective.broker import try_broker
from configdb_sync.mcollective.client import BusRpc
from configdb_sync.nailgun.roster import why_not
from configdb_sync.names import natural_key
from configdb_sync.nodes.mcollective import MASTER
from configdb_sync.nodes.node_files import is_plain
from configdb_sync.nodes.selfcheck import NodeCheck, check_over_bus

_PATIENCE = 5.0
_LONGEST = 20.0
_SHOWN = 5
_SKEW = 30.0


def uses_bus(session: Session) -> bool:
    """Tell whether the settings lead to a bus: they name MCollective's, or Fuel's are where they usually are."""
    settings = session.settings
    if settings.origins["mco_config"] != "default":
        return True
    try:
        # Other installations of MCollective are none of ours.
        return b"rabbitmq" in settings.mco_config.read_bytes()
    except OSError:
        return settings.mco_config.exists()


def check_brokers(session: Session) -> str:
    """Try each broker of the pool; return what was found. Raises ``SettingsError``, ``BusError``."""
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


def check_nodes(session: Session, environment: int | None) -> str:
    """Try the nodes of an environment, by Nailgun, or all that answer; return what was found. Raises ``BusError``,
    ``NodeError`` if any node can't be worked on."""
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
                way_out="see that nodes are on, and that mcollective runs on them with the master's psk",
            )
        tried = check_over_bus(
            rpc, [name for name in names if name in there], timeout=timeout, now=lambda: clock.now().timestamp()
        )
    silent = [name for name in names if name not in there]
    trials = [*tried, *(NodeCheck(name, error=_silent(name)) for name in silent)]
    faults = [trial.error for trial in trials if trial.error is not None]
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        told = "; ".join(f"node {fault.node}: {fault.what}" for fault in faults[:_SHOWN])
        raise NodeError(f"{len(faults)} of {len(trials)} can't be worked on: {told}{more}", way_out=faults[0].way_out)
    return (
        f"{len(trials)} answer, both agents work, {sum(trial.files for trial in trials)} settings files{_skew(trials)}"
    )


def _expected(session: Session, environment: int | None) -> list[str] | None:
    """Return who should answer, None if nobody can tell."""
    if environment is None:
        return None
    try:
        client = session.nailgun()
        if client is None:
            return None
        with client:
            return [node.identity for node in client.nodes(environment) if why_not(node) is None]
    except ProductError:
        return None  # it has a line of its own


def _silent(name: str) -> NodeError:
    return NodeError(
        f"doesn't answer within {_PATIENCE:g} s",
        way_out="see that it is on, and that mcollective runs on it with the master's psk",
        node=name,
    )


def _skew(trials: Sequence[NodeCheck]) -> str:
    apart = [trial for trial in trials if abs(trial.ahead) > _SKEW]
    told = [f"node {trial.identity} by {trial.ahead:+.0f} s" for trial in apart[:_SHOWN]]
    return f"; clocks differ from this one's: {', '.join(told)}" if told else ""
