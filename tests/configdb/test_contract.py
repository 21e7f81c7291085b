"""The same calls against every server: the embedded one and PyPI's 0.1.0, on SQLite and PostgreSQL (U6, U9, U16).

``CONFIGDB_SYNC_CONTRACT_URL`` adds one at an address, such as a tuning-box master of one's own. The differences:

- 0.1.0 can't add: no definition to a component, no component or level to an environment. The client says so.
- 0.1.0 doesn't tell which level gave a key. The client merges for it.
- A wrong level name is 404, on 0.1.0 400 with the reason.
- 0.1.0 names the levels of an environment in any order on PostgreSQL; its merge has the right one.
- ETags, and the digests of a node, are the embedded server's alone; so are versions.
- The embedded server refuses the character NUL in a document.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import Component, Environment, ServerKind
from configdb_sync.errors import (
    ConflictError,
    DocumentError,
    MissingError,
    PreconditionError,
    RefusedError,
    SettingsError,
    UnsupportedError,
)
from configdb_sync.jsonvalues import document_digest
from tests.configdb.support import NODE

LEGACY = ServerKind.LEGACY
_NUMBERS = itertools.count(100)


@pytest.fixture
def made(client: ConfigDBClient) -> tuple[int, dict[str, int]]:
    """An environment with the levels cluster and nodes, and its data sources by name."""
    env = next(_NUMBERS)
    component = client.create_component(f"component-{env}", [f"globals-{env}", f"override/plugins-{env}"])
    environment = client.create_environment(env, [component.id], ["nodes"])
    definitions = client.definitions(environment)
    return env, {name.rpartition("-")[0]: definition.id for name, definition in definitions.items()}


def test_it_is_found_out_which_server_answers(client: ConfigDBClient, request: pytest.FixtureRequest) -> None:
    kinds = {"legacy": LEGACY, "embedded": ServerKind.EMBEDDED, "given": client.server()}
    assert client.server() is kinds[request.node.callspec.id.partition("-")[0]]


def test_a_component_is_made_once(client: ConfigDBClient) -> None:
    """S04: the second creation finds the first one's."""
    env = next(_NUMBERS)
    first = client.create_component(f"c-{env}", ["a", "b/c"])
    assert [definition.name for definition in first.definitions] == ["a", "b/c"]
    assert {definition.component_id for definition in first.definitions} == {first.id}
    assert client.create_component(f"c-{env}", ["a", "b/c"]) == first
    assert first in client.components()


def test_of_many_that_make_an_environment_at_once_all_get_the_one(client: ConfigDBClient) -> None:
    """S04: losers of the race read again and go on."""
    env = next(_NUMBERS)
    component = client.create_component(f"c-{env}", ["a"])
    made: list[Environment] = []
    faults: list[Exception] = []

    def make() -> None:
        try:
            made.append(client.create_environment(env, [component.id], ["nodes"]))
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=make) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert set(made) == {Environment(env, (component.id,), ("nodes",))}


def test_an_environment_that_is_other_than_wanted_is_no_success(client: ConfigDBClient) -> None:
    """S04."""
    env = next(_NUMBERS)
    component = client.create_component(f"c-{env}", ["a"])
    client.create_environment(env, [component.id], ["nodes"])
    with pytest.raises(ConflictError, match=r"not .* and \['role'\]"):
        client.create_environment(env, [component.id], ["role"])


def test_levels_and_their_merge(client: ConfigDBClient) -> None:
    """Root first, each level's values, then its overrides; a value further in beats an override above it."""
    env = next(_NUMBERS)
    component = client.create_component(f"c-{env}", [f"globals-{env}"])
    number = component.definitions[0].id
    levels = ["zone", "cluster", "nodes"]
    made = client.create_environment(env, [component.id], levels)
    assert sorted(made.levels) == sorted(levels)
    if client.server() is not LEGACY:
        assert made.levels == tuple(levels)
    path = (("zone", "z"), ("cluster", "c"), ("nodes", "n"))
    for depth in range(4):
        client.put_values(env, path[:depth], number, {f"v{depth}": depth, "value": depth, "mixed": depth})
        client.put_overrides(env, path[:depth], number, {f"o{depth}": depth, "override": depth})
    client.put_overrides(env, path[:1], number, {"mixed": "hidden"})
    expected = {"value": 3, "override": 3, "mixed": 3} | {f"v{n}": n for n in range(4)}
    expected |= {f"o{n}": n for n in (0, 2, 3)}
    assert client.effective(env, path, number) == expected
    assert {key: level for key, (_, level) in client.lookup(env, path, number).items()} == {
        "value": "/zone/z/cluster/c/nodes/n/",
        "override": "/zone/z/cluster/c/nodes/n/",
        "mixed": "/zone/z/cluster/c/nodes/n/",
        "v0": "/",
        "o0": "/",
        "v1": "/zone/z/",
        "v2": "/zone/z/cluster/c/",
        "o2": "/zone/z/cluster/c/",
        "v3": "/zone/z/cluster/c/nodes/n/",
        "o3": "/zone/z/cluster/c/nodes/n/",
    }


