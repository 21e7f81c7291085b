"""Simulated nodes on a bus until interrupted: what ``script/lab --simulate`` does."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from configdb_sync.clock import SystemClock
from configdb_sync.errors import SettingsError
from configdb_sync.mcollective.bus_settings import BusSettings
from configdb_sync.mcollective.client import BusRpc
from configdb_sync.names import natural_key
from tests.support.simulator.bus import Simulator
from tests.support.simulator.faults import parse
from tests.support.simulator.nodes import SimulatedNodes
from tests.support.simulator.tree import Tree, load, made

_LOOK = 2.0
"""Seconds to wait for nodes that answer on the bus already."""


def node_trees(count: int | None, environment: int, folder: Path | None) -> dict[str, Tree]:
    """Return trees by identity: made ones, or the first ``count`` of a folder's. Raises ``SettingsError``."""
    if folder is None:
        return {str(number): Tree(made(str(number), environment)) for number in range(1, (count or 4) + 1)}
    found = sorted(folder.glob("node-*"), key=lambda path: natural_key(path.name))
    if not found:
        raise SettingsError(f"{folder} holds no node-<id> folders", way_out="give a folder of node trees")
    try:
        return {path.name.removeprefix("node-"): Tree(load(path)) for path in found[:count]}
    except OSError as error:
        raise SettingsError(
            f"{folder} can't be read: {error.strerror}", way_out="give a folder of node trees"
        ) from error


def rehearse(settings: BusSettings, trees: Mapping[str, Tree], faults: Sequence[str]) -> None:
    """Be these nodes until SIGINT or SIGTERM. Raises ``SettingsError`` if nodes with their names are on the bus."""
    wrong = parse(faults)
    _check_free(settings, set(trees))
    nodes = SimulatedNodes(trees, settings.signer, wrong)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    host = settings.hosts[0]
    Simulator(settings, nodes, SystemClock()).run(
        stop.is_set, lambda: click.echo(f"{len(trees)} nodes answer on {host}; end with Ctrl-C")
    )
    click.echo(f"{nodes.asked} requests")


def _check_free(settings: BusSettings, identities: set[str]) -> None:
    with BusRpc(settings) as bus:
        there = identities & set(bus.discover(timeout=_LOOK))
    if there:
        names = ", ".join(sorted(there, key=natural_key)[:5])
        raise SettingsError(f"nodes of these names answer on this bus: {names}", way_out="use a broker of your own")
