"""What a command on values and overrides works on, and what it is given: its place, its key, its value (U16)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from configdb_sync import masking
from configdb_sync.cli import completion
from configdb_sync.cli.options import (
    CONNECTION,
    comment_option,
    env_option,
    file_option,
    node_names,
    read_text,
    what_option,
    with_session,
)
from configdb_sync.cli.output import show_note
from configdb_sync.configdb import edits, typed
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import Json
from configdb_sync.names import RECORDS, LevelPath, one_line

if TYPE_CHECKING:
    from configdb_sync.cli.command_session import Session
    from configdb_sync.configdb.client import ConfigDBClient
    from configdb_sync.configdb.model import DocumentAddress, DocumentEdit


DATA_SOURCE = ("--data-source", "--resource", "-r", "data_source")
_SHOWN = 12
_LONGEST_SHOWN = 60
AT_NEXT_SYNC = "The nodes get it at the next `configdb-sync sync`."


@dataclass(frozen=True)
class ValueTarget:
    """The data source and the level, or nodes and roles, that a command works on, as its options name them."""

    session: Session
    environment: int
    data_source: str
    levels: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()

    def place(self, client: ConfigDBClient) -> DocumentAddress:
        """Return the place in ConfigDB. Raises as ``changes.find`` and ``level_path``."""
        from configdb_sync.configdb import changes

        return changes.find(client, self.environment, self.level_path(client), self.data_source)

    def level_path(self, client: ConfigDBClient) -> LevelPath:
        """Return the levels. Raises as ``level_path``."""
        return level_path(self.session, client, self.environment, self.levels)

    def level_paths(self, client: ConfigDBClient) -> list[LevelPath]:
        """Return the levels of the nodes that are named or have a role, else that of ``level_path``.

        Raises as it, ``UnknownNameError`` if the environment isn't there, and ``SettingsError`` for both at once, and
        for a name or a role that no node has.
        """
        from configdb_sync.configdb import changes

        changes.existing(client, self.environment)
        if not self.nodes and not self.roles:
            return [self.level_path(client)]
        from configdb_sync.cli.node_choice import chosen_places

        if self.levels:
            raise SettingsError("--level excludes --node and --role", way_out="name the nodes with --node or --role")
        return chosen_places(self.session, client, self.environment, node_names(self.nodes), self.roles)

    def refuse_records(self) -> None:
        """Raise ``SettingsError`` for the data source that holds the runs' records of the nodes (U18)."""
        if self.data_source == RECORDS:
            raise SettingsError(
                f"{self.data_source} holds the runs' records of the nodes; it is no data source of the nodes",
                way_out="`configdb-sync get` shows it",
            )

    def key_for_all_nodes(self, key: str | None) -> KeyPath:
        """Return the key of ``--all-nodes``. Raises ``SettingsError`` without a key, with a level, or with nodes."""
        if self.levels:
            raise SettingsError("--all-nodes and --level exclude each other", way_out="give one of them")
        if self.nodes or self.roles:
            raise SettingsError("--all-nodes excludes --node and --role", way_out="give one of them")
        if key is None:
            raise SettingsError("--all-nodes needs one key", way_out="name it with --key")
        return edits.parse_key(key)


def target_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name a place in ConfigDB; it gets a ``ValueTarget`` as its first argument."""
    text = "The data source."
    return level_options(function, what_option(*DATA_SOURCE, required=True, metavar="NAME", help=text))


def nodes_options(function: Callable[..., Any], data_source_option: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of ``level_options``, and those that name nodes."""

    @what_option(
        "--node",
        "nodes",
        multiple=True,
        metavar="LIST",
        help="Nodes by ID, FQDN, or name, separated by commas.",
    )
    @what_option("--role", "roles", multiple=True, metavar="ROLE", help="The nodes with this role now; repeat it.")
    @functools.wraps(function)
    def wrapped(target: ValueTarget, *, nodes: tuple[str, ...], roles: tuple[str, ...], **options: Any) -> Any:
        return function(replace(target, nodes=nodes, roles=roles), **options)

    return level_options(wrapped, data_source_option)


dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would change on the nodes.")


def level_options(function: Callable[..., Any], data_source_option: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of ``target_options``, with this one for the data source."""

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
    """Return the levels that ``--level`` names, a node's by its ID, its FQDN or its level's value; ``/`` is the root.

    Raises as ``changes.parse_levels`` and ``Addresses.named``.
    """
    from configdb_sync.configdb import changes

    if levels == ("/",):
        return ()
    given = changes.parse_levels(levels)
    return session.addresses(client, environment).named(given, lambda: session.seen(environment)) if given else ()


key_option = click.option(
    "--key",
    "-k",
    metavar="KEY",
    shell_complete=completion.keys,
    help='One key: a.b, or ["DEFAULT/x","a.b"] for keys that contain dots.',
)


keys_option = click.option(
    "--key",
    "-k",
    "keys",
    multiple=True,
    metavar="KEY",
    shell_complete=completion.keys,
    help='A key: a.b, or ["DEFAULT/x","a.b"]. Repeat it.',
)


def value_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of a new value, as ``read_value`` takes them, and ``--comment``."""
    for option in (
        comment_option,
        click.option("--type", "-t", "type_name", type=click.Choice(typed.TYPES), help="Type of the value."),
        file_option("--value-file", text="File that contains the value; - is standard input.", stdin=True),
        click.option("--value", "-v", metavar="TEXT", help="The value. Never a secret: others see a command line."),
    ):
        function = option(function)
    return function


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


def one_or_all(key: str | None, *, whole: bool, what: str) -> KeyPath | None:
    """Return the path that ``--key`` names, or None for ``--all-keys``: one of the two must be given."""
    if (key is None) != whole:
        raise SettingsError("give either --key or --all-keys", way_out=f"--all-keys selects all {what} of this level")
    return None if key is None else edits.parse_key(key)


def read_value(
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
    what = "--value" if is_secret else f"--value {one_line(repr(value), _LONGEST_SHOWN)}"
    return _on_command_line(typed.parse(value, type_name, what), path or ())


def _on_command_line(value: Json, path: KeyPath) -> Json:
    for leaf, content in typed.leaves(value, path):
        if masking.is_secret_path(leaf) and content is not None and not isinstance(content, bool):
            raise SettingsError(
                f"{edits.shown_key(leaf)} is a secret, and other users can see a command line",
                way_out="give it by --value-file FILE, or --value-file - for standard input",
            )
    return value


def parse_setting(text: str) -> tuple[KeyPath, Json]:
    """Return the path and the value of ``KEY=VALUE``; the value is YAML.

    Raises ``SettingsError``, also for a secret.
    """
    as_list = text.startswith("[")
    key, equals, value = text.partition("]=" if as_list else "=")
    if not equals or not key or not value:
        raise SettingsError("--set needs KEY=VALUE", way_out="like --set nova.debug=true; an empty text is KEY=''")
    path = edits.parse_key(f"{key}]" if as_list else key)
    try:
        found = typed.parse(value, "yaml")
    except SettingsError as error:
        raise SettingsError(f"--set {edits.shown_key(path)}: {error.what}", way_out="the value is YAML") from None
    typed.check_texts([*path, found])
    return path, _on_command_line(found, path)


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
        show_note(
            "Note: the node's next run replaces values at its own level. "
            "To keep a value for a node, use `configdb-sync override`."
        )