def test_a_missing_environment_is_none(client: ConfigDBClient) -> None:
    assert client.environment(99_999_999) is None


def test_documents_are_read_as_they_were_written(client: ConfigDBClient, made: tuple[int, dict[str, int]]) -> None:
    """U9, U10: values and overrides of a node and of the root, merged shallowly."""
    env, sources = made
    document = {
        "text": "é\u2028\U0001f600",
        "big": 123456789012345678901234567890,
        "real": 1.0,
        "none": None,
        "list": [1, {"deep": [True]}],
        "": {},
        "a.b/c": {"x": 1, "y": 2},
    }
    for name in sources:
        assert client.values(env, NODE, sources[name]) == {}
        assert client.overrides(env, NODE, sources[name]) == {}
        client.put_values(env, NODE, sources[name], document)
        client.put_values(env, (), sources[name], b'{"root": 1, "a.b/c": 0}')
        client.put_overrides(env, NODE, sources[name], {"a.b/c": {"x": 9}, "new": []})
        found = client.values(env, NODE, sources[name])
        assert document_digest(found) == document_digest(document)
        assert client.effective(env, NODE, sources[name]) == {"root": 1, **document, "a.b/c": {"x": 9}, "new": []}
        assert client.effective(env, (), sources[name]) == {"root": 1, "a.b/c": 0}


def test_the_level_of_each_key_is_told(client: ConfigDBClient, made: tuple[int, dict[str, int]]) -> None:
    """U16 (``--show-lookup``): 0.1.0 doesn't know it, the client merges for it."""
    env, sources = made
    client.put_values(env, (), sources["globals"], {"a": 0, "b": 0})
    client.put_overrides(env, NODE, sources["globals"], {"a": 1, "c": {"x": None}})
    assert client.lookup(env, NODE, sources["globals"]) == {
        "a": (1, "/nodes/46/"),
        "b": (0, "/"),
        "c": ({"x": None}, "/nodes/46/"),
    }


def test_level_values_of_any_text_are_kept_apart(client: ConfigDBClient, made: tuple[int, dict[str, int]]) -> None:
    env, sources = made
    texts = ["46", "node-1.domain.tld", "a b", "é☃", "a%2Fb", "?x#y;z", "\\", "+", "~", "x" * 128, "é" * 128]
    for value in texts:
        client.put_values(env, (("nodes", value),), sources["globals"], {"mine": value})
    for value in texts:
        assert client.values(env, (("nodes", value),), sources["globals"]) == {"mine": value}


def test_level_values_that_no_server_keeps_are_refused(
    client: ConfigDBClient, made: tuple[int, dict[str, int]]
) -> None:
    env, sources = made
    for value in ["", ".", "..", "a/b", "x" * 129, "\0", "\ud800"]:
        with pytest.raises(SettingsError, match="level nodes"):
            client.values(env, (("nodes", value),), sources["globals"])


def test_what_is_missing_is_named(client: ConfigDBClient, made: tuple[int, dict[str, int]]) -> None:
    env, sources = made
    with pytest.raises(MissingError, match="environment 99999999 isn't there"):
        client.values(99_999_999, NODE, sources["globals"])
    with pytest.raises(MissingError, match=f"environment {env} has no data source with the id 999999"):
        client.effective(env, NODE, 999_999)
    # 0.1.0 says 400 with the reason where the others say 404.
    with pytest.raises((MissingError, RefusedError), match="nodes"):
        client.values(env, (("role", "x"),), sources["globals"])


def test_only_json_objects_are_sent(client: ConfigDBClient, made: tuple[int, dict[str, int]]) -> None:
    env, sources = made
    client.put_values(env, NODE, sources["globals"], {"a": 1})
    wrong: list[Any] = [float("nan"), [], "x", None, {"a": float("inf")}, {"a": {1, 2}}, b"[]", b""]
    for document in wrong:
        with pytest.raises(DocumentError):
            client.put_values(env, NODE, sources["globals"], document)
    assert client.values(env, NODE, sources["globals"]) == {"a": 1}


def test_many_first_writes_of_one_new_node(client: ConfigDBClient, made: tuple[int, dict[str, int]]) -> None:
    """Two first requests at once break a node on 0.1.0; the client lets one go before."""
    env, sources = made
    faults: list[Exception] = []

    def write(number: int) -> None:
        try:
            name = "globals" if number % 2 else "override/plugins"
            client.put_values(env, (("nodes", "77"),), sources[name], {"a": name})
            client.effective(env, (("nodes", "77"),), sources[name])
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    for name, number in sources.items():
        assert client.effective(env, (("nodes", "77"),), number) == {"a": name}


