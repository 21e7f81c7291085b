"""The commands that override values in ConfigDB, and no longer override them: override, rm-override (U16, U25).

``override_execution`` carries them out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from configdb_sync.cli import completion
from configdb_sync.cli.help import command
from configdb_sync.cli.options import comment_option, what_option
from configdb_sync.cli.override_notes import OverrideReason, reason_options
from configdb_sync.cli.targets import (
    DATA_SOURCE,
    Allowed,
    ValueTarget,
    allowed_options,
    dry_run_option,
    key_option,
    keys_option,
    nodes_options,
    one_or_all,
    parse_setting,
    read_value,
    value_options,
)
from configdb_sync.configdb import edits
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import Json


def _override_options(function: Callable[..., Any]) -> Callable[..., Any]:
    text = "The data source.  [default: the one that Puppet reads the key from]"
    return nodes_options(function, what_option(*DATA_SOURCE, metavar="NAME", help=text))


def _rm_override_options(function: Callable[..., Any]) -> Callable[..., Any]:
    text = "The data source.  [default: the one in which the key is overridden]"
    return nodes_options(function, what_option(*DATA_SOURCE, metavar="NAME", help=text))


@command("override", example="configdb-sync override --env 1 --node 3,node-4 --set debug=true --dry-run")
@_override_options
@key_option
@value_options
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A key and its value in YAML; repeat it.")
@click.option("--all-nodes", is_flag=True, help="Override it for every node without its own override, now and later.")
@click.option(
    "--copy-from",
    metavar="NODE",
    shell_complete=completion.nodes,
    help="Copy the overrides of this node (ID or FQDN), without --data-source in all data sources.",
)
@reason_options
@allowed_options
@dry_run_option
def override(
    target: ValueTarget,
    *,
    key: str | None,
    settings: tuple[str, ...],
    about: OverrideReason,
    allowed: Allowed,
    all_nodes: bool,
    copy_from: str | None,
    dry_run: bool,
    **given: Any,
) -> None:
    """Override keys for nodes or groups of nodes.

    The nodes below the level, or those of --node and --role, get this value instead of their own. Everything is checked
    before anything is written. With --until or --for, the first run after that time removes the override.
    """
    from configdb_sync.cli import override_execution

    if all_nodes:
        about.refuse_end("--all-nodes", "set it for each node with --level")
    if copy_from is not None:
        about.refuse_end("--copy-from", "copied overrides keep their ends")
    target.refuse_records()
    named = key is not None or bool(settings)
    if not target.data_source and copy_from is None and not named:
        raise SettingsError("the data source is not named", way_out="name it with --data-source, or a key with --key")
    if copy_from is not None:
        override_execution.copy_overrides(target, copy_from, about.text, dry_run=dry_run)
        return
    wanted = _wanted(key, settings, given)
    if all_nodes:
        if len(wanted) > 1:
            raise SettingsError("--all-nodes needs one key", way_out="name it with --key, or one --set")
        target.key_for_all_nodes(edits.shown_key(wanted[0][0]) if wanted[0][0] else None)
    override_execution.override(target, wanted, about, allowed, all_nodes=all_nodes, dry_run=dry_run)


def _wanted(key: str | None, settings: Sequence[str], given: Mapping[str, Any]) -> list[tuple[KeyPath | None, Json]]:
    """Return the keys and values of ``--key`` and of each ``--set``; without either the value is a whole data source.

    Raises ``SettingsError`` as they are read, and for keys that have a part in common.
    """
    found: list[tuple[KeyPath | None, Json]] = list(map(parse_setting, settings))
    if key is not None or not settings or any(value is not None for value in given.values()):
        found.insert(0, read_value(key, **given))
    paths = [path or () for path, _ in found]
    for number, path in enumerate(paths):
        for other in paths[:number]:
            depth = min(len(path), len(other))
            if path[:depth] == other[:depth]:
                name = edits.shown_key(path or other)
                raise SettingsError(f"{name} is given twice, or once within another", way_out="keep one of them")
    return found


@command("rm-override", example="configdb-sync rm-override --env 1 --node 3 --key debug")
@_rm_override_options
@keys_option
@comment_option
@click.option("--all-keys", "--yes", "whole", is_flag=True, help="Remove all overrides of this level.")
@click.option("--all-nodes", is_flag=True, help="End the effect of `override --all-nodes`.")
@dry_run_option
def rm_override(
    target: ValueTarget,
    *,
    keys: tuple[str, ...],
    comment: str | None,
    whole: bool,
    all_nodes: bool,
    dry_run: bool,
) -> None:
    """Remove overrides.

    The nodes get their own values back. Of several nodes, those without the override are skipped.
    """
    from configdb_sync.cli import override_execution

    if not target.data_source and (all_nodes or whole):
        raise SettingsError("the data source is not named", way_out="name it with --data-source")
    if all_nodes:
        if len(keys) > 1:
            raise SettingsError("--all-nodes needs one key", way_out="name it with one --key")
        override_execution.end_all(target, target.key_for_all_nodes(next(iter(keys), None)), comment, dry_run=dry_run)
        return
    paths = [one_or_all(key, whole=whole, what="overrides") for key in keys or (None,)]
    override_execution.remove(target, paths, comment, dry_run=dry_run)
