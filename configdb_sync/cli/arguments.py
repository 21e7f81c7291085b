"""What the commands about single data sources are told: a place, a key, a value (U16)."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from configdb_sync import masking
from configdb_sync.cli.options import STORED_ENVIRONMENT, Session, configdb_options
from configdb_sync.configdb import changes, edits, typed
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.configdb.model import DocumentAddress, DocumentEdit
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import Json
from configdb_sync.names import RECORDS, LevelPath

_LONGEST_VALUE = 64 << 20  # What the embedded server takes as a body.

F = TypeVar("F", bound=Callable[..., Any])

_SHOWN = 12

comment_option = click.option("--comment", help="Why, for the history.")


def place_options(*, key: bool = True) -> Callable[[F], F]:
    """Give a command the options that name a place in ConfigDB, with ``key`` also one key there."""
    options = [
        click.option("--env", type=STORED_ENVIRONMENT, required=True, help="The environment's number."),
        click.option(
            "--data-source",
            "--resource",
            "-r",
            "data_source",
            required=True,
            metavar="NAME",
            help="The data source.",
        ),
        click.option(
            "--level",
            "levels",
            multiple=True,
            metavar="NAME=VALUE",
            help="Where in the hierarchy: nodes=46 or nodes=<FQDN>; several: repeated, or with commas. Default: root.",
        ),
    ]
    if key:
        text = 'One key: a.b, or ["DEFAULT/x","a.b"] for keys that hold dots.'
        options.append(click.option("--key", "-k", metavar="KEY", help=text))

    def decorate(command: F) -> F:
        decorated = configdb_options(command)
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


def value_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name a value, and the comment."""

    @click.option("--value", "-v", help="The value. Not for secrets: others may see a command line.")
    @click.option(
        "--value-file",
        type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
        help="A file that holds the value; - is standard input.",
    )
    @click.option("--type", "-t", "type_name", type=click.Choice(typed.TYPES), help="How the value is read.")
    @click.option("--comment", help="Why, for the history.")
    @functools.wraps(command)
    def wrapped(*args: Any, **options: Any) -> Any:
        return command(*args, **options)

    return wrapped


def path(key: str | None) -> KeyPath | None:
    """Return the path that ``--key`` names, None for the whole data source. Raises ``SettingsError``."""
    return None if key is None else edits.parse_key(key)


def one_or_all(key: str | None, *, whole: bool, what: str) -> KeyPath | None:
    """Return the path that ``--key`` names, or None for ``--all-keys``: one of the two must be given."""
    if (key is None) != whole:
        raise SettingsError(
            "either --key or --all-keys must be given",
            way_out=f"--all-keys takes all {what} of this level away",
        )
    return path(key)


def place(
    session: Session, client: ConfigDBClient, env: int, levels: tuple[str, ...], data_source: str
) -> DocumentAddress:
    """Return the place that the options name. Raises as ``changes.find``, ``changes.parse_levels`` and
    ``Addresses.named``."""
    return changes.find(client, env, level_path(session, client, env, levels), data_source)


def level_path(session: Session, client: ConfigDBClient, env: int, levels: tuple[str, ...]) -> LevelPath:
    """Return the levels that the options name, a node's by its id, its FQDN or its level's value."""
    given = changes.parse_levels(levels)
    return session.addresses(client, env).named(given, lambda: session.seen(env)) if given else ()


def for_all_nodes(path: KeyPath | None, levels: tuple[str, ...]) -> KeyPath:
    """Return the key of an order for all nodes. Raises ``SettingsError`` where none, or a level, was given."""
    if levels:
        raise SettingsError("--all-nodes and --level exclude each other", way_out="give one of them")
    if path is None:
        raise SettingsError("--all-nodes wants one key", way_out="name it with --key")
    return path


def refuse_records(data_source: str) -> None:
    """Raise ``SettingsError`` for the data source that holds what runs remember of the nodes (U18)."""
    if data_source == RECORDS:
        raise SettingsError(
            f"{data_source} holds what runs remember of the nodes; it is no data source of theirs",
            way_out="`configdb-sync get` shows it",
        )


def value(path: KeyPath | None, value: str | None, value_file: Path | None, type_name: str | None) -> Json:
    """Return the value that the options give, to be laid at ``path``; no secret from the command line (Y20)."""
    found = _given(path, value, value_file, type_name)
    typed.check_texts([*(path or ()), found])
    return found


def _given(path: KeyPath | None, value: str | None, value_file: Path | None, type_name: str | None) -> Json:
    if value is not None and value_file is not None:
        raise SettingsError("--value and --value-file exclude each other")
    if type_name is None:
        raise SettingsError("how the value is to be read isn't known", way_out=f"--type {'|'.join(typed.TYPES)}")
    if value is None and value_file is None:
        if type_name != "null":
            raise SettingsError("there is no value", way_out="--value TEXT, --value-file FILE, or --value-file -")
        return None
    if value_file is not None:
        text = _content(value_file)
        return typed.parse(text.removesuffix("\n").removesuffix("\r") if type_name == "str" else text, type_name)
    assert value is not None
    found = typed.parse(value, type_name)
    for leaf, content in typed.leaves(found, path or ()):
        if masking.is_secret_path(leaf) and content is not None and not isinstance(content, bool):
            raise SettingsError(
                f"{edits.shown_key(leaf)} is a secret, and a command line can be seen by others",
                way_out="give it by --value-file FILE, or --value-file - for standard input",
            )
    return found


def _content(path: Path) -> str:
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb") as file:
            content = file.read(_LONGEST_VALUE + 1)
    except OSError as error:
        raise SettingsError(
            f"the value file {path} can't be read: {error.strerror}", way_out="name it with --value-file"
        ) from error
    if len(content) > _LONGEST_VALUE:
        raise SettingsError(f"{path} holds more than {_LONGEST_VALUE >> 20} MiB", way_out="ConfigDB takes no more")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SettingsError(f"{path} isn't UTF-8 text") from None


def report(change: DocumentEdit, verb: str) -> None:
    """Print what a command changed, in one line without values."""
    place = f"{change.place.data_source} at {change.place.level_text}, environment {change.place.env}"
    leaves = [typed.shown_path(leaf) for leaf in change.leaves]
    if not leaves:
        click.echo(f"{place}: nothing to do, it is so already.")
        return
    more = f" and {len(leaves) - _SHOWN} more" if len(leaves) > _SHOWN else ""
    keys = ", ".join(leaves[:_SHOWN])
    click.echo(f"{place}: {verb}: {keys}{more}. The nodes get it at the next `configdb-sync sync`.")


def warn_of_node(place: DocumentAddress) -> None:
    """Say that values at a node's level don't stay (U18)."""
    if place.innermost:
        click.echo(
            "Note: values at a node's level are the node's own, its next run replaces them. "
            "To keep a value for a node use `configdb-sync override`.",
            err=True,
        )
