"""``configdb-sync simulate``: nodes that aren't there, to rehearse runs on."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import click

from configdb_sync.cli.bus import bus_settings
from configdb_sync.cli.options import BUS, ENVIRONMENT, Session, settings_options
from configdb_sync.clock import SystemClock
from configdb_sync.errors import SettingsError
from configdb_sync.exits import Exit
from configdb_sync.mcollective.bus_settings import BusSettings
from configdb_sync.mcollective.client import BusRpc
from configdb_sync.nodes.names import natural_key
from configdb_sync.simulator.bus import Simulator
from configdb_sync.simulator.faults import Kind, parse
from configdb_sync.simulator.made import made
from configdb_sync.simulator.nodes import SimulatedNodes
from configdb_sync.simulator.tree import Tree, load

_LOOK = 2.0


@click.command()
@settings_options(*BUS)
@click.option("--nodes", "count", type=click.IntRange(1, 5000), metavar="N", help="How many nodes (default: 4).")
@click.option("--env", "environment", type=ENVIRONMENT, default=1, show_default=True, metavar="N")
@click.option("--from", "folder", metavar="DIR", help="Be the nodes of this folder of trees: node-<id>/etc/hiera/...")
@click.option("--fault", "faults", multiple=True, metavar="NODE=KIND", help=f"What nodes do wrong: {', '.join(Kind)}.")
def simulate(
    session: Session, *, count: int | None, environment: int, folder: str | None, faults: tuple[str, ...]
) -> Exit:
    """Be nodes on the bus, in memory, until interrupted. Nothing is written anywhere.

    For rehearsals, best on a broker (or a vhost) of their own: whoever asks on this one reaches these nodes too.
    """
    settings = bus_settings(session.settings)
    trees = _trees(count, environment, folder)
    _check_free(settings, set(trees))
    nodes = SimulatedNodes(trees, settings.signer, parse(faults))
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    host = settings.hosts[0]
    Simulator(settings, nodes, SystemClock()).run(
        stop.is_set, lambda: click.echo(f"{len(trees)} nodes answer on {host}; end with Ctrl-C")
    )
    click.echo(f"{nodes.asked} requests")
    return Exit.OK


def _trees(count: int | None, environment: int, folder: str | None) -> dict[str, Tree]:
    if folder is None:
        return {str(number): Tree(made(str(number), environment)) for number in range(1, (count or 4) + 1)}
    found = sorted(Path(folder).glob("node-*"), key=lambda path: natural_key(path.name))
    if not found:
        raise SettingsError(f"{folder} holds no node-<id> folders", way_out="give a folder of node trees")
    try:
        return {path.name.removeprefix("node-"): Tree(load(path)) for path in found[:count]}
    except OSError as error:
        raise SettingsError(f"{folder} can't be read: {error.strerror}") from error


def _check_free(settings: BusSettings, identities: set[str]) -> None:
    with BusRpc(settings) as bus:
        there = identities & set(bus.discover(timeout=_LOOK))
    if there:
        names = ", ".join(sorted(there, key=natural_key)[:5])
        raise SettingsError(f"nodes of these names answer on this bus: {names}", way_out="use a broker of your own")
