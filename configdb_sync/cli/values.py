"""The commands that show and change single data sources in ConfigDB: get, set, del, override, rm-override (U16)."""

from __future__ import annotations

from pathlib import Path

import click

from configdb_sync.cli import arguments
from configdb_sync.cli.options import Session
from configdb_sync.configdb import changes, edits, typed
from configdb_sync.configdb.change import OVERRIDES, VALUES
from configdb_sync.errors import SettingsError
from configdb_sync.sync import standing_overrides

_SHOWN = 12


@click.command("get")
@arguments.place_options()
@click.option("--format", "-f", "form", type=click.Choice(typed.FORMATS), default="plain", show_default=True)
@click.option("--show-lookup", "-s", is_flag=True, help="Show which level gave each key.")
@click.option("--values", "kind", flag_value=VALUES, help="The values of this level alone.")
@click.option("--overrides", "kind", flag_value=OVERRIDES, help="The overrides of this level alone.")
def get_command(
    session: Session,
    *,
    env: int,
    data_source: str,
    levels: tuple[str, ...],
    key: str | None,
    form: str,
    show_lookup: bool,
    kind: str | None,
) -> None:
    """Print a data source, or one key of it, as the nodes get it (values and overrides merged)."""
    if show_lookup and kind is not None:
        raise SettingsError("--show-lookup is about the merged data: not with --values or --overrides")
    path = arguments.path(key)
    with session.client() as client:
        place = arguments.place(session, client, env, levels, data_source)
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
@arguments.place_options()
@arguments.value_options
def set_command(
    session: Session,
    *,
    env: int,
    data_source: str,
    levels: tuple[str, ...],
    key: str | None,
    value: str | None,
    value_file: Path | None,
    type_name: str | None,
    comment: str | None,
) -> None:
    """Write a value, or a whole data source, at a level. For a node's own settings see override."""
    arguments.refuse_records(data_source)
    path = arguments.path(key)
    content = arguments.value(path, value, value_file, type_name)
    with session.client(comment=comment) as client:
        place = arguments.place(session, client, env, levels, data_source)
        arguments.report(changes.set_value(client, place, path, content), "set")
    arguments.warn_of_node(place)


@click.command("del")
@arguments.place_options()
@arguments.comment_option
@click.option("--all-keys", "--yes", "whole", is_flag=True, help="Take all values of this level away.")
def del_command(
    session: Session,
    *,
    env: int,
    data_source: str,
    levels: tuple[str, ...],
    key: str | None,
    comment: str | None,
    whole: bool,
) -> None:
    """Take a value away at a level."""
    path = arguments.one_or_all(key, whole=whole, what="values")
    with session.client(comment=comment) as client:
        place = arguments.place(session, client, env, levels, data_source)
        arguments.report(changes.delete_value(client, place, path), "taken away")
    arguments.warn_of_node(place)


@click.command("override")
@arguments.place_options()
@arguments.value_options
@click.option("--all-nodes", is_flag=True, help="For every node that has no override of that key, later ones too.")
@click.option("--copy-from", metavar="NODE", help="Take over the overrides that this node (its id or FQDN) has there.")
def override_command(
    session: Session,
    *,
    env: int,
    data_source: str,
    levels: tuple[str, ...],
    key: str | None,
    value: str | None,
    value_file: Path | None,
    type_name: str | None,
    comment: str | None,
    all_nodes: bool,
    copy_from: str | None,
) -> None:
    """Override a key: the nodes below this level get this value instead of their own."""
    arguments.refuse_records(data_source)
    path = arguments.path(key)
    if copy_from is not None:
        with session.client(comment=comment) as client:
            place = arguments.place(session, client, env, levels, data_source)
            node = session.addresses(client, env).named_value(copy_from, lambda: session.seen(env))
            arguments.report(changes.copy_overrides(client, place, node, copy_from), "overridden")
        return
    content = arguments.value(path, value, value_file, type_name)
    if all_nodes:
        wanted = arguments.for_all_nodes(path, levels)
        with session.client(comment=comment) as client:
            addresses = session.addresses(client, env)
            outcome = standing_overrides.set_for_all_nodes(
                client, addresses, session.seen(env), standing_overrides.StandingOverride(data_source, wanted, content)
            )
        click.echo(f"{data_source}: {edits.shown_key(wanted)} is overridden for all nodes, also for those to come.")
        _say_nodes("It is so in ConfigDB for", outcome.done)
        _say_nodes("Left alone, for they have an override of their own:", outcome.kept)
        _say_nodes("Left to the next sync, which alone can tell the levels over them:", outcome.untold)
        click.echo("The nodes get it at the next `configdb-sync sync`.")
        return
    with session.client(comment=comment) as client:
        place = arguments.place(session, client, env, levels, data_source)
        change = changes.override(client, place, path, content)
    arguments.report(change, "overridden")
    if path is not None and len(path) > 1:
        click.echo(f"The whole block {path[0]!r} is pinned as it is now: ConfigDB merges whole top-level keys.")
    if not place.innermost:
        click.echo(
            "Note: a key that a level further in has too, as a value or an override, keeps that one.",
            err=True,
        )


@click.command("rm-override")
@arguments.place_options()
@arguments.comment_option
@click.option("--all-keys", "--yes", "whole", is_flag=True, help="Take all overrides of this level away.")
@click.option("--all-nodes", is_flag=True, help="End what `override --all-nodes` began.")
def rm_override_command(
    session: Session,
    *,
    env: int,
    data_source: str,
    levels: tuple[str, ...],
    key: str | None,
    comment: str | None,
    whole: bool,
    all_nodes: bool,
) -> None:
    """Take the override of a key away: the nodes get their own value back."""
    path = arguments.one_or_all(key, whole=whole, what="overrides")
    if all_nodes:
        wanted = arguments.for_all_nodes(path, levels)
        with session.client(comment=comment) as client:
            outcome = standing_overrides.end_for_all_nodes(
                client, session.addresses(client, env), session.seen(env), data_source, wanted
            )
        click.echo(f"{data_source}: {edits.shown_key(wanted)} is no longer overridden for all nodes.")
        _say_nodes("Taken back from", outcome.done)
        _say_nodes("Left alone, for their override was changed since:", outcome.kept)
        _say_nodes("Left alone, for the levels over them can't be told here (use --level):", outcome.untold)
        click.echo("The nodes get their own value at the next `configdb-sync sync`.")
        return
    with session.client(comment=comment) as client:
        place = arguments.place(session, client, env, levels, data_source)
        arguments.report(changes.free(client, place, path), "no longer overridden")


COMMANDS = (get_command, set_command, del_command, override_command, rm_override_command)


def _say_nodes(text: str, nodes: list[str]) -> None:
    if nodes:
        more = f", ... ({len(nodes)})" if len(nodes) > _SHOWN else ""
        click.echo(f"{text} {'node' if len(nodes) == 1 else 'nodes'} {', '.join(nodes[:_SHOWN])}{more}.")
