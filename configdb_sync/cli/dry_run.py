"""``--dry-run``: what a change in ConfigDB would give the nodes that it reaches; nothing is changed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from configdb_sync.cli.node_choice import NamedNodes
from configdb_sync.cli.output import show_lines
from configdb_sync.configdb.changes import Make
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import DocumentAddress
from configdb_sync.configdb.preview import PendingEdit, PreviewClient, previewed
from configdb_sync.errors import UnsupportedError
from configdb_sync.names import LevelPath, natural_key

if TYPE_CHECKING:
    from configdb_sync.cli.command_session import Session


def show_effect(
    session: Session, client: ConfigDBClient, preview: PreviewClient, places: Iterable[DocumentAddress]
) -> None:
    """Print what changes for the nodes at and below some places, by the data that ConfigDB has of them.

    ``preview``: ConfigDB as it would be. Raises ``ConfigDBError``.
    """
    # Late: the rooms of a run, which a change alone needs none of.
    from configdb_sync.sync.diff import changes
    from configdb_sync.sync.render.summary import ChangeGroup
    from configdb_sync.sync.render.text import group_lines

    listed = list(dict.fromkeys(places))
    nodes = _reached(session, client, listed)
    groups: dict[str, ChangeGroup] = {}
    for node in sorted(nodes, key=natural_key):
        path = nodes[node]
        documents = {(one.data_source, one.definition) for one in listed if path[: len(one.levels)] == one.levels}
        for data_source, definition in sorted(documents):
            env = listed[0].env
            before, after = (one.effective(env, path, definition) for one in (client, preview))
            found = changes(before, after, session.masker)
            if found:
                groups.setdefault(data_source, ChangeGroup(data_source, "change")).add(node, found)
    if groups:
        click.echo("What would change on the nodes:")
        show_lines(group_lines(groups.values()))
        click.echo("")
    else:
        click.echo("The nodes would get nothing else than now.")
    click.echo("Nothing was changed (--dry-run).")


def show_edit(session: Session, client: ConfigDBClient, place: DocumentAddress, kind: str, make: Make) -> None:
    """Print as ``show_effect`` what one change gives. Raises what ``make`` raises."""
    show_effect(session, client, previewed(client, [PendingEdit(place, kind, make)]), [place])


def _reached(session: Session, client: ConfigDBClient, places: Iterable[DocumentAddress]) -> dict[str, LevelPath]:
    """Return the nodes at and below some places, by the value of their level, also those that ConfigDB doesn't know."""
    listed = list(places)
    found = {place.levels[-1][1]: place.levels for place in listed if place.innermost}
    if all(place.innermost for place in listed):
        return found
    try:
        known = NamedNodes(session, client, listed[0].env).paths
    except UnsupportedError:  # tuning-box 0.1.0 can't list its nodes.
        return found
    below = [(node, path) for node, path in known.items() for one in listed if path[: len(one.levels)] == one.levels]
    return dict(below) | found
