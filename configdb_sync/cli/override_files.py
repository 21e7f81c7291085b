"""``configdb-sync overrides``: the list, and overrides as a file under version control (U28)."""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from configdb_sync.cli import history
from configdb_sync.cli.help import VERBOSITY, CommandGroup
from configdb_sync.cli.options import (
    CONNECTION,
    comment_option,
    env_option,
    file_option,
    format_option,
    read_text,
    with_session,
)
from configdb_sync.cli.output import show_json, show_lines, show_note, write_private
from configdb_sync.cli.targets import AT_NEXT_SYNC, Allowed, allowed_options
from configdb_sync.clock import SystemClock
from configdb_sync.errors import MissingError, SettingsError
from configdb_sync.exits import Exit
from configdb_sync.jsonvalues import ABSENT, Json
from configdb_sync.names import RECORDS, levels_of

if TYPE_CHECKING:
    from configdb_sync.addresses import Addresses, Seen
    from configdb_sync.cli.command_session import Session
    from configdb_sync.configdb.client import ConfigDBClient
    from configdb_sync.configdb.model import Definition, DocumentAddress, Environment
    from configdb_sync.masking import Masker
    from configdb_sync.names import LevelPath
    from configdb_sync.overrides.application import Applier, DocumentPlan, KeyChange
    from configdb_sync.overrides.file import OverridesFile, Wanted
    from configdb_sync.overrides.note_store import NoteStore
    from configdb_sync.overrides.notes import Note

_LIST = "list"
_TEXT = "the overrides file"


class _ListingGroup(CommandGroup):
    """Without the name of a command it lists."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the rest of the arguments, the name of the command put before options that come without one."""
        first = next((one for one in args if one not in VERBOSITY), "-")
        if first.startswith("-") and first not in ctx.help_option_names:
            args = [_LIST, *args]
        return super().parse_args(ctx, args)


@click.group("overrides", cls=_ListingGroup)
def overrides() -> None:
    """List all overrides, or keep them in a file.

    Without a command it lists, with the options of `overrides list`.
    """


overrides.add_command(history.overrides, _LIST)


@overrides.command("export", example="configdb-sync overrides export --env 1 --output overrides.yaml")
@with_session(*CONNECTION)
@env_option(lowest=1)
@file_option("--output", "-o", "output", text="Write this file, mode 0600.  [default: standard output]")
@click.option("--with-secrets", is_flag=True, help="Write secrets in clear text.")
def export_command(session: Session, *, environment: int, output: Path | None, with_secrets: bool) -> Exit:
    """Write the overrides as an overrides file.

    Each leaf that differs from the values is an entry. A secret is a reference to a variable, which must be set when
    the file is applied.
    """
    from configdb_sync.overrides import export, file
    from configdb_sync.sync.render.wording import count

    with session.client() as client, session.notes(client) as notes:
        found, unknown = _overridden(_Places(session, client, environment), notes)
    names: list[str] = []
    if not with_secrets:
        found, names = export.without_secrets(found, session.masker)
    name = f"environment-{environment}" if output is None else output.stem
    text = file.write(file.OverridesFile(name, environment, tuple(found)))
    if output is None:
        click.echo(text, nl=False)
    else:
        try:
            write_private(output, text)
        except OSError as error:
            raise SettingsError(f"{output} can't be written: {error.strerror}", way_out="see --output") from error
        click.echo(f"{output}: {count(len(found), 'override')} of environment {environment}.")
    if names:
        click.echo(
            f"{count(len(names), 'secret')} left out (--with-secrets writes them). Before `overrides apply`, set: "
            f"{', '.join(names)}",
            err=True,
        )
    for one in unknown:
        click.echo(f"Left out, because the levels over it are unknown here: {one}", err=True)
    return Exit.PARTIAL if unknown else Exit.OK


