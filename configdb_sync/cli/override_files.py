"""``configdb-sync overrides``: the list, and overrides as a file under version control (U28)."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from configdb_sync.cli import history
from configdb_sync.cli.help import CommandGroup
from configdb_sync.cli.options import CONNECTION, comment_option, env_option, file_option, format_option, with_session
from configdb_sync.cli.output import show_json, show_lines, write_private
from configdb_sync.cli.values import AT_NEXT_SYNC, level_path, read_text
from configdb_sync.errors import SettingsError
from configdb_sync.exits import Exit
from configdb_sync.jsonvalues import ABSENT, Json
from configdb_sync.names import RECORDS

if TYPE_CHECKING:
    from configdb_sync.cli.command_session import Session
    from configdb_sync.configdb.client import ConfigDBClient
    from configdb_sync.masking import Masker
    from configdb_sync.overrides.application import DocumentPlan, KeyChange
    from configdb_sync.overrides.file import OverridesFile, Wanted

_LIST = "list"
_TEXT = "the overrides file"


class _ListingGroup(CommandGroup):
    """Without the name of a command it lists."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Return the rest of the arguments, the name of the command put before options that come without one."""
        if not args or (args[0].startswith("-") and args[0] not in ctx.help_option_names):
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
def export_command(session: Session, *, environment: int, output: Path | None, with_secrets: bool) -> None:
    """Write the overrides as an overrides file.

    Each leaf that differs from the values is an entry. A secret is a reference to a variable, which must be set when
    the file is applied.
    """
    from configdb_sync.overrides import export, file

    with session.client() as client:
        found = list(_overridden(client, environment))
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
        click.echo(f"{output}: {_count(len(found), 'override')} of environment {environment}.")
    if names:
        click.echo(
            f"{_count(len(names), 'secret')} left out (--with-secrets writes them). Before `overrides apply`, set: "
            f"{', '.join(names)}",
            err=True,
        )


def _overridden(client: ConfigDBClient, environment: int) -> Sequence[Wanted]:
    """Return all overrides of an environment, leaf by leaf. Raises as ``overrides_of`` and ``changes.find``."""
    from configdb_sync.configdb import changes
    from configdb_sync.configdb.model import OVERRIDES, VALUES
    from configdb_sync.overrides import export
    from configdb_sync.overrides.file import Wanted

    found = []
    for note in client.overrides_of(environment):
        if note.data_source == RECORDS:
            continue
        levels = export.level_path(note.place)
        place = changes.find(client, environment, levels, note.data_source)
        beneath = {**changes.above(client, place), **changes.read(client, place, VALUES)}
        leaves = export.overridden(beneath, changes.read(client, place, OVERRIDES))
        found += [Wanted(export.level_text(levels), note.data_source, path, value) for path, value in leaves]
    return found


def _file_argument(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the option of an overrides file; it gets the folder of the file, its content, and its environment
    where ``--env`` names none: which settings apply may depend on that."""

    @file_option("--file", "-f", "path", text="The overrides file; - is standard input.", stdin=True, required=True)
    @functools.wraps(function)
    def wrapped(*args: Any, path: Path, environment: int | None, **kwargs: Any) -> Any:
        from configdb_sync.overrides import file

        stdin = str(path) == "-"
        content = file.read(read_text(path, _TEXT, "name it with --file"), "standard input" if stdin else path.stem)
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
@format_option("text", "json")
@comment_option
def apply_command(
    session: Session,
    *,
    environment: int,
    content: OverridesFile,
    folder: Path,
    dry_run: bool,
    coded: bool,
    form: str,
    comment: str | None,
) -> Exit:
    """Set the overrides that an overrides file has.

    Shows the difference, secrets masked, and carries it out: each data source of each level at once or not at all.
    After an interruption, run it again.
    """
    from configdb_sync.overrides import application, file

    given = file.resolved(
        content.overrides,
        lambda name: read_text((folder / name).absolute(), "the file of a reference", "see {file: ...}"),
        os.environ.get,
    )
    with session.client(comment=comment) as client:
        plans = _plans(session, client, environment, given)
        todo = [plan for plan in plans if plan.changes]
        if form == "text":
            show_lines(_lines(content.name, environment, plans, session.masker))
        for plan in todo if not dry_run else ():
            application.carry_out(client, plan)
            if form == "text":
                click.echo(f"{plan.place.data_source} at {plan.place.level_text}: written.")
    if form == "json":
        show_json(_report(content.name, environment, todo, session.masker) | {"dry_run": dry_run})
    elif todo:
        click.echo("Nothing was written (--dry-run)." if dry_run else AT_NEXT_SYNC)
    return Exit.DRIFT if todo and coded else Exit.OK


def _plans(session: Session, client: ConfigDBClient, environment: int, given: Sequence[Wanted]) -> list[DocumentPlan]:
    """Return what is to be done with each document, all of them examined before the first one is written."""
    from configdb_sync.configdb import changes
    from configdb_sync.overrides import application, export, file

    levels = {one.level: level_path(session, client, environment, (one.level,) if one.level else ()) for one in given}
    documents: dict[tuple[str, str], list[Wanted]] = {}
    # Two names of one node are told apart by what they stand for.
    for one in file.apart(replace(one, level=export.level_text(levels[one.level])) for one in given):
        documents.setdefault((one.level, one.data_source), []).append(one)
    paths = {export.level_text(path): path for path in levels.values()}
    plans = []
    for (level, data_source), wanted in documents.items():
        if data_source == RECORDS:
            raise SettingsError(
                f"{RECORDS} holds the runs' records of the nodes; it is no data source of the nodes",
                way_out="remove it from the overrides file",
            )
        place = changes.find(client, environment, paths[level], data_source)
        plans.append(application.examine(client, place, wanted))
    return plans


def _lines(name: str, environment: int, plans: Sequence[DocumentPlan], masker: Masker) -> list[str]:
    wanted, open_ = sum(len(plan.wanted) for plan in plans), sum(len(plan.changes) for plan in plans)
    lines = [f"{name}, environment {environment}: {_count(wanted, 'override')}, {open_} to set"]
    for plan in plans:
        if plan.changes:
            lines.append(f"  {plan.place.data_source} at {plan.place.level_text}")
            lines += [_line(change, masker) for change in plan.changes]
    return lines


def _line(change: KeyChange, masker: Masker) -> str:
    from configdb_sync.configdb.typed import shown_path
    from configdb_sync.sync.diff import shown_value

    before, after = (shown_value(change.path, side, masker) for side in (change.before, change.after))
    sides = f"{before} -> {after}" if before is not None else after
    return f"    {'~' if change.overridden else '+'} {shown_path(change.path)}: {sides}"


def _report(name: str, environment: int, plans: Sequence[DocumentPlan], masker: Masker) -> dict[str, Json]:
    documents = [
        {
            "level": plan.place.level_text,
            "data_source": plan.place.data_source,
            "keys": [
                {
                    "key": list(change.path),
                    **({} if change.before is ABSENT else {"before": masker.shown(change.path, change.before)}),
                    "after": masker.shown(change.path, change.after),
                    "overridden": change.overridden,
                }
                for change in plan.changes
            ],
        }
        for plan in plans
    ]
    return {"name": name, "environment": environment, "documents": documents}


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
