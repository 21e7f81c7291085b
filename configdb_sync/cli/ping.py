"""``configdb-sync ping``: which nodes answer over MCollective."""

from __future__ import annotations

from typing import Any

import click

from configdb_sync.cli.bus import open_bus
from configdb_sync.cli.options import BUS, Session, node_names, settings_options
from configdb_sync.cli.output import show_json
from configdb_sync.exits import Exit

_WAIT = 5.0


@click.command()
@settings_options("state", *BUS)
@click.option("--node", "nodes", multiple=True, metavar="LIST", help="These nodes should answer: ids, with commas.")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def ping(session: Session, *, nodes: tuple[str, ...], output: str) -> Exit:
    """Show which nodes answer over MCollective. Changes nothing.

    Waits 5 seconds, or as long as --mco-timeout says; with --node no longer than until these have answered.
    """
    settings = session.settings
    timeout = settings.mco_timeout if settings.origins["mco_timeout"] == "--mco-timeout" else _WAIT
    expected = node_names(nodes)
    with open_bus(settings) as bus:
        found = bus.discover(timeout=timeout, expected=expected)
    missing = [name for name in expected if name not in found]
    if output == "json":
        result: dict[str, Any] = {"answered": found, "missing": missing}
        show_json(result)
    else:
        for name in found:
            click.echo(name)
        click.echo(f"{len(found)} nodes answered" + (f", missing: {', '.join(missing)}" if missing else ""), err=True)
    if not found:
        return Exit.NODES
    return Exit.PARTIAL if missing else Exit.OK