@dataclass(frozen=True)
class _Places:
    """The places of an environment, by level (as ``--level`` takes it) and data source."""

    session: Session
    client: ConfigDBClient
    environment: int

    @functools.cached_property
    def _addresses(self) -> Addresses:
        return self.session.addresses(self.client, self.environment)

    @functools.cached_property
    def _seen(self) -> Seen:
        return self.session.seen(self.environment)

    @functools.cached_property
    def _known(self) -> tuple[Environment, Mapping[str, Definition]]:
        """The environment with its definitions."""
        from configdb_sync.configdb import changes

        found = changes.existing(self.client, self.environment)
        return found, self.client.definitions(found)

    def levels(self, text: str) -> LevelPath:
        """Return the level path of a text. Raises as ``targets.level_path``."""
        from configdb_sync.configdb import changes

        return self._addresses.named(changes.parse_levels((text,)), lambda: self._seen) if text else ()

    def listed(self) -> Iterator[tuple[str, LevelPath | None, str]]:
        """Yield the documents that may hold overrides: their level as ``--level`` takes it, its path (None if that is
        unknown), and their data source. A server that lists no overrides is asked for all of the nodes that it or runs
        know.

        Raises ``ConfigDBError``.
        """
        from configdb_sync.configdb.model import ServerKind
        from configdb_sync.overrides import export

        client, environment = self.client, self.environment
        if client.keeps_versions:
            for document in client.overrides_of(environment):
                # A document is that of its innermost level, the only one that is listed.
                level = export.level_text(levels_of(document.place))
                path = None
                with contextlib.suppress(SettingsError):
                    path = self.levels(level)
                yield level, path, document.data_source
            return
        known, definitions = self._known
        values = {value for node in self._seen for value in self._addresses.values_of(node, self._seen)}
        if client.server() is not ServerKind.LEGACY and self._addresses.node_level in known.levels:
            values.update(client.level_values(environment, self._addresses.node_level))
        paths = self._addresses.paths(values, self._seen)
        whole = {path[:depth] for path in paths.values() for depth in range(len(path) + 1)} | {()}
        for data_source in definitions:
            for path in sorted(whole):
                yield export.level_text(path[-1:]), path, data_source
            for value in sorted(values - paths.keys()):
                yield f"{self._addresses.node_level}={value}", None, data_source

    def find(self, levels: LevelPath, data_source: str) -> DocumentAddress:
        """Return a place. Raises as ``changes.find``."""
        from configdb_sync.configdb import changes

        return changes.find_in(self.client, *self._known, levels, data_source)


def _overridden(places: _Places, notes: NoteStore) -> tuple[list[Wanted], list[str]]:
    """Return all overrides of an environment, leaf by leaf, and the levels whose whole path is unknown.

    Raises ``ConfigDBError``.
    """
    from configdb_sync.configdb import changes
    from configdb_sync.configdb.model import OVERRIDES
    from configdb_sync.overrides import export

    client, known, now = places.client, notes.read(places.environment), SystemClock().now()
    found: list[Wanted] = []
    unknown: list[str] = []
    for level, path, data_source in places.listed():
        if data_source == RECORDS:
            continue
        if path is None:
            unknown.append(f"{data_source} at {level}")
            continue
        place = places.find(path, data_source)
        overrides = changes.read(client, place, OVERRIDES)
        if overrides:
            found += export.entries(place, level, (changes.beneath(client, place), overrides), known, now)
    return found, unknown


