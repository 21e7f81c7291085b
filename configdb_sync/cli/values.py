"""The commands that show and change the values of single data sources in ConfigDB: get, set, del (U16)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from configdb_sync.cli.help import command
from configdb_sync.cli.options import comment_option, format_option
from configdb_sync.cli.targets import (
    ValueTarget,
    dry_run_option,
    key_option,
    one_or_all,
    read_value,
    report,
    target_options,
    value_options,
    warn_of_node,
)
from configdb_sync.configdb import edits, typed
from configdb_sync.errors import SettingsError

if TYPE_CHECKING:
    from configdb_sync.configdb.changes import Make
    from configdb_sync.configdb.client import ConfigDBClient
    from configdb_sync.configdb.model import DocumentAddress


@command("get", example="configdb-sync get --env 1 --level nodes=3 --data-source globals --key debug")
@target_options
@key_option
@format_option(*typed.FORMATS)
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
@key_option
@value_options
@dry_run_option
def set_value(target: ValueTarget, *, key: str | None, comment: str | None, dry_run: bool, **given: Any) -> None:
    """Write a value at a level of the hierarchy.

    Without --key, it writes the whole data source. For a single node use `override`: a run replaces a node's values.
    """
    from configdb_sync.configdb import changes

    target.refuse_records()
    path, content = read_value(key, **given)
    with target.session.client(comment=comment) as client:
        place = target.place(client)
        _write(target, client, place, changes.setting(client, place, path, content), "set", dry_run=dry_run)


@command("del", example="configdb-sync del --env 1 --level cluster=1 --data-source globals --key debug")
@target_options
@key_option
@comment_option
@click.option("--all-keys", "--yes", "whole", is_flag=True, help="Delete all values of this level.")
@dry_run_option
def del_value(target: ValueTarget, *, key: str | None, comment: str | None, whole: bool, dry_run: bool) -> None:
    """Delete a value at a level of the hierarchy."""
    from configdb_sync.configdb import changes

    path = one_or_all(key, whole=whole, what="values")
    with target.session.client(comment=comment) as client:
        place = target.place(client)
        _write(target, client, place, changes.deleting(place, path), "deleted", dry_run=dry_run)


def _write(
    target: ValueTarget, client: ConfigDBClient, place: DocumentAddress, make: Make, verb: str, *, dry_run: bool
) -> None:
    """Change the values of a place, or show what the nodes would get."""
    if dry_run:
        from configdb_sync.cli.dry_run import show_edit
        from configdb_sync.configdb.model import VALUES

        show_edit(target.session, client, place, VALUES, make)
    else:
        from configdb_sync.configdb import changes

        report(changes.rewrite(client, place, make), verb)
    warn_of_node(place)
