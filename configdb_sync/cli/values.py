"""The commands that show and change single data sources in ConfigDB: get, set, del, override, rm-override (U16)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from configdb_sync import masking
from configdb_sync.cli.help import command
from configdb_sync.cli.options import (
    CONNECTION,
    comment_option,
    env_option,
    file_option,
    format_option,
    read_text,
    what_option,
    with_session,
)
from configdb_sync.cli.override_notes import OverrideReason, reason_options, time_text
from configdb_sync.configdb import edits, typed
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import Json
from configdb_sync.names import RECORDS, LevelPath, one_line

if TYPE_CHECKING:
    from configdb_sync.cli.command_session import Session
    from configdb_sync.configdb.client import ConfigDBClient
    from configdb_sync.configdb.model import DocumentAddress, DocumentEdit

_DATA_SOURCE = ("--data-source", "--resource", "-r", "data_source")
_SHOWN = 12
_LONGEST_SHOWN = 60
AT_NEXT_SYNC = "The nodes get it at the next `configdb-sync sync`."


@dataclass(frozen=True)
class ValueTarget:
    """The data source and the level that a command works on, as its options name them."""

    session: Session
    environment: int
    data_source: str
    levels: tuple[str, ...]

    def place(self, client: ConfigDBClient) -> DocumentAddress:
        """Return the place in ConfigDB. Raises as ``changes.find`` and ``level_path``."""
        from configdb_sync.configdb import changes

        return changes.find(client, self.environment, self.level_path(client), self.data_source)

    def level_path(self, client: ConfigDBClient) -> LevelPath:
        """Return the levels. Raises as ``level_path``."""
        return level_path(self.session, client, self.environment, self.levels)

    def refuse_records(self) -> None:
        """Raise ``SettingsError`` for the data source that holds the runs' records of the nodes (U18)."""
        if self.data_source == RECORDS:
            raise SettingsError(
                f"{self.data_source} holds the runs' records of the nodes; it is no data source of the nodes",
                way_out="`configdb-sync get` shows it",
            )

    def key_for_all_nodes(self, key: str | None) -> KeyPath:
        """Return the key of ``--all-nodes``. Raises ``SettingsError`` without a key, or with a level."""
        if self.levels:
            raise SettingsError("--all-nodes and --level exclude each other", way_out="give one of them")
        if key is None:
            raise SettingsError("--all-nodes needs one key", way_out="name it with --key")
        return edits.parse_key(key)


