"""The commands that show and change the values of single data sources in ConfigDB: get, set, del (U16)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from configdb_sync.cli.help import command
from configdb_sync.cli.options import comment_option, format_option, what_option
from configdb_sync.cli.output import show_note
from configdb_sync.cli.targets import (
    DATA_SOURCE,
    Allowed,
    ValueTarget,
    allowed_options,
    dry_run_option,
    key_option,
    level_options,
    one_or_all,
    read_value,
    report,
    target_options,
    value_options,
    warn_of_node,
)
from configdb_sync.configdb import edits, typed
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.errors import SettingsError
from configdb_sync.names import RECORDS, place_of

if TYPE_CHECKING:
    from configdb_sync.configdb.changes import Make
    from configdb_sync.configdb.client import ConfigDBClient
    from configdb_sync.configdb.model import DocumentAddress


def _get_options(function: Callable[..., Any]) -> Callable[..., Any]:
    text = "The data source.  [default, with --key: all of them]"
    return level_options(function, what_option(*DATA_SOURCE, metavar="NAME", help=text))


@command("get", example="configdb-sync get --env 1 --level nodes=3 --data-source globals --key debug")
@_get_options
@key_option
@format_option(*typed.FORMATS)
@click.option("--show-lookup", "-s", is_flag=True, help="Show which level each key comes from.")
@click.option("--values", "kind", flag_value="values", help="Only the values of this level.")
@click.option("--overrides", "kind", flag_value="overrides", help="Only the overrides of this level.")
def get_value(target: ValueTarget, *, key: str | None, form: str, show_lookup: bool, kind: str | None) -> None:
    """Print a data source, or one key of it.

    Prints what the nodes get: values and overrides merged. With a key, but without a level or a data source, it shows
    where the key is, secrets masked. --level / is the root, as are --values and --overrides without a level.
    """
    from configdb_sync.configdb import changes

    if show_lookup and kind is not None:
        raise SettingsError(
            "--show-lookup shows merged data; it excludes --values and --overrides", way_out="give one of them"
        )
    path = None if key is None else edits.parse_key(key)
    by_level = bool(target.levels) or kind is not None or show_lookup
    if path is not None and not show_lookup and not (target.data_source and by_level):
        _show_places(target, path, form, kind)
        return
    if not target.data_source:
        raise SettingsError("the data source is not named", way_out="name it with --data-source, or a key with --key")
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


def _show_places(target: ValueTarget, path: KeyPath, form: str, kind: str | None) -> None:
    """Print where a key is: in all data sources unless one is named, at all levels or those on the way to one."""
    from configdb_sync.cli.node_choice import all_places
    from configdb_sync.configdb import changes
    from configdb_sync.queries.key_places import KINDS, alike, find_places
    from configdb_sync.sync.diff import shown_value
    from configdb_sync.sync.render.wording import key_text, shortened

    session, environment = target.session, target.environment
    with session.client() as client:
        definitions = client.definitions(changes.existing(client, environment))
        if target.data_source:
            names = [changes.find(client, environment, (), target.data_source).data_source]
        else:
            names = [name for name in definitions if name != RECORDS]
        level = target.level_path(client)
        chain = [level[:depth] for depth in range(len(level) + 1)]
        places = chain if target.levels else all_places(session, client, environment)
        wanted, kinds = (definitions[name] for name in names), KINDS if kind is None else (kind,)
        parallel = session.settings.parallel
        found = list(find_places(client, environment, wanted, places, path, kinds=kinds, parallel=parallel))
    if not found:
        where = target.data_source or "any data source"
        raise edits.NoSuchKeyError(
            f"there is no key {edits.shown_key(path)} in {where} at {'that level' if target.levels else 'any level'}",
            way_out=f"configdb-sync find {edits.shown_key(path)} --env {environment} shows keys that end like it",
        )
    if form != "plain":
        listed = [
            {
                "data_source": one.data_source,
                "level": place_of(one.levels),
                "kind": one.kind,
                "value": session.masker.shown(path, one.value),
            }
            for one in found
        ]
        click.echo(typed.text({"environment": environment, "key": list(path), "places": listed}, form))
        return
    for group in alike(found):
        one = group[0]
        at = "the root" if not one.levels else f"{one.levels[-1][0]} {shortened(each.levels[-1][1] for each in group)}"
        value = shown_value(path, one.value, session.masker)
        click.echo(f"{one.data_source}  {key_text(path)} = {value}  ({one.kind} at {at})")


@command(
    "set", example="configdb-sync set --env 1 --level cluster=1 --data-source globals --key debug --type bool -v true"
)
@target_options
@key_option
@value_options
@allowed_options
@dry_run_option
def set_value(
    target: ValueTarget, *, key: str | None, comment: str | None, allowed: Allowed, dry_run: bool, **given: Any
) -> None:
    """Write a value at a level of the hierarchy.

    Without --key, it writes the whole data source. For a single node use `override`: a run replaces a node's values.
    """
    from configdb_sync.cli.override_checks import NodesBelow
    from configdb_sync.configdb import changes

    target.refuse_records()
    path, content = read_value(key, **given)
    with target.session.client(comment=comment) as client:
        place = target.place(client)
        below = NodesBelow(target.session, client, target.environment, [place.levels], allowed)
        hidden = [] if path is None else below.check(place.data_source, path, content)
        _write(target, client, place, changes.setting(client, place, path, content), "set", dry_run=dry_run)
    for line in hidden:
        show_note(line)


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
