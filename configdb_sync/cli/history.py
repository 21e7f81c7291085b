"""The commands on versions and overrides of an environment: history, diff, revert, overrides (U17)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from configdb_sync.cli.help import command
from configdb_sync.cli.listing import ListOutput, list_options
from configdb_sync.cli.options import CONNECTION, comment_option, env_option, with_session
from configdb_sync.cli.output import show_note
from configdb_sync.cli.targets import ValueTarget, dry_run_option, report, target_options, warn_of_node
from configdb_sync.configdb import typed
from configdb_sync.errors import SettingsError

if TYPE_CHECKING:
    from configdb_sync.cli.command_session import Session
    from configdb_sync.configdb.model import DocumentAddress, DocumentVersion, OverrideNote

_kind_option = click.option(
    "--values", "kind", flag_value="values", default="overrides", help="The values, not the overrides."
)


@command("history", example="configdb-sync history --env 1 --level nodes=3 --data-source globals")
@target_options
@_kind_option
@list_options("versions", "number", "time", "author", "run", "comment", "digest")
def history(target: ValueTarget, *, kind: str, output: ListOutput) -> None:
    """List the versions of overrides or values.

    Shows who changed a data source at a level, when, in which run, and why.
    """
    from configdb_sync.sync.history import histories

    session = target.session
    with session.client() as client:
        place = target.place(client)
        found = histories(client, session.versions).history(place, kind)
    if not output.is_own:
        output.show(map(dataclasses.asdict, found), _about(place, kind))
        return
    if not found:
        click.echo(f"{place.data_source} at {place.level_text} has no {kind}.")
    for version in found:
        click.echo(_row(f"{version.number:>4}", version.time, version.author, version.run, version.comment))


@command("diff", example="configdb-sync diff --env 1 --level nodes=3 --data-source globals --old 2")
@target_options
@_kind_option
@click.option("--old", type=int, metavar="VERSION", help="Older version.  [default: the one before --new]")
@click.option("--new", type=int, metavar="VERSION", help="Newer version.  [default: the newest]")
@list_options("changes", "key", "before", "after")
def diff(target: ValueTarget, *, kind: str, old: int | None, new: int | None, output: ListOutput) -> None:
    """Show the changes between two versions.

    Secrets are masked.
    """
    from configdb_sync.sync.diff import change_json, changes
    from configdb_sync.sync.history import histories

    session = target.session
    with session.client() as client:
        place = target.place(client)
        past = histories(client, session.versions)
        versions = past.history(place, kind)
        to = _chosen(versions, new, place, kind)
        before = [version for version in versions if version.number < to.number]
        since = _chosen(before if old is None else versions, old, place, kind) if before or old is not None else None
        number = since.number if since else 0
        one = past.version(place, kind, number) if since else {}
        other = past.version(place, kind, to.number)
    found = changes(one, other, session.masker)
    if not output.is_own:
        output.show(map(change_json, found), _about(place, kind) | {"old": number, "new": to.number})
        return
    click.echo(f"{place.data_source} at {place.level_text}, {kind}: version {number} to {to.number}")
    for change in found:
        sides = " -> ".join(text for text in (change.before, change.after) if text is not None)
        click.echo(f"  {change.sign} {typed.shown_path(change.path)}: {sides}")


@command("revert", example="configdb-sync revert --env 1 --level nodes=3 --data-source globals --to 2")
@target_options
@_kind_option
@click.option("--to", "number", type=click.IntRange(0), metavar="VERSION", help="Default: the one before the newest.")
@comment_option
@dry_run_option
def revert(target: ValueTarget, *, kind: str, number: int | None, comment: str | None, dry_run: bool) -> None:
    """Go back to an older version.

    Writes the content of that version as a new version.
    """
    from configdb_sync.sync.history import histories

    session = target.session
    with session.client(comment=comment) as client:
        place = target.place(client)
        past = histories(client, session.versions)
        if number is None:
            versions = past.history(place, kind)
            newest = _chosen(versions, None, place, kind).number
            number = next((version.number for version in versions if version.number < newest), 0)
        if dry_run:
            from configdb_sync.cli.dry_run import show_edit

            content = past.version(place, kind, number) if number else {}
            show_edit(session, client, place, kind, lambda _: content)
        else:
            report(past.revert(place, kind, number), "reverted")
    if kind == "values":
        warn_of_node(place)


@command("list", example="configdb-sync overrides list --env 1 --expiring 7d")
@with_session(*CONNECTION)
@env_option(lowest=0)
@click.option("--expiring", metavar="DURATION", help="Only overrides that end within this time, like 12h or 7d.")
@list_options(
    "overrides",
    *("level", "data_source", "key", "value", "effect", "until", "reason", "author", "time", "run", "comment"),
)
def overrides(session: Session, *, environment: int, expiring: str | None, output: ListOutput) -> None:
    """List all overrides of an environment.

    Shows where each is, who set it, when, why and until when, and whether it has any effect. Secrets are masked.
    """
    from configdb_sync.cli.override_notes import ending_before
    from configdb_sync.cli.queries import settings_of
    from configdb_sync.queries.override_list import listed_overrides, with_unread

    before = None if expiring is None else ending_before(expiring)
    with session.client() as client, session.notes(client) as notes:
        listed = listed_overrides(notes, environment, before, session.masker)
        found = with_unread(client, environment, listed, partial(settings_of, session, client, environment))
        whole = client.keeps_versions
    if not whole:
        show_note("Note: this server lists no overrides; these are those that configdb-sync set.")
    if not output.is_own:
        rows = [row for one in found for row in one.rows]
        output.show([one.json for one in found], {"environment": environment}, rows=rows)
        return
    if not found:
        what = "no overrides" if before is None else f"no overrides that end within {expiring}"
        click.echo(f"environment {environment} has {what}.")
    for one in found:
        note = one.document
        click.echo(_row(f"{note.data_source} at {note.place}", note.time, note.author, note.run, note.comment))
        for key, line in _effects(note):
            click.echo(line)
            for text in one.lines(key):
                click.echo(_row(f"        {text}"))


def _about(place: DocumentAddress, kind: str) -> dict[str, Any]:
    return {
        "environment": place.env,
        "level": place.level_text,
        "data_source": place.data_source,
        "kind": kind,
    }


def _effects(note: OverrideNote) -> list[tuple[str, str]]:
    from configdb_sync.queries.override_list import effect_text

    return [
        (key.key, f"    {typed.shown_path((key.key,))}{f'  ({why})' if (why := effect_text(key)) else ''}")
        for key in note.keys
    ]


def _chosen(
    versions: Sequence[DocumentVersion], number: int | None, place: DocumentAddress, kind: str
) -> DocumentVersion:
    """Return the version of a number, or the newest. Raises ``SettingsError`` if there is none."""
    found = next((version for version in versions if number in {None, version.number}), None)
    if found is None:
        kept = ", ".join(str(version.number) for version in versions) or "none"
        what = "no versions" if number is None else f"no version {number}"
        raise SettingsError(f"{kind} of {place.data_source} at {place.level_text}: {what}", way_out=f"kept: {kept}")
    return found


def _row(*cells: Any) -> str:
    """Return cells with two spaces between, unprintable characters shown as ``?``, empty ones left out."""
    text = "  ".join(str(cell) for cell in cells if cell)
    return "".join(character if character.isprintable() else "?" for character in text)
