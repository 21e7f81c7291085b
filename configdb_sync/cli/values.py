"""The commands that show and change single data sources in ConfigDB: get, set, del, override, rm-override
(U16)."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from configdb_sync import masking
from configdb_sync.cli.options import ConfigDBOptions, configdb_options
from configdb_sync.configdb import changes, edits, typed
from configdb_sync.configdb.changes import Change, Place
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import Json

_SHOWN = 12


def _place_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name a place in ConfigDB."""

    @click.option("--env", type=click.IntRange(min=0), required=True, help="The environment's number.")
    @click.option(
        "--data-source",
        "--resource",
        "-r",
        "data_source",
        required=True,
        metavar="NAME",
        help="The data source.",
    )
    @click.option(
        "--level",
        "levels",
        multiple=True,
        metavar="NAME=VALUE",
        help="Where in the hierarchy: nodes=46 or nodes=<FQDN>; several: repeated, or with commas. Default: root.",
    )
    @click.option(
        "--key", "-k", metavar="KEY", help='One key: a.b, or ["DEFAULT/x","a.b"] for keys that hold dots.'
    )
    @configdb_options
    @functools.wraps(command)
    def wrapped(*args: Any, **options: Any) -> Any:
        return command(*args, **options)

    return wrapped


def _value_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name a value, and the comment."""

    @click.option("--value", "-v", help="The value. Not for secrets: others may see a command line.")
    @click.option(
        "--value-file",
        type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
        help="A file that holds the value; - is standard input.",
    )
    @click.option("--type", "-t", "kind", type=click.Choice(typed.TYPES), help="How the value is read.")
    @click.option("--comment", help="Why, for the history.")
    @functools.wraps(command)
    def wrapped(*args: Any, **options: Any) -> Any:
        return command(*args, **options)

    return wrapped


_comment_option = click.option("--comment", help="Why, for the history.")


@click.command("get")
@_place_options
@click.option("--format", "-f", "form", type=click.Choice(typed.FORMATS), default="plain", show_default=True)
@click.option("--show-lookup", "-s", is_flag=True, help="Show which level gave each key.")
@click.option("--values", "kind", flag_value=changes.VALUES, help="The values of this level alone.")
@click.option("--overrides", "kind", flag_value=changes.OVERRIDES, help="The overrides of this level alone.")
def get_command(
    *,
    env: int,
    data_source: str,
    levels: tuple[str, ...],
    key: str | None,
    configdb: ConfigDBOptions,
    form: str,
    show_lookup: bool,
    kind: str | None,
) -> None:
    """Print a data source, or one key of it, as the nodes get it (values and overrides merged)."""
    if show_lookup and kind is not None:
        raise SettingsError("--show-lookup is about the merged data: not with --values or --overrides")
    path = _path(key)
    with configdb.client() as client:
        place = _place(client, configdb, env, levels, data_source)
        if show_lookup:
            found = client.lookup(env, place.levels, place.definition)
            if path is not None:
                value = edits.get({name: pair[0] for name, pair in found.items()}, path)
                found = {edits.shown_key(path): (value, found[path[0]][1])}
            click.echo(typed.lookup_text(found, form))
            return
        if kind is None:
            document = client.effective(env, place.levels, place.definition)
        else:
            document = changes.read(client, place, kind)
        click.echo(typed.text(document if path is None else edits.get(document, path), form))


@click.command("set")
@_place_options
@_value_options
def set_command(
    *,
    env: int,
    data_source: str,
    levels: tuple[str, ...],
    key: str | None,
    configdb: ConfigDBOptions,
    value: str | None,
    value_file: Path | None,
    kind: str | None,
    comment: str | None,
) -> None:
    """Write a value, or a whole data source, at a level. For a node's own settings see override."""
    path = _path(key)
    content = _value(path, value, value_file, kind)
    with configdb.client(comment) as client:
        place = _place(client, configdb, env, levels, data_source)
        _report(changes.set_value(client, place, path, content), "set")
    _warn_of_node(place)


@click.command("del")
@_place_options
@_comment_option
@click.option("--all-keys", "--yes", "whole", is_flag=True, help="Take all values of this level away.")
def del_command(
    *,
    env: int,
    data_source: str,
    levels: tuple[str, ...],
    key: str | None,
    configdb: ConfigDBOptions,
    comment: str | None,
    whole: bool,
) -> None:
    """Take a value away at a level."""
    path = _one_or_all(key, whole=whole, what="values")
    with configdb.client(comment) as client:
        place = _place(client, configdb, env, levels, data_source)
        _report(changes.delete_value(client, place, path), "taken away")
    _warn_of_node(place)


