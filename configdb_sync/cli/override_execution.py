"""Carries out ``override`` and ``rm-override``: checks everything, then shows or writes it (U16, U25)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import click

from configdb_sync.cli.dry_run import show_effect
from configdb_sync.cli.output import show_note
from configdb_sync.cli.override_checks import NodesBelow
from configdb_sync.cli.override_notes import OverrideReason
from configdb_sync.cli.targets import AT_NEXT_SYNC, Allowed, ValueTarget, report
from configdb_sync.configdb import changes, edits
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.configdb.model import OVERRIDES, DocumentAddress
from configdb_sync.configdb.preview import PendingEdit, previewed
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import Document, Json
from configdb_sync.names import RECORDS, LevelPath
from configdb_sync.overrides.note_store import copy_noted, rewrite_noted
from configdb_sync.overrides.notes import time_text
from configdb_sync.sync import standing_overrides

_SHOWN = 12


@dataclass(frozen=True)
class _PendingOverride:
    edit: PendingEdit
    path: KeyPath | None
    content: Json


@dataclass(frozen=True)
class _Copied:
    """Overrides of another node, and where they are to be copied."""

    place: DocumentAddress
    source: DocumentAddress
    overrides: dict[str, Json]

    def beneath(self, document: dict[str, Json]) -> dict[str, Json]:
        """Return the overrides that the place has then: its own win."""
        return {**self.overrides, **document}


def override(
    target: ValueTarget,
    wanted: Sequence[tuple[KeyPath | None, Json]],
    about: OverrideReason,
    allowed: Allowed,
    *,
    all_nodes: bool,
    dry_run: bool,
) -> None:
    """Override keys (None is a whole data source) at all places of the target, for all nodes with ``all_nodes``.

    Everything is checked before anything is written. Raises ``SettingsError`` as ``NodesBelow`` and ``edits.put``.
    """
    with target.session.client(comment=about.text) as client, target.session.notes(client) as notes:
        places = target.level_paths(client)
        below = NodesBelow(target.session, client, target.environment, places, allowed)
        pending, hidden = [], []
        for path, content in wanted:
            name = target.data_source or below.source_of(path or ())
            first = changes.find(client, target.environment, places[0], name)
            hidden += [] if path is None else below.check(name, path, content)
            if all_nodes and path is not None:
                _override_all(replace(target, data_source=name), client, path, content, dry_run=dry_run)
                return
            for place in (replace(first, levels=levels) for levels in places):
                make = changes.overriding(client, place, path, content)
                pending.append(_PendingOverride(PendingEdit(place, OVERRIDES, make), path, content))
        # What can't be made is refused before anything is written.
        preview = previewed(client, [one.edit for one in pending])
        if dry_run:
            show_effect(target.session, client, preview, [one.edit.place for one in pending])
        else:
            for one in pending:
                place = one.edit.place
                new = about.notes(place, one.path, one.content, target.session.author)
                report(rewrite_noted(notes, place, one.path, one.edit.make, new), "overridden")
    for line in hidden:
        show_note(line)
    if not dry_run:
        _say_more(pending, about)


def _say_more(pending: Sequence[_PendingOverride], about: OverrideReason) -> None:
    """Print what the author of overrides should know beside what was changed."""
    if about.until is not None:
        click.echo(f"It ends at {time_text(about.until)}: the first run after that removes it.")
    for top in dict.fromkeys(one.path[0] for one in pending if one.path is not None and len(one.path) > 1):
        click.echo(f"The whole block {top!r} keeps its present content: ConfigDB merges whole top-level keys.")
    if not all(one.edit.place.innermost for one in pending):
        show_note("Note: a value or override of the same key at a deeper level takes precedence.")


def copy_overrides(target: ValueTarget, node: str, comment: str | None, *, dry_run: bool) -> None:
    """Override at the target what is overridden at another node, in all data sources if the target names none.

    Raises as ``changes.overrides_beside``.
    """
    session, environment = target.session, target.environment
    with session.client(comment=comment) as client, session.notes(client) as notes:
        value = session.addresses(client, environment).named_value(node, lambda: session.seen(environment))
        levels = target.level_paths(client)
        copied: list[_Copied] = []
        for name in _data_sources(target, client):
            first = changes.find(client, environment, levels[0], name)
            try:
                source, found = changes.overrides_beside(client, first, value, node)
            except edits.NotOverriddenError:
                if target.data_source:
                    raise
            else:
                copied += [_Copied(replace(first, levels=path), source, found) for path in levels]
        if not copied:
            raise edits.NotOverriddenError(
                f"node {node} has no overrides", way_out=f"`configdb-sync overrides --env {environment}` lists them"
            )
        if dry_run:
            edit = [PendingEdit(one.place, OVERRIDES, one.beneath) for one in copied]
            show_effect(session, client, previewed(client, edit), [one.place for one in copied])
            return
        for one in copied:
            report(copy_noted(notes, one.place, one.source, one.overrides), "overridden")


def _override_all(target: ValueTarget, client: ConfigDBClient, path: KeyPath, content: Json, *, dry_run: bool) -> None:
    if dry_run:
        _show_all(
            target,
            client,
            lambda place, overrides: None if path[0] in overrides else changes.overriding(client, place, path, content),
        )
        return
    outcome = standing_overrides.set_for_all_nodes(
        client,
        target.session.addresses(client, target.environment),
        target.session.seen(target.environment),
        standing_overrides.StandingOverride(target.data_source, path, content),
    )
    click.echo(f"{target.data_source}: {edits.shown_key(path)} is overridden for all nodes, also for future ones.")
    _say_nodes("Overridden in ConfigDB for", outcome.done)
    _say_nodes("Skipped, because they have their own override:", outcome.kept)
    _say_nodes("Left to the next sync, because their levels are unknown here:", outcome.untold)
    click.echo(AT_NEXT_SYNC)


def remove(target: ValueTarget, paths: Sequence[KeyPath | None], comment: str | None, *, dry_run: bool) -> None:
    """Remove the overrides of keys, None for all, at all places of the target.

    Raises ``edits.NotOverriddenError`` for a key that is overridden at none of them.
    """
    with target.session.client(comment=comment) as client, target.session.notes(client) as notes:
        places = target.level_paths(client)
        pending: list[tuple[PendingEdit, KeyPath | None]] = []
        for path in paths:
            if path is None or target.data_source:
                found = _removals(target, client, places, target.data_source, path)
            else:
                found = _removals_anywhere(target, client, places, path)
            pending += [(edit, path) for edit in found]
        edits_made = [edit for edit, _ in pending]
        preview = previewed(client, edits_made)
        if dry_run:
            show_effect(target.session, client, preview, [edit.place for edit in edits_made])
            return
        for edit, path in pending:
            report(rewrite_noted(notes, edit.place, path, edit.make), "no longer overridden")


def _removals(
    target: ValueTarget, client: ConfigDBClient, places: Sequence[LevelPath], data_source: str, path: KeyPath | None
) -> list[PendingEdit]:
    """Return what removes the overrides of a key, at those places that have one. Raises as ``remove``."""
    found, skipped = [], None
    first = changes.find(client, target.environment, places[0], data_source)
    for place in (replace(first, levels=levels) for levels in places):
        edit = PendingEdit(place, OVERRIDES, changes.freeing(client, place, path))
        try:
            previewed(client, [edit])
        except edits.NotOverriddenError as error:
            skipped = skipped or error
        else:
            found.append(edit)
    if skipped is not None and not found:
        raise skipped
    return found


def _removals_anywhere(
    target: ValueTarget, client: ConfigDBClient, places: Sequence[LevelPath], path: KeyPath
) -> list[PendingEdit]:
    """Return the same in the one data source that has an override of the key there.

    Raises as ``remove``, and ``SettingsError`` if several have one.
    """
    found = {}
    for name in _data_sources(target, client):
        with suppress(edits.NotOverriddenError):
            found[name] = _removals(target, client, places, name, path)
    key = edits.shown_key(path)
    if not found:
        raise edits.NotOverriddenError(
            f"{key} is overridden in no data source there",
            way_out=f"`configdb-sync overrides --env {target.environment}` lists them",
        )
    if len(found) > 1:
        raise SettingsError(f"{key} is overridden in {' and '.join(found)}", way_out="name one with --data-source")
    ((name, removals),) = found.items()
    show_note(f"{key} is overridden in {name}.")
    return removals


def _data_sources(target: ValueTarget, client: ConfigDBClient) -> list[str]:
    if target.data_source:
        return [target.data_source]
    return sorted({*client.definitions(changes.existing(client, target.environment))} - {RECORDS})


def end_all(target: ValueTarget, path: KeyPath, comment: str | None, *, dry_run: bool) -> None:
    """End a standing override. Raises ``SettingsError`` if there is none."""
    session, environment = target.session, target.environment
    with session.client(comment=comment) as client:
        if dry_run:
            order = standing_overrides.find(client, environment, target.data_source, path)
            _show_all(
                target,
                client,
                lambda place, overrides: (
                    changes.freeing(client, place, path) if standing_overrides.holds(overrides, order) else None
                ),
            )
            return
        addresses = session.addresses(client, environment)
        outcome = standing_overrides.end_for_all_nodes(
            client, addresses, session.seen(environment), target.data_source, path
        )
    click.echo(f"{target.data_source}: {edits.shown_key(path)} is no longer overridden for all nodes.")
    _say_nodes("Removed from", outcome.done)
    _say_nodes("Skipped, because their override was changed since:", outcome.kept)
    _say_nodes("Skipped, because their levels are unknown here (use --level):", outcome.untold)
    click.echo("The nodes get their own value at the next `configdb-sync sync`.")


def _show_all(
    target: ValueTarget,
    client: ConfigDBClient,
    made: Callable[[DocumentAddress, Document], changes.Make | None],
) -> None:
    """Show what a change of the overrides of all nodes would give; ``made`` gives that of a node, None for none."""
    addresses = target.session.addresses(client, target.environment)
    seen, outcome = target.session.seen(target.environment), standing_overrides.NodesOutcome()
    pending = [
        PendingEdit(place, OVERRIDES, make)
        for _, place, overrides in standing_overrides.node_overrides(
            client, addresses, seen, target.data_source, outcome
        )
        if (make := made(place, overrides)) is not None
    ]
    show_effect(target.session, client, previewed(client, pending), [one.place for one in pending])


def _say_nodes(text: str, nodes: list[str]) -> None:
    if nodes:
        more = f", ... ({len(nodes)})" if len(nodes) > _SHOWN else ""
        click.echo(f"{text} {'node' if len(nodes) == 1 else 'nodes'} {', '.join(nodes[:_SHOWN])}{more}.")