def test_definitions_are_added_and_components_attached(
    client: ConfigDBClient, made: tuple[int, dict[str, int]]
) -> None:
    """U6; 0.1.0 can do neither and is told apart before anything is sent."""
    env, _ = made
    environment = client.environment(env)
    assert environment is not None
    other = client.create_component(f"other-{env}", [f"x-{env}"])
    if client.server() is LEGACY:
        with pytest.raises(UnsupportedError, match=r"tuning-box 0\.1\.0"):
            client.attach_component(environment, other.id)
        with pytest.raises(UnsupportedError, match=r"0\.1\.0"):
            client.add_definition(other.id, f"y-{env}")
        with pytest.raises(UnsupportedError, match=r"0\.1\.0"):
            client.extend_levels(environment, ["nodes", "role"])
        return
    attached = client.attach_component(environment, other.id)
    assert attached.components == (*environment.components, other.id)
    assert client.attach_component(environment, other.id) == attached
    added = client.add_definition(other.id, f"y-{env}")
    assert client.add_definition(other.id, f"y-{env}") == added
    assert set(client.definitions(attached)) >= {f"x-{env}", f"y-{env}"}
    extended = client.extend_levels(attached, ["nodes", "role"])
    assert extended.levels == ("nodes", "role")
    with pytest.raises(ConflictError, match="by appending"):
        client.extend_levels(extended, ["role", "nodes"])


def test_of_many_that_add_one_name_all_get_the_same(client: ConfigDBClient) -> None:
    if client.server() is LEGACY:
        return  # it can't add any
    component = client.create_component(f"c-{next(_NUMBERS)}", [])
    added: list[int] = []
    threads = [
        threading.Thread(target=lambda: added.append(client.add_definition(component.id, "same").id)) for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(added) == 6
    assert len(set(added)) == 1
    found: Component = next(one for one in client.components() if one.id == component.id)
    assert [definition.id for definition in found.definitions] == [added[0]]


def test_digests_of_a_node(client: ConfigDBClient, made: tuple[int, dict[str, int]]) -> None:
    """Only the embedded server has them."""
    env, sources = made
    number = sources["globals"]
    client.put_values(env, NODE, number, {"a": 1, "b": {}})
    client.put_overrides(env, NODE, number, {"a": 2})
    etags = client.etags(env, NODE)
    if client.server() is not ServerKind.EMBEDDED:
        assert etags is None
        return
    assert etags is not None
    assert etags.keys() == set(sources.values())
    assert etags[number].values == document_digest({"b": {}, "a": 1})
    assert etags[number].overrides == document_digest({"a": 2})
    assert etags[number].effective == document_digest({"a": 2, "b": {}})


def test_a_write_against_an_etag(client: ConfigDBClient, made: tuple[int, dict[str, int]]) -> None:
    """Read, change, write: another's write in between isn't lost. 0.1.0 has no ETags."""
    env, sources = made
    client.put_overrides(env, NODE, sources["globals"], {"a": 1})
    document, etag = client.tagged(env, NODE, sources["globals"], "overrides")
    assert document == {"a": 1}
    if client.server() is not ServerKind.EMBEDDED:
        assert etag is None
        return
    assert etag is not None
    client.put_overrides(env, NODE, sources["globals"], {"a": 2}, if_match=etag)
    with pytest.raises(PreconditionError):
        client.put_overrides(env, NODE, sources["globals"], {"a": 3}, if_match=etag)
    assert client.overrides(env, NODE, sources["globals"]) == {"a": 2}


def test_a_definition_is_moved_and_its_values_stay(client: ConfigDBClient, made: tuple[int, dict[str, int]]) -> None:
    """T7: values hang on the id; 0.1.0 refuses clearly, and nothing is changed."""
    env, ids = made
    number = ids["globals"]
    other = client.create_component(f"other-{env}", [])
    client.put_values(env, NODE, number, {"a": 1})
    if client.server() is LEGACY:
        with pytest.raises(UnsupportedError, match=r"tuning-box 0\.1\.0"):
            client.move_definition(number, other.id)
        with pytest.raises(UnsupportedError, match=r"tuning-box 0\.1\.0"):
            client.delete_definition(number)
        return
    environment = client.environment(env)
    assert environment is not None
    client.attach_component(environment, other.id)
    for _ in range(2):
        client.move_definition(number, other.id)
    placed = {one.id: [each.id for each in one.definitions] for one in client.components()}
    assert placed[other.id] == [number]
    assert client.values(env, NODE, number) == {"a": 1}
    assert {one.id for one in client.environments()} >= {env}
    with pytest.raises(MissingError):
        client.move_definition(10**9, other.id)
    for _ in range(2):
        client.delete_definition(number)
    assert all(number not in listed for listed in ([d.id for d in one.definitions] for one in client.components()))
