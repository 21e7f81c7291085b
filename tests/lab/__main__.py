"""``script/lab``: a laboratory to try things in, until it is interrupted."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from pathlib import Path

import click

from configdb_sync.cli.sources import bus_settings
from configdb_sync.errors import ProductError
from configdb_sync.exits import exit_of
from configdb_sync.settings import read_settings
from tests.lab import laboratory
from tests.support.simulator.faults import FaultKind
from tests.support.simulator.rehearsal import node_trees, rehearse


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--nodes", default=4, show_default=True, type=click.IntRange(1, 50), help="How many MCollective daemons.")
@click.option("--debug", is_flag=True, help="Let the daemons log as Fuel's do.")
@click.option(
    "--simulate",
    "count",
    type=click.IntRange(1, 5000),
    metavar="N",
    help="Simulate N nodes in memory instead; no daemon runs and no file is written.",
)
@click.option("--env", "environment", type=click.IntRange(1), default=1, show_default=True, metavar="N")
@click.option(
    "--from",
    "folder",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Simulate the nodes in this folder of trees, node-<id>/etc/hiera/... (with --simulate: the first N).",
)
@click.option(
    "--fault", "faults", multiple=True, metavar="NODE=KIND", help=f"What nodes do wrong: {', '.join(FaultKind)}."
)
@click.option(
    "--mco-config",
    metavar="FILE",
    help="Simulate on the broker that this MCollective client.cfg names, without root (default: the lab's own broker).",
)
def lab(
    *,
    nodes: int,
    debug: bool,
    count: int | None,
    environment: int,
    folder: Path | None,
    faults: tuple[str, ...],
    mco_config: str | None,
) -> None:
    """Run RabbitMQ and MCollective nodes on loopback until interrupted. Needs root.

    With --simulate the nodes are simulated. Use a broker or vhost of their own: every client of the bus reaches them.
    """
    if count is None and folder is None:
        if faults or mco_config is not None:
            raise click.UsageError("--fault and --mco-config need --simulate or --from")
        _run_daemons(nodes, debug=debug)
        return
    trees = node_trees(count, environment, folder)
    if mco_config is not None:
        rehearse(bus_settings(read_settings({"mco_config": mco_config}, os.environ)), trees, faults)
        return
    _check_available()
    with laboratory.running([]) as found:
        click.echo(f"configdb-sync ping --mco-config {found.config}")
        rehearse(found.settings(), trees, faults)


def _check_available() -> None:
    reason = laboratory.unavailable()
    if reason is not None:
        raise click.ClickException(reason)


def _run_daemons(count: int, *, debug: bool) -> None:
    _check_available()
    identities = [str(number) for number in range(1, count + 1)]
    with laboratory.running(identities, level="debug" if debug else "info") as found:
        click.echo(f"configdb-sync ping --mco-config {found.config}")
        for node in found.nodes.values():
            click.echo(f"node {node.identity}: /etc is {node.etc}, its log is {node.folder}/mcollective.log")
        click.echo("Interrupt (Ctrl-C) ends it all.")
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        lab(prog_name="script/lab")
    except ProductError as error:
        click.echo(f"script/lab: {error}", err=True)
        sys.exit(exit_of(error))
