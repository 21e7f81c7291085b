"""The commands that override values in ConfigDB, and no longer override them: override, rm-override (U16, U25)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from configdb_sync.cli import completion
from configdb_sync.cli.help import command
from configdb_sync.cli.options import comment_option, what_option
from configdb_sync.cli.output import show_note
from configdb_sync.cli.override_notes import OverrideReason, reason_options
from configdb_sync.cli.targets import (
    AT_NEXT_SYNC,
    DATA_SOURCE,
    ValueTarget,
    key_option,
    level_options,
    one_or_all,
    read_value,
    report,
    target_options,
    value_options,
)
from configdb_sync.configdb import edits
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import Json
from configdb_sync.overrides.notes import time_text

if TYPE_CHECKING:
    from configdb_sync.configdb.client import ConfigDBClient

_SHOWN = 12


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
    return level_options(function, what_option(*DATA_SOURCE, metavar="NAME", help=text))


@command("override", example="configdb-sync override --env 1 --level nodes=3 --key debug --type bool --value true")
@_override_options
@key_option
@value_options
@click.option("--all-nodes", is_flag=True, help="Override it for every node without its own override, now and later.")
@click.option(
    "--copy-from",
    metavar="NODE",
    shell_complete=completion.nodes,
    help="Copy the overrides of this node (ID or FQDN) to this level.",
)
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
    path, content = read_value(key, **given)
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
        show_note(line)
    if path is not None and len(path) > 1:
        click.echo(f"The whole block {path[0]!r} keeps its present content: ConfigDB merges whole top-level keys.")
    if not change.place.innermost:
        show_note("Note: a value or override of the same key at a deeper level takes precedence.")


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
@key_option
@comment_option
@click.option("--all-keys", "--yes", "whole", is_flag=True, help="Remove all overrides of this level.")
@click.option("--all-nodes", is_flag=True, help="End the effect of `override --all-nodes`.")
def rm_override(target: ValueTarget, *, key: str | None, comment: str | None, whole: bool, all_nodes: bool) -> None:
    """Remove an override.

    The nodes get their own value back.
    """
    path = one_or_all(key, whole=whole, what="overrides")
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


def _say_nodes(text: str, nodes: list[str]) -> None:
    if nodes:
        more = f", ... ({len(nodes)})" if len(nodes) > _SHOWN else ""
        click.echo(f"{text} {'node' if len(nodes) == 1 else 'nodes'} {', '.join(nodes[:_SHOWN])}{more}.")
