"""``configdb-sync gc``: what is left of nodes that are no more."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import click

from configdb_sync.cli.options import CONNECTION, ENVIRONMENT, NAILGUN, Session, settings_options
from configdb_sync.cli.output import show_json, show_lines
from configdb_sync.clock import SystemClock
from configdb_sync.errors import EnvironmentMismatchError, ProductError, SettingsError
from configdb_sync.exits import Exit
from configdb_sync.nodes.directory import DirectoryNodes
from configdb_sync.store.lease import run_lock
from configdb_sync.store.opening import open_store
from configdb_sync.sync.gc import Collector, Leftovers, Present
from configdb_sync.sync.render.json_values import leftover_json
from configdb_sync.sync.render.text import leftover_lines, removal_lines
from configdb_sync.sync.run_options import RunOptions


@click.command("gc")
@settings_options(*CONNECTION, "levels", *NAILGUN, "wait")
@click.option(
    "--env",
    "environment",
    type=ENVIRONMENT,
    required=True,
    metavar="N",
    help="The environment's number.",
)
@click.option("--from", "place", metavar="DIR", help="Folder of node trees: what is in it is there.")
@click.option("--remove", is_flag=True, help="Take it away; what is under an override stays.")
@click.option("--remove-overrides", is_flag=True, help="With --remove: what is under an override too.")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def gc_command(
    session: Session, *, environment: int, place: str | None, remove: bool, remove_overrides: bool, output: str
) -> Exit:
    """Show what ConfigDB and our records hold of nodes that are no more; take it away with --remove.

    A node is no more if neither the folder of --from nor Nailgun (--nailgun) has it; at least one must be given.
    """
    if remove_overrides and not remove:
        raise SettingsError("--remove-overrides says what --remove takes away", way_out="give --remove too")
    present = _present(session, environment, place)
    options = RunOptions(environment=environment, levels=session.settings.levels)
    gone: dict[str, tuple[str, ...]] | None = None
    problems: list[ProductError] = []
    with ExitStack() as stack:
        client = stack.enter_context(session.client(comment="gc: the node is no more"))
        database = open_store(session.database)
        stack.callback(database.close)
        if remove:
            stack.enter_context(run_lock(session.state.folder, environment, session.settings.wait, SystemClock()))
        collector = Collector(client, database, options)
        found = collector.find(present)
        if output == "text":
            # What goes is said before it goes.
            show_lines(leftover_lines(found, removes=remove, overrides=remove_overrides))
        if remove:
            gone = {}
            for node in found.nodes:
                gone[node.identity], failed = collector.remove(node, overrides=remove_overrides)
                problems += failed
    _show_end(found, gone, problems, overrides=remove_overrides, output=output)
    return Exit.PARTIAL if problems else Exit.OK


def _show_end(
    found: Leftovers,
    gone: dict[str, tuple[str, ...]] | None,
    problems: list[ProductError],
    *,
    overrides: bool,
    output: str,
) -> None:
    if output == "json":
        show_json(leftover_json(found, gone, problems))
    elif gone:
        show_lines(removal_lines(found, gone, problems, overrides=overrides))


def _present(session: Session, environment: int, place: str | None) -> Present:
    nailgun = session.nailgun()
    if nailgun is None and place is None:
        raise SettingsError("nothing says which nodes there are", way_out="give --from DIR, or --nailgun URL, or both")
    nodes: dict[str, set[str]] = {}
    places: set[str] = set()
    known = True
    if place is not None:
        directory = DirectoryNodes(Path(place), env=environment)
        nodes.update((identity, set()) for identity in directory.identities())
        places.add(directory.place)
    if nailgun is not None:
        with nailgun:
            try:
                for node in nailgun.nodes(environment):
                    nodes.setdefault(node.identity, set()).update([node.fqdn] if node.fqdn else [])
            except EnvironmentMismatchError:
                known = False
    return Present(nodes, places, all_places=nailgun is not None, environment=known)