def target_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name a place in ConfigDB; it gets a ``ValueTarget`` as its first argument."""
    text = "The data source."
    return _target_options(function, what_option(*_DATA_SOURCE, required=True, metavar="NAME", help=text))


def _target_options(function: Callable[..., Any], data_source_option: Callable[..., Any]) -> Callable[..., Any]:
    @with_session(*CONNECTION)
    @env_option(lowest=0)
    @data_source_option
    @what_option(
        "--level",
        "levels",
        multiple=True,
        metavar="NAME=VALUE",
        help="Level in the hierarchy: nodes=46 or nodes=<FQDN>. Repeat it, or use commas.  [default: the root]",
    )
    @functools.wraps(function)
    def wrapped(
        session: Session, *, environment: int, data_source: str | None, levels: tuple[str, ...], **options: Any
    ) -> Any:
        return function(ValueTarget(session, environment, data_source or "", levels), **options)

    return wrapped  # type: ignore[no-any-return]


def level_path(session: Session, client: ConfigDBClient, environment: int, levels: tuple[str, ...]) -> LevelPath:
    """Return the levels that ``--level`` names, a node's by its ID, its FQDN or its level's value.

    Raises as ``changes.parse_levels`` and ``Addresses.named``.
    """
    from configdb_sync.configdb import changes

    given = changes.parse_levels(levels)
    return session.addresses(client, environment).named(given, lambda: session.seen(environment)) if given else ()


_key_option = click.option(
    "--key", "-k", metavar="KEY", help='One key: a.b, or ["DEFAULT/x","a.b"] for keys that contain dots.'
)


def _value_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        comment_option,
        click.option("--type", "-t", "type_name", type=click.Choice(typed.TYPES), help="Type of the value."),
        file_option("--value-file", text="File that contains the value; - is standard input.", stdin=True),
        click.option("--value", "-v", metavar="TEXT", help="The value. Never a secret: others see a command line."),
    ):
        function = option(function)
    return function


@command("get", example="configdb-sync get --env 1 --level nodes=3 --data-source globals --key debug")
@target_options
@_key_option
@format_option(*typed.FORMATS, short=True)
@click.option("--show-lookup", "-s", is_flag=True, help="Show which level each key comes from.")
@click.option("--values", "kind", flag_value="values", help="Only the values of this level.")
@click.option("--overrides", "kind", flag_value="overrides", help="Only the overrides of this level.")
def get_value(target: ValueTarget, *, key: str | None, form: str, show_lookup: bool, kind: str | None) -> None:
    """Print a data source, or one key of it.

    Prints what the nodes get: values and overrides merged.
    """
    from configdb_sync.configdb import changes

    if show_lookup and kind is not None:
        raise SettingsError(
            "--show-lookup shows merged data; it excludes --values and --overrides", way_out="give one of them"
        )
    path = None if key is None else edits.parse_key(key)
    with target.session.client() as client:
        place = target.place(client)
        if show_lookup:
            found = client.lookup(place.env, place.levels, place.definition)
            if path is not None:
                value = edits.get({name: pair[0] for name, pair in found.items()}, path)
                found = {edits.shown_key(path): (value, found[path[0]][1])}
            click.echo(typed.lookup_text(found, form))
            return
        if kind is None:
            document = client.effective(place.env, place.levels, place.definition)
        else:
            document = changes.read(client, place, kind)
        try:
            click.echo(typed.text(document if path is None else edits.get(document, path), form))
        except SettingsError as error:
            from configdb_sync.cli.override_checks import explained

            raise explained(error, client, place) from None


@command(
    "set", example="configdb-sync set --env 1 --level cluster=1 --data-source globals --key debug --type bool -v true"
)
@target_options
@_key_option
@_value_options
def set_value(target: ValueTarget, *, key: str | None, comment: str | None, **given: Any) -> None:
    """Write a value at a level of the hierarchy.

    Without --key, it writes the whole data source. For a single node use `override`: a run replaces a node's values.
    """
    from configdb_sync.configdb import changes

    target.refuse_records()
    path, content = _read_value(key, **given)
    with target.session.client(comment=comment) as client:
        change = changes.set_value(client, target.place(client), path, content)
    report(change, "set")
    warn_of_node(change.place)


@command("del", example="configdb-sync del --env 1 --level cluster=1 --data-source globals --key debug")
@target_options
@_key_option
@comment_option
@click.option("--all-keys", "--yes", "whole", is_flag=True, help="Delete all values of this level.")
def del_value(target: ValueTarget, *, key: str | None, comment: str | None, whole: bool) -> None:
    """Delete a value at a level of the hierarchy."""
    from configdb_sync.configdb import changes

    path = _one_or_all(key, whole=whole, what="values")
    with target.session.client(comment=comment) as client:
        change = changes.delete_value(client, target.place(client), path)
    report(change, "deleted")
    warn_of_node(change.place)


@dataclass(frozen=True)
class Allowed:
    """What an override's author says is meant, though it looks like a mistake (U25)."""

    new_key: bool
    new_node: bool
    change_type: bool


