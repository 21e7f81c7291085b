"""The commands about what was: history, diff, revert, overrides (U17)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import click

from configdb_sync.cli import arguments
from configdb_sync.cli.options import STORED_ENVIRONMENT, Session, configdb_options
from configdb_sync.configdb import typed
from configdb_sync.configdb.change import OVERRIDES, VALUES, Place
from configdb_sync.configdb.model import OverrideNote, Version
from configdb_sync.errors import SettingsError
from configdb_sync.sync.diff import changes as differences
from configdb_sync.sync.history import histories

_kind_option = click.option(
    "--values", "kind", flag_value=VALUES, default=OVERRIDES, help="Of the values instead of the overrides."
)
_format_option = click.option(
    "--format", "-f", "form", type=click.Choice(typed.FORMATS), default="plain", show_default=True
)


@click.command("history")
@arguments.place_options(key=False)
@_kind_option
@_format_option
def history_command(
    session: Session, *, env: int, data_source: str, levels: tuple[str, ...], kind: str, form: str
) -> None:
    """List the versions of the overrides of a data source at a level: who, when, which run, why."""
    with session.client() as client:
        place = arguments.place(session, client, env, levels, data_source)
        found = histories(client, session.versions).history(place, kind)
    if form != "plain":
        click.echo(typed.text([dataclasses.asdict(version) for version in found], form))
        return
    if not found:
        click.echo(f"{data_source} at {place.level_text} has no {kind}.")
    for version in found:
        click.echo(_row(f"{version.number:>4}", version.time, version.author, version.run, version.comment))


@click.command("diff")
@arguments.place_options(key=False)
@_kind_option
@click.option("--from", "old", type=int, metavar="VERSION", help="Default: the one before --to.")
@click.option("--to", "new", type=int, metavar="VERSION", help="Default: the newest.")
def diff_command(
    session: Session,
    *,
    env: int,
    data_source: str,
    levels: tuple[str, ...],
    kind: str,
    old: int | None,
    new: int | None,
) -> None:
    """Show what changed between two versions, secrets masked."""
    with session.client() as client:
        place = arguments.place(session, client, env, levels, data_source)
        past = histories(client, session.versions)
        versions = past.history(place, kind)
        to = _chosen(versions, new, place, kind)
        before = [version for version in versions if version.number < to.number]
        since = _chosen(before if old is None else versions, old, place, kind) if before or old is not None else None
        number = since.number if since else 0
        one = past.version(place, kind, number) if since else {}
        other = past.version(place, kind, to.number)
    click.echo(f"{data_source} at {place.level_text}, {kind}: version {number} to {to.number}")
    for change in differences(one, other, session.masker):
        sides = " -> ".join(text for text in (change.before, change.after) if text is not None)
        click.echo(f"  {change.sign} {typed.shown_path(change.path)}: {sides}")


@click.command("revert")
@arguments.place_options(key=False)
@_kind_option
@click.option("--to", "number", type=click.IntRange(0), metavar="VERSION", help="Default: the one before the newest.")
@arguments.comment_option
def revert_command(
    session: Session,
    *,
    env: int,
    data_source: str,
    levels: tuple[str, ...],
    kind: str,
    number: int | None,
    comment: str | None,
) -> None:
    """Go back to an older version of the overrides of a data source at a level."""
    with session.client(comment=comment) as client:
        place = arguments.place(session, client, env, levels, data_source)
        past = histories(client, session.versions)
        number = _earlier(past.history(place, kind), place, kind) if number is None else number
        arguments.report(past.revert(place, kind, number), "gone back in")
    if kind == VALUES:
        arguments.warn_of_node(place)


@click.command("overrides")
@click.option("--env", type=STORED_ENVIRONMENT, required=True, help="The environment's number.")
@_format_option
@configdb_options
def overrides_command(session: Session, *, env: int, form: str) -> None:
    """List all overrides of an environment: where, who, when, and whether each has any effect."""
    with session.client() as client:
        found = client.overrides_of(env)
    if form != "plain":
        click.echo(typed.text([dataclasses.asdict(note) for note in found], form))
        return
    if not found:
        click.echo(f"environment {env} has no overrides.")
    for note in found:
        click.echo(_row(f"{note.data_source} at {note.place}", note.time, note.author, note.run, note.comment))
        for line in _effects(note):
            click.echo(line)


COMMANDS = (history_command, diff_command, revert_command, overrides_command)


def _effects(note: OverrideNote) -> list[str]:
    lines = []
    for key in note.keys:
        hidden = f"{key.hidden_by} {'place' if key.hidden_by == 1 else 'places'} further in have the key too"
        why: dict[tuple[str, str | None], str] = {
            ("none", "equal"): "  (no effect: the value under it is the same)",
            ("none", "hidden"): f"  (no effect: all {hidden})",
            ("partial", "hidden"): f"  ({hidden})",
        }
        lines.append(f"    {typed.shown_path((key.key,))}{why.get((key.effect, key.reason), '')}")
    return lines


def _chosen(versions: Sequence[Version], number: int | None, place: Place, kind: str) -> Version:
    found = next((version for version in versions if number in {None, version.number}), None)
    if found is None:
        kept = ", ".join(str(version.number) for version in versions) or "none"
        what = "has no versions" if number is None else f"has no version {number}"
        raise SettingsError(f"{place.data_source} at {place.level_text}, {kind}: it {what}", way_out=f"kept: {kept}")
    return found


def _earlier(versions: Sequence[Version], place: Place, kind: str) -> int:
    """Return the number of the version before the newest, 0 where the newest is the first of all."""
    newest = _chosen(versions, None, place, kind)
    return next((version.number for version in versions if version.number < newest.number), 0)


def _row(*cells: Any) -> str:
    """Return cells with two spaces between, unprintable characters shown as ``?``, empty ones left out."""
    text = "  ".join(str(cell) for cell in cells if cell)
    return "".join(character if character.isprintable() else "?" for character in text)