@click.command("override")
@_place_options
@_value_options
def override_command(
    *,
    env: int,
    data_source: str,
    levels: tuple[str, ...],
    key: str | None,
    configdb: ConfigDBOptions,
    value: str | None,
    value_file: Path | None,
    kind: str | None,
    comment: str | None,
) -> None:
    """Override a key: the nodes below this level get this value instead of their own."""
    path = _path(key)
    content = _value(path, value, value_file, kind)
    with configdb.client(comment) as client:
        place = _place(client, configdb, env, levels, data_source)
        change = changes.override(client, place, path, content)
    _report(change, "overridden")
    if path is not None and len(path) > 1:
        click.echo(
            f"The whole block {path[0]!r} is pinned as it is now: ConfigDB merges whole top-level keys."
        )
    if not place.innermost:
        click.echo(
            "Note: a key that a level further in has too, as a value or an override, keeps that one.",
            err=True,
        )


@click.command("rm-override")
@_place_options
@_comment_option
@click.option("--all-keys", "--yes", "whole", is_flag=True, help="Take all overrides of this level away.")
def rm_override_command(
    *,
    env: int,
    data_source: str,
    levels: tuple[str, ...],
    key: str | None,
    configdb: ConfigDBOptions,
    comment: str | None,
    whole: bool,
) -> None:
    """Take the override of a key away: the nodes get their own value back."""
    path = _one_or_all(key, whole=whole, what="overrides")
    with configdb.client(comment) as client:
        place = _place(client, configdb, env, levels, data_source)
        _report(changes.free(client, place, path), "no longer overridden")


COMMANDS = (get_command, set_command, del_command, override_command, rm_override_command)


def _path(key: str | None) -> KeyPath | None:
    return None if key is None else edits.parse_key(key)


def _one_or_all(key: str | None, *, whole: bool, what: str) -> KeyPath | None:
    if (key is None) != whole:
        raise SettingsError(
            "either --key or --all-keys must be given",
            way_out=f"--all-keys takes all {what} of this level away",
        )
    return _path(key)


def _place(
    client: ConfigDBClient, configdb: ConfigDBOptions, env: int, levels: tuple[str, ...], data_source: str
) -> Place:
    return changes.find(client, env, changes.parse_levels(levels, configdb.resolve), data_source)


def _value(path: KeyPath | None, value: str | None, value_file: Path | None, kind: str | None) -> Json:
    """Return the value that the options give; a secret isn't taken from the command line
    (``architecture.md``, Masking)."""
    if value is not None and value_file is not None:
        raise SettingsError("--value and --value-file exclude each other")
    if kind is None:
        raise SettingsError(
            "how the value is to be read isn't known", way_out=f"--type {'|'.join(typed.TYPES)}"
        )
    if value is None and value_file is None:
        if kind != "null":
            raise SettingsError(
                "there is no value", way_out="--value TEXT, --value-file FILE, or --value-file -"
            )
        return None
    if value_file is not None:
        text = _content(value_file)
        return typed.parse(text.removesuffix("\n").removesuffix("\r") if kind == "str" else text, kind)
    assert value is not None
    found = typed.parse(value, kind)
    for leaf, content in typed.leaves(found, path or ()):
        if masking.is_secret_path(leaf) and content is not None and not isinstance(content, bool):
            raise SettingsError(
                f"{edits.shown_key(leaf)} is a secret, and a command line can be seen by others",
                way_out="give it by --value-file FILE, or --value-file - for standard input",
            )
    return found


def _content(path: Path) -> str:
    try:
        content = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
    except OSError as error:
        raise SettingsError(f"{path} can't be read: {error.strerror}") from error
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SettingsError(f"{path} isn't UTF-8 text") from None


def _report(change: Change, verb: str) -> None:
    place = f"{change.place.data_source} at {change.place.level_text}, environment {change.place.env}"
    leaves = [edits.shown_key(leaf) for leaf in change.leaves]
    if not leaves:
        click.echo(f"{place}: nothing to do, it is so already.")
        return
    more = f" and {len(leaves) - _SHOWN} more" if len(leaves) > _SHOWN else ""
    keys = ", ".join(leaves[:_SHOWN])
    click.echo(f"{place}: {verb}: {keys}{more}. The nodes get it at the next `configdb-sync sync`.")


def _warn_of_node(place: Place) -> None:
    if place.innermost:
        click.echo(
            "Note: values at a node's level are the node's own, its next run replaces them. "
            "To keep a value for a node use `configdb-sync override`.",
            err=True,
        )