def allowed_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that let an odd override through; it gets them as ``allowed``."""

    @click.option("--new-key", is_flag=True, help="The key is new: no node of the level has it.")
    @click.option("--new-node", is_flag=True, help="The node is new: no run has seen it.")
    @click.option("--change-type", is_flag=True, help="The value may be of another type than the one it covers.")
    @functools.wraps(function)
    def wrapped(*args: Any, new_key: bool, new_node: bool, change_type: bool, **options: Any) -> Any:
        return function(*args, allowed=Allowed(new_key, new_node, change_type), **options)

    return wrapped


def _override_options(function: Callable[..., Any]) -> Callable[..., Any]:
    text = "The data source.  [default: the one that Puppet reads the key from]"
    return _target_options(function, what_option(*_DATA_SOURCE, metavar="NAME", help=text))


@command("override", example="configdb-sync override --env 1 --level nodes=3 --key debug --type bool --value true")
@_override_options
@_key_option
@_value_options
@click.option("--all-nodes", is_flag=True, help="Override it for every node without its own override, now and later.")
@click.option("--copy-from", metavar="NODE", help="Copy the overrides of this node (ID or FQDN) to this level.")
@reason_options
@allowed_options
def override(
    target: ValueTarget,
    *,
    key: str | None,
    about: OverrideReason,
    allowed: Allowed,
    all_nodes: bool,
    copy_from: str | None,
    **given: Any,
) -> None:
    """Override a key for a node or a group of nodes.

    The nodes below the level get this value instead of their own. With --until or --for, the first run after that
    time removes the override.
    """
    from configdb_sync.cli.override_checks import NodesBelow
    from configdb_sync.configdb import changes
    from configdb_sync.overrides.note_store import rewrite_noted

    if all_nodes:
        about.refuse_end("--all-nodes", "set it for each node with --level")
    if copy_from is not None:
        about.refuse_end("--copy-from", "copied overrides keep their ends")
    target.refuse_records()
    session, environment = target.session, target.environment
    if not target.data_source and (copy_from is not None or key is None):
        raise SettingsError("the data source is not named", way_out="name it with --data-source, or a key with --key")
    if copy_from is not None:
        _copy_overrides(target, copy_from, about.text)
        return
    path, content = _read_value(key, **given)
    if all_nodes:
        path = target.key_for_all_nodes(key)
    with session.client(comment=about.text) as client, session.notes(client) as notes:
        below = NodesBelow(session, client, environment, target.level_path(client), allowed)
        if not target.data_source and path is not None:
            target = replace(target, data_source=below.source_of(path))
        place = target.place(client)
        hidden = [] if path is None else below.check(target.data_source, path, content)
        if all_nodes and path is not None:
            _override_all(target, client, path, content)
            return
        make = changes.overriding(client, place, path, content)
        change = rewrite_noted(notes, place, path, make, about.notes(place, path, content, session.author))
    report(change, "overridden")
    if about.until is not None:
        click.echo(f"It ends at {time_text(about.until)}: the first run after that removes it.")
    for line in hidden:
        click.echo(line, err=True)
    if path is not None and len(path) > 1:
        click.echo(f"The whole block {path[0]!r} keeps its present content: ConfigDB merges whole top-level keys.")
    if not change.place.innermost:
        click.echo("Note: a value or override of the same key at a deeper level takes precedence.", err=True)


def _copy_overrides(target: ValueTarget, node: str, comment: str | None) -> None:
    from configdb_sync.configdb import changes
    from configdb_sync.overrides.note_store import copy_noted

    session, environment = target.session, target.environment
    with session.client(comment=comment) as client, session.notes(client) as notes:
        value = session.addresses(client, environment).named_value(node, lambda: session.seen(environment))
        place = target.place(client)
        source, found = changes.overrides_beside(client, place, value, node)
        report(copy_noted(notes, place, source, found), "overridden")


def _override_all(target: ValueTarget, client: ConfigDBClient, path: KeyPath, content: Json) -> None:
    from configdb_sync.sync import standing_overrides

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


@command("rm-override", example="configdb-sync rm-override --env 1 --level nodes=3 --data-source globals --key debug")
@target_options
@_key_option
@comment_option
@click.option("--all-keys", "--yes", "whole", is_flag=True, help="Remove all overrides of this level.")
@click.option("--all-nodes", is_flag=True, help="End the effect of `override --all-nodes`.")
def rm_override(target: ValueTarget, *, key: str | None, comment: str | None, whole: bool, all_nodes: bool) -> None:
    """Remove an override.

    The nodes get their own value back.
    """
    path = _one_or_all(key, whole=whole, what="overrides")
    if all_nodes:
        _end_all(target, target.key_for_all_nodes(key), comment)
        return
    from configdb_sync.configdb import changes
    from configdb_sync.overrides.note_store import rewrite_noted

    with target.session.client(comment=comment) as client, target.session.notes(client) as notes:
        place = target.place(client)
        report(rewrite_noted(notes, place, path, changes.freeing(client, place, path)), "no longer overridden")


def _end_all(target: ValueTarget, path: KeyPath, comment: str | None) -> None:
    from configdb_sync.sync import standing_overrides

    session, environment = target.session, target.environment
    with session.client(comment=comment) as client:
        addresses = session.addresses(client, environment)
        outcome = standing_overrides.end_for_all_nodes(
            client, addresses, session.seen(environment), target.data_source, path
        )
    click.echo(f"{target.data_source}: {edits.shown_key(path)} is no longer overridden for all nodes.")
    _say_nodes("Removed from", outcome.done)
    _say_nodes("Skipped, because their override was changed since:", outcome.kept)
    _say_nodes("Skipped, because their levels are unknown here (use --level):", outcome.untold)
    click.echo("The nodes get their own value at the next `configdb-sync sync`.")


def _one_or_all(key: str | None, *, whole: bool, what: str) -> KeyPath | None:
    """Return the path that ``--key`` names, or None for ``--all-keys``: one of the two must be given."""
    if (key is None) != whole:
        raise SettingsError("give either --key or --all-keys", way_out=f"--all-keys selects all {what} of this level")
    return None if key is None else edits.parse_key(key)


def _read_value(
    key: str | None, *, value: str | None, value_file: Path | None, type_name: str | None
) -> tuple[KeyPath | None, Json]:
    """Return the path and the value that the options give; no secret from the command line (Y20)."""
    path = None if key is None else edits.parse_key(key)
    found = _given(path, value, value_file, type_name)
    typed.check_texts([*(path or ()), found])
    return path, found


def _given(path: KeyPath | None, value: str | None, value_file: Path | None, type_name: str | None) -> Json:
    if value is not None and value_file is not None:
        raise SettingsError("--value and --value-file exclude each other", way_out="give one of them")
    if type_name is None:
        raise SettingsError("the type of the value is missing", way_out=f"--type {'|'.join(typed.TYPES)}")
    if value is None and value_file is None:
        if type_name != "null":
            raise SettingsError("the value is missing", way_out="--value TEXT, --value-file FILE, or --value-file -")
        return None
    if value_file is not None:
        text = read_text(value_file, "the value file", "name it with --value-file")
        text = text.removesuffix("\n").removesuffix("\r") if type_name == "str" else text
        return typed.parse(text, type_name, f"the value file {value_file}")
    assert value is not None
    is_secret = path is None or masking.is_secret_path(path)
    shown = "--value" if is_secret else f"--value {one_line(repr(value), _LONGEST_SHOWN)}"
    found = typed.parse(value, type_name, shown)
    for leaf, content in typed.leaves(found, path or ()):
        if masking.is_secret_path(leaf) and content is not None and not isinstance(content, bool):
            raise SettingsError(
                f"{edits.shown_key(leaf)} is a secret, and other users can see a command line",
                way_out="give it by --value-file FILE, or --value-file - for standard input",
            )
    return found


def report(change: DocumentEdit, verb: str) -> None:
    """Print what a command changed, in one line without values."""
    place = f"{change.place.data_source} at {change.place.level_text}, environment {change.place.env}"
    leaves = [typed.shown_path(leaf) for leaf in change.leaves]
    if not leaves:
        click.echo(f"{place}: nothing to do, it is already so.")
        return
    more = f" and {len(leaves) - _SHOWN} more" if len(leaves) > _SHOWN else ""
    click.echo(f"{place}: {verb}: {', '.join(leaves[:_SHOWN])}{more}. {AT_NEXT_SYNC}")


def warn_of_node(place: DocumentAddress) -> None:
    """Warn that values at a node's level do not last (U18)."""
    if place.innermost:
        click.echo(
            "Note: the node's next run replaces values at its own level. "
            "To keep a value for a node, use `configdb-sync override`.",
            err=True,
        )


def _say_nodes(text: str, nodes: list[str]) -> None:
    if nodes:
        more = f", ... ({len(nodes)})" if len(nodes) > _SHOWN else ""
        click.echo(f"{text} {'node' if len(nodes) == 1 else 'nodes'} {', '.join(nodes[:_SHOWN])}{more}.")