def _file_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option of an overrides file; it gets the folder of the file, its content, and its environment
    where ``--env`` names none: which settings apply may depend on that."""

    @file_option("--file", "-f", "path", text="The overrides file; - is standard input.", stdin=True, required=True)
    @functools.wraps(function)
    def wrapped(*args: Any, path: Path, environment: int | None, **kwargs: Any) -> Any:
        from configdb_sync.overrides import file

        stdin = str(path) == "-"
        name = "standard input" if stdin else path.stem
        text = read_text(path, _TEXT, "name it with --file")
        try:
            content = file.read(text, name)
        except SettingsError as error:
            raise error.located(file=name if stdin else str(path)) from None
        if content.environment is None and environment is None:
            raise SettingsError("the overrides file names no environment", way_out="name it there, or with --env")
        if None not in {content.environment, environment} and content.environment != environment:
            raise SettingsError(
                f"the overrides file is for environment {content.environment}, --env is {environment}",
                way_out="omit one of them",
            )
        folder = Path() if stdin else path.parent
        return function(*args, content=content, folder=folder, environment=environment or content.environment, **kwargs)

    return wrapped


@overrides.command("apply", example="configdb-sync overrides apply --file overrides.yaml --dry-run")
@_file_argument
@with_session(*CONNECTION)
@env_option("The environment's number, if the file does not name it.", required=False)
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@click.option("--exit-code", "coded", is_flag=True, help="Exit with 10 if there was something to change.")
@click.option("--prune", is_flag=True, help="Remove what an earlier apply of the file set and it no longer has.")
@format_option("text", "json", short=False)
@comment_option
@allowed_options
def apply_command(
    session: Session,
    *,
    environment: int,
    content: OverridesFile,
    folder: Path,
    dry_run: bool,
    coded: bool,
    prune: bool,
    form: str,
    comment: str | None,
    allowed: Allowed,
) -> Exit:
    """Set the overrides that an overrides file has.

    Shows the difference, secrets masked, and carries it out: each data source of each level at once or not at all.
    What looks like a mistake is refused before anything is written. After an interruption, run it again. What a person
    overrides stays, unless the file has the same key.
    """
    from configdb_sync.overrides import application, file

    secrets = file.secret_files(content.overrides)

    def read(name: str) -> str:
        what, way_out = "the file of a reference", "see {file: ...}"
        return read_text((folder / name).absolute(), what, way_out, closed=name in secrets)

    given = file.resolved(content.overrides, read, os.environ.get)
    with session.client(comment=comment) as client, session.notes(client) as notes:
        by = application.Applier(content.name, session.author, SystemClock().now().replace(microsecond=0), prune)
        ended = [one for one in given if application.ended(one, by.now)]
        wanted = [one for one in given if one not in ended]
        plans = _plans(_Places(session, client, environment), wanted, notes.read(environment), by)
        todo = [plan for plan in plans if plan.changes]
        hidden = _checked(session, client, todo, allowed)
        if form == "text":
            show_lines(_lines(content.name, environment, plans, session.masker))
        for change in application.carry_out(notes, [] if dry_run else todo):
            if form == "text":
                click.echo(f"{change.place.data_source} at {change.place.level_text}: written.")
    if form == "json":
        show_json(_report(content.name, environment, todo, session.masker) | {"dry_run": dry_run})
    elif todo:
        click.echo("Nothing was written (--dry-run)." if dry_run else AT_NEXT_SYNC)
    for line in hidden:
        show_note(line)
    for one in ended:
        click.echo(f"Not set, because its time is over: {one.named}", err=True)
    for plan in plans:
        for path in plan.kept:
            click.echo(f"Not removed, because somebody set a key in it: {plan.named(path)}", err=True)
    return Exit.DRIFT if todo and coded else Exit.OK


def _checked(session: Session, client: ConfigDBClient, plans: Sequence[DocumentPlan], allowed: Allowed) -> list[str]:
    """Return what the author of the overrides to be set must know. Raises ``SettingsError`` as ``NodesBelow``."""
    from configdb_sync.cli.override_checks import NodesBelow
    from configdb_sync.overrides.application import Action

    changes = [(plan.place, one) for plan in plans for one in plan.changes if one.action is Action.SET]
    new = {(plan.place, one.path) for plan in plans for one in plan.wanted if one.new_key}
    if not changes:
        return []
    places = list(dict.fromkeys(place.levels for place, _ in changes))
    nodes = NodesBelow(session, client, changes[0][0].env, places, allowed)
    return [
        line
        for place, one in changes
        for line in nodes.check_change(place, one.path, one.after, new_key=(place, one.path) in new)
    ]


def _plans(places: _Places, wanted: Sequence[Wanted], notes: Sequence[Note], by: Applier) -> list[DocumentPlan]:
    """Return what is to be done with each document, all of them examined before the first one is written."""
    from configdb_sync.overrides import application, export, file

    levels = {one.level: places.levels(one.level) for one in wanted}
    paths = {export.level_text(path): path for path in levels.values()}
    documents: dict[tuple[LevelPath, str], list[Wanted]] = {}
    # Two names of one node are told apart by what they stand for.
    for one in file.apart(replace(one, level=export.level_text(levels[one.level])) for one in wanted):
        if one.data_source == RECORDS:
            raise SettingsError(
                f"{RECORDS} holds the runs' records of the nodes; it is no data source of the nodes",
                way_out="remove it from the overrides file",
            )
        documents.setdefault((paths[one.level], one.data_source), []).append(one)
    found = {key: places.find(*key) for key in documents}
    for note in application.left_over_documents(notes, by):
        with contextlib.suppress(MissingError, SettingsError):  # it is gone, with its overrides
            path = levels_of(note.place)
            found.setdefault((path, note.data_source), places.find(path, note.data_source))
    return [
        application.examine(places.client, place, documents.get(key, ()), notes, by) for key, place in found.items()
    ]


def _lines(name: str, environment: int, plans: Sequence[DocumentPlan], masker: Masker) -> list[str]:
    from configdb_sync.sync.render.wording import count

    wanted, open_ = sum(len(plan.wanted) for plan in plans), sum(len(plan.changes) for plan in plans)
    lines = [f"{name}, environment {environment}: {count(wanted, 'override')}, {count(open_, 'change')} to make"]
    for plan in plans:
        if plan.changes:
            lines.append(f"  {plan.place.data_source} at {plan.place.level_text}")
            lines += [_line(change, masker) for change in plan.changes]
    return lines


def _line(change: KeyChange, masker: Masker) -> str:
    from configdb_sync.configdb.typed import shown_path
    from configdb_sync.overrides.application import Action
    from configdb_sync.sync.diff import shown_value

    before, after = (shown_value(change.path, side, masker) for side in (change.before, change.after))
    sides = " -> ".join(side for side in (before, after) if side is not None)
    sign, more = {
        Action.SET: ("+", ""),
        Action.NOTE: ("~", " (reason or end)"),
        Action.REMOVE: ("-", " (no longer in the file)"),
    }[change.action]
    return f"    {sign} {shown_path(change.path)}: {after if change.action is Action.NOTE else sides}{more}"


def _report(name: str, environment: int, plans: Sequence[DocumentPlan], masker: Masker) -> dict[str, Json]:
    documents = [
        {
            "level": plan.place.level_text,
            "data_source": plan.place.data_source,
            "keys": [
                {
                    "action": change.action.value,
                    "key": list(change.path),
                    **{
                        side: masker.shown(change.path, value)
                        for side, value in (("before", change.before), ("after", change.after))
                        if value is not ABSENT
                    },
                }
                for change in plan.changes
            ],
        }
        for plan in plans
    ]
    return {"name": name, "environment": environment, "documents": documents}
