"""The commands that ask about an environment's settings: lookup, find, compare (U24, U26)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from configdb_sync.cli import completion
from configdb_sync.cli.help import command
from configdb_sync.cli.listing import ListOutput, list_options
from configdb_sync.cli.node_choice import NamedNodes, named_nodes
from configdb_sync.cli.options import (
    CONNECTION,
    env_option,
    file_option,
    format_option,
    node_names,
    node_option,
    read_text,
    what_option,
    with_session,
)
from configdb_sync.cli.output import show_note
from configdb_sync.configdb.edits import shown_key
from configdb_sync.errors import DocumentError, NodeError, SettingsError, UnknownNameError
from configdb_sync.exits import Exit
from configdb_sync.jsonvalues import ABSENT, Json, canonical

if TYPE_CHECKING:
    from configdb_sync.cli.command_session import Session
    from configdb_sync.configdb.client import ConfigDBClient
    from configdb_sync.configdb.model import Environment
    from configdb_sync.hiera.arrangement import Arrangement, Asker, NodeSettings
    from configdb_sync.masking import Masker
    from configdb_sync.names import LevelPath
    from configdb_sync.queries.comparison import Difference, Group
    from configdb_sync.queries.explanation import Explanation

_SHOWN_NODES = 12
_QUERY = (*CONNECTION, "data_sources", "levels", "parallel")
_MERGES = ("first", "unique", "hash", "deep")


@command("lookup", example="configdb-sync lookup debug --env 1 --node 3 --explain")
@with_session(*_QUERY)
@env_option()
@what_option("--node", "node", required=True, metavar="NAME", help="The node: its ID, FQDN, or name.")
@click.argument("key", shell_complete=completion.keys)
@click.option("--merge", type=click.Choice(_MERGES), default="first", show_default=True, help="Hiera's merge behavior.")
@click.option("--explain", is_flag=True, help="Show all documents that have the key, and which one wins.")
@what_option("--from", "place", type=click.Path(path_type=Path), metavar="DIR", help="Ask node trees, not ConfigDB.")
@file_option("--hiera-yaml", "hiera_yaml", text="A hiera.yaml to go by instead of the node's own.")
@click.option("--class", "calling_class", metavar="NAME", help="The Puppet class that asks.")
@click.option("--module", "calling_module", metavar="NAME", help="The Puppet module that asks.")
@format_option("plain", "json", "yaml")
def lookup_key(
    session: Session,
    *,
    environment: int,
    node: str,
    key: str,
    merge: str,
    explain: bool,
    place: Path | None,
    hiera_yaml: Path | None,
    calling_class: str | None,
    calling_module: str | None,
    form: str,
) -> None:
    """Print what Puppet on a node reads for a key.

    The answer is that of Hiera on the node: data sources in the order of its hiera.yaml as the last run found it, from
    ConfigDB with all overrides; or, with --from, from the node's files. Where no hiera.yaml is known, Fuel's own order
    counts.
    """
    from configdb_sync.configdb import typed
    from configdb_sync.hiera.arrangement import Asker
    from configdb_sync.hiera.lookup import HieraLookupError, Merge, parse_key
    from configdb_sync.overrides.checks import close_keys
    from configdb_sync.queries import explanation

    asker = Asker(calling_class, calling_module)
    try:
        path = parse_key(key)
        if place is None:
            with session.client() as client:
                found = _environment(client, environment)
                nodes = named_nodes(session, client, environment, [node])
                (settings,) = _of_nodes(session, client, found, nodes, _arrangement(session, hiera_yaml, asker))
                said = explanation.explain(client, found, settings, path, Merge(merge))
        else:
            settings = _of_files(session, place, environment, node, _arrangement(session, hiera_yaml, asker))
            said = explanation.explain(None, None, settings, path, Merge(merge))
    except HieraLookupError as error:
        raise SettingsError(f"{key}: {error}", way_out="Hiera on the node fails as well") from None
    if explain:
        _show_explanation(said, path, session.masker, form)
    elif said.answer.found:
        click.echo(typed.text(said.answer.value, form))
    for note in settings.notes:
        show_note(f"The hiera.yaml of node {said.node}: {note}")
    for name in sorted(said.answer.unknown):
        show_note(f"The variable {name} is not known here; it counts as empty.")
    if not said.answer.found:
        close = close_keys([layer.document for layer in settings.layers], [str(part) for part in path])
        raise SettingsError(
            f"node {said.node} has no key {key}",
            way_out=f"did you mean {' or '.join(close)}?" if close else _all_keys(environment),
        )


@command("find", example="configdb-sync find '*_password' --env 1")
@with_session(*_QUERY)
@env_option()
@node_option
@click.argument("pattern", shell_complete=completion.keys)
@click.option("--value", metavar="TEXT", help="Only keys with this value; * and ? stand for any text.")
@file_option("--value-file", text="File with the value as it is, for a secret; - is standard input.", stdin=True)
@list_options("keys", "data_source", "key", "value", "nodes")
def find_keys(
    session: Session,
    *,
    environment: int,
    nodes: Sequence[str],
    pattern: str,
    value: str | None,
    value_file: Path | None,
    output: ListOutput,
) -> None:
    """Find keys and values on all nodes.

    PATTERN matches the end of a key: `debug` finds `nova.debug`, too. Each part may contain *, ? and [...]. Secrets are
    masked; a value finds a secret only if it is equal.
    """
    from configdb_sync.queries.search import Search, grouped, parse_pattern

    if value_file is not None:
        if value is not None:
            raise SettingsError("--value and --value-file exclude each other", way_out="give one of them")
        value = read_text(value_file, "the value file", "name it with --value-file")
        value = value.removesuffix("\n").removesuffix("\r")
    search = Search(parse_pattern(pattern, value, exact=value_file is not None), session.masker)
    with _settings(session, environment, nodes) as settings:
        hits = grouped(
            (node.node, layer.name, path, found)
            for node in settings
            for layer in node.everything
            for path, found in search.matches(layer.name, layer.document)
        )
    if not output.is_own:
        keys = [
            {
                "data_source": hit.data_source,
                "key": list(hit.path),
                "value": session.masker.shown(hit.path, hit.value),
                "nodes": list(hit.nodes),
            }
            for hit in hits
        ]
        output.show(keys, {"environment": environment})
    else:
        for hit in hits:
            text = _text(session.masker.shown(hit.path, hit.value))
            click.echo(f"{hit.data_source}  {shown_key(hit.path)} = {text}  ({_nodes(hit.nodes)})")
        if not hits:
            # The value may be a secret: whoever looks for it knows it, others read logs.
            value_too = "" if value is None else " with that value"
            show_note(f"no key in environment {environment} matches {pattern}{value_too}")


@command("compare", example="configdb-sync compare --env 1 --key nova.debug")
@with_session(*_QUERY)
@what_option("--env", "environments", required=True, metavar="N[,M]", help="The environment, or two to compare.")
@node_option
@click.option("--key", "-k", metavar="KEY", shell_complete=completion.keys, help="Compare one key of all nodes.")
@click.option("--exit-code", "coded", is_flag=True, help="Exit with 10 if there is a difference.")
@list_options("differences", "data_source", "key", "environment", "value", "nodes")
def compare(
    session: Session, *, environments: str, nodes: Sequence[str], key: str | None, coded: bool, output: ListOutput
) -> int:
    """Show how nodes or environments differ.

    Compares two or more nodes (--node 1,2), all nodes of one environment, or the values that occur in two environments
    (--env 1,2). Values are grouped; the group with the fewest nodes comes first.
    """
    from configdb_sync.configdb import edits
    from configdb_sync.overrides.checks import close_keys
    from configdb_sync.queries.comparison import compare_environments, compare_key, compare_nodes

    numbers = _numbers(environments)
    path = None if key is None else edits.parse_key(key)
    if len(numbers) == 2:
        if nodes:
            raise SettingsError("--node excludes two environments", way_out="name one environment")
        with _settings(session, numbers[0], ()) as first, _settings(session, numbers[1], ()) as second:
            sides = [
                {one.node: one.documents if path is None else one.only(path[0]) for one in side}
                for side in (first, second)
            ]
        pairs = [pair for pair in compare_environments(*sides) if path is None or pair[0].path[: len(path)] == path]
        _show_pairs(output, pairs, numbers, session.masker)
        return Exit.DRIFT if pairs and coded else Exit.OK
    if key is None and len(set(node_names(nodes))) == 1:
        raise SettingsError(f"--node {nodes[0]} is only one node", way_out="name several: --node 1,2")
    with _settings(session, numbers[0], nodes) as settings:
        documents = {one.node: one.documents if path is None else one.only(path[0]) for one in settings}
    if path is not None:
        found = compare_key(documents, path)
        if not found:
            with _settings(session, numbers[0], nodes) as settings:
                per_node = ([layer.document for layer in one.everything] for one in settings)
                close = dict.fromkeys(one for found_there in per_node for one in close_keys(found_there, path))
            raise SettingsError(
                f"no node has the key {key}",
                way_out=f"did you mean {' or '.join(close)}?" if close else _all_keys(numbers[0]),
            )
    else:
        found = compare_nodes(documents)
    if not output.is_own:
        _show_differences(output, [[one] for one in found], numbers, session.masker)
    elif found:
        _show_groups(found, session.masker)
    else:
        click.echo("there is no difference" if len(documents) > 1 else "there is only one node")
    return Exit.DRIFT if coded and any(len(one.groups) > 1 for one in found) else Exit.OK


def settings_of(
    session: Session, client: ConfigDBClient, environment: int, levels: Collection[tuple[str, str]] | None
) -> Iterator[NodeSettings]:
    """Yield what nodes read, as ConfigDB has it, one after another: those at or below any of some levels, None for all.

    Raises ``ConfigDBError``.
    """
    from configdb_sync.hiera.arrangement import Arrangement
    from configdb_sync.queries.node_settings import read_settings

    nodes = NamedNodes(session, client, environment).paths
    below = {node: path for node, path in nodes.items() if levels is None or not set(path).isdisjoint(levels)}
    arrangement = Arrangement(session.settings.data_sources)
    read = read_settings(
        client, _environment(client, environment), below, arrangement, parallel=session.settings.parallel
    )
    yield from (one for _, one in read if not isinstance(one, NodeError))


@contextmanager
def _settings(session: Session, environment: int, nodes: Sequence[str]) -> Iterator[Iterator[NodeSettings]]:
    with session.client() as client:
        found = _environment(client, environment)
        named = named_nodes(session, client, environment, node_names(nodes))
        yield _of_nodes(session, client, found, named, _arrangement(session))


def _environment(client: ConfigDBClient, environment: int) -> Environment:
    from configdb_sync.configdb import changes

    return changes.existing(client, environment)


def _of_nodes(
    session: Session,
    client: ConfigDBClient,
    environment: Environment,
    nodes: Mapping[str, LevelPath],
    arrangement: Arrangement,
) -> Iterator[NodeSettings]:
    """Yield the settings of nodes, one after another: those of all are more than a machine should hold."""
    from configdb_sync.queries.node_settings import read_settings

    found = False
    for node, one in read_settings(client, environment, nodes, arrangement, parallel=session.settings.parallel):
        if isinstance(one, NodeError):
            click.echo(f"node {node} is left out: {one.what}", err=True)
        else:
            found = True
            yield one
    if not found:
        raise UnknownNameError(
            f"ConfigDB has no settings of a node of environment {environment.id}",
            way_out=f"`configdb-sync sync --env {environment.id} --from ...` uploads them",
        )


def _arrangement(session: Session, hiera_yaml: Path | None = None, asker: Asker | None = None) -> Arrangement:
    from configdb_sync.hiera import hierarchy
    from configdb_sync.hiera.arrangement import NOBODY, Arrangement

    known = None
    if hiera_yaml is not None:
        try:
            known = hierarchy.parse(hiera_yaml.read_bytes())
        except OSError as error:
            raise SettingsError(f"--hiera-yaml: {hiera_yaml}: {error.strerror}", way_out="name a file") from None
        except DocumentError as error:
            raise SettingsError(f"--hiera-yaml: {hiera_yaml}: {error.what}", way_out="is it a node's?") from None
        for note in known.notes:
            show_note(f"{hiera_yaml}: {note}")
    return Arrangement(session.settings.data_sources, known, asker or NOBODY)


def _of_files(session: Session, place: Path, environment: int, node: str, arrangement: Arrangement) -> NodeSettings:
    from configdb_sync.hiera import hierarchy
    from configdb_sync.hiera.documents import Reader
    from configdb_sync.nodes.directory import DirectoryNodes

    nodes = DirectoryNodes(place, env=environment, writable=session.settings.writable)
    known = nodes.identities()
    if node not in known:
        from configdb_sync.overrides.checks import check_nodes

        check_nodes([node], known, may_be_new=False)
    (read,) = nodes.read([node])
    if isinstance(read, NodeError):
        raise read
    reader = Reader()
    files = {path: reader.read(file.content).values for path, file in read.files.items()}
    own = None
    if read.hiera_yaml is not None and arrangement.hierarchy is None:
        try:
            own = hierarchy.parse(read.hiera_yaml)
        except DocumentError as error:
            show_note(f"The hiera.yaml of node {node} is not followed: {error.what}")
    return arrangement.of_files(node, files, own)


def _all_keys(environment: int) -> str:
    return f"`configdb-sync find '*' --env {environment}` lists all keys"


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not 1 <= len(parts) <= 2 or not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        raise SettingsError(f"--env {text!r} is not one or two environments' numbers", way_out="like --env 1 or 1,2")
    return [int(part) for part in parts]


def _show_explanation(said: Explanation, path: Sequence[str | int], masker: Masker, form: str) -> None:
    from configdb_sync.configdb import typed
    from configdb_sync.queries import explanation

    whole = explanation.to_json(said, tuple(path), masker)
    if form != "plain":
        click.echo(typed.text(whole, form))
        return
    key = shown_key([str(part) for part in path])
    click.echo(f"{key} on node {said.node}: {_text(whole['value']) if whole['found'] else 'not found'}")
    for layer in whole["layers"]:
        value = _text(layer["value"]) if "value" in layer else "(its block lacks this key)"
        click.echo(f"  {layer['outcome']:<8} {layer['data_source']}  {layer['level']}  {layer['kind']}: {value}")


def _show_groups(found: Sequence[Difference], masker: Masker) -> None:
    for one in found:
        click.echo(f"{one.data_source}  {shown_key(one.path) if one.path else '(whole)'}")
        for group in one.groups:
            click.echo(f"  {_value(group, one, masker)}  ({_nodes(group.nodes)})")


def _show_pairs(
    output: ListOutput, pairs: Sequence[tuple[Difference, Difference]], numbers: Sequence[int], masker: Masker
) -> None:
    if not output.is_own:
        _show_differences(output, pairs, numbers, masker)
        return
    for pair in pairs:
        click.echo(f"{pair[0].data_source}  {shown_key(pair[0].path)}")
        for number, one in zip(numbers, pair, strict=True):
            for group in one.groups:
                click.echo(f"  environment {number}: {_value(group, one, masker)}  ({_nodes(group.nodes)})")
            if not one.groups:
                click.echo(f"  environment {number}: absent")
    if not pairs:
        click.echo(f"environments {numbers[0]} and {numbers[1]} have the same values")


def _show_differences(
    output: ListOutput, found: Sequence[Sequence[Difference]], numbers: Sequence[int], masker: Masker
) -> None:
    shown = [_difference(sides, numbers, masker) for sides in found]
    rows = [{**one, **group} for one in shown for group in one["groups"]]
    output.show(shown, {"environments": numbers}, rows=rows)


def _difference(sides: Sequence[Difference], numbers: Sequence[int], masker: Masker) -> dict[str, Json]:
    """Return a difference as JSON; ``sides``: what it is in each of the environments."""
    path = sides[0].path
    return {
        "data_source": sides[0].data_source,
        "key": list(path),
        "groups": [
            {
                "environment": number,
                **({} if group.value is ABSENT else {"value": masker.shown(path, group.value)}),
                "nodes": list(group.nodes),
            }
            for number, one in zip(numbers, sides, strict=True)
            for group in one.groups
        ],
    }


def _value(group: Group, one: Difference, masker: Masker) -> str:
    return "absent" if group.value is ABSENT else _text(masker.shown(one.path, group.value))


def _text(value: Json) -> str:
    text = value if isinstance(value, str) and value.isprintable() and value else canonical(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _nodes(nodes: Sequence[str]) -> str:
    listed = ", ".join(nodes[:_SHOWN_NODES]) + (", ..." if len(nodes) > _SHOWN_NODES else "")
    return f"{len(nodes)} node{'' if len(nodes) == 1 else 's'}: {listed}"
