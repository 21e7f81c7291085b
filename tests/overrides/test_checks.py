"""U25: an override's data source, what hides it, close matches, types."""

from __future__ import annotations

from typing import Any

import pytest

from configdb_sync.errors import SettingsError
from configdb_sync.hiera.lookup import Layer
from configdb_sync.overrides import checks
from configdb_sync.overrides.checks import Hidden, Hiding


def node(**documents: dict[str, Any]) -> list[Layer]:
    """Layers in the order of a Fuel 9 hierarchy."""
    return [Layer(name, document) for name, document in documents.items()]


BOTH = node(globals={"debug": False, "nova": {"debug": False}}, astute={"debug": True, "nova": {"x": 1}, "uid": "1"})


def test_the_data_source_is_the_one_that_puppet_reads() -> None:
    assert checks.source_of({"1": BOTH}, ("debug",)) == "globals"
    assert checks.source_of({"1": BOTH}, ("nova", "x")) == "astute"
    assert checks.source_of({"1": BOTH}, ("none",)) is None
    assert checks.source_of({"1": BOTH, "2": node(astute={"debug": 1})}, ("uid",)) == "astute"


def test_nodes_that_read_from_different_data_sources_are_told_apart() -> None:
    with pytest.raises(SettingsError, match="globals on 1; astute on 2"):
        checks.source_of({"1": BOTH, "2": node(globals={}, astute={"debug": True})}, ("debug",))


def test_what_hides_a_key() -> None:
    nodes = {"1": BOTH, "2": node(globals={}, astute={"debug": True})}
    assert checks.hidings(nodes, "astute", ("debug",)) == (Hiding("globals", Hidden.WHOLLY, ("1",)),)
    assert checks.hidings(nodes, "globals", ("debug",)) == ()
    assert checks.hidings(nodes, "astute", ("nova", "x")) == (Hiding("globals", Hidden.UNLESS_MERGED, ("1",)),)
    assert checks.hidings({"1": node(globals={"nova": 5}, astute={})}, "astute", ("nova", "x"))[0].how is Hidden.WHOLLY


@pytest.mark.parametrize(
    ("path", "part"),
    [
        (("debgu",), "did you mean debug"),
        (("nova", "debgu"), "did you mean nova.debug"),
        (("novva", "debug"), "did you mean nova.debug"),
        (("uid",), "astute has it"),
        (("entirely_other",), "--new-key"),
    ],
)
def test_a_key_that_no_node_has(path: tuple[str, ...], part: str) -> None:
    with pytest.raises(SettingsError, match="no node of that level has the key") as caught:
        checks.check_key({"1": BOTH}, "globals", path)
    assert part in str(caught.value)


def test_a_key_that_one_node_has_will_do() -> None:
    checks.check_key({"1": BOTH, "2": node(astute={})}, "astute", ("uid",))


@pytest.mark.parametrize(("covered", "value"), [(1, "1"), (True, 1), ("a", ["a"]), ({}, []), (1.5, "x"), ([], "x")])
def test_another_type_is_refused(covered: Any, value: Any) -> None:
    with pytest.raises(SettingsError, match="of type"):
        checks.check_type([covered, covered], value, ("a", "b"))


@pytest.mark.parametrize(("covered", "value"), [(1, 2), (1, 2.5), (2.5, 1), (None, "x"), ("x", None), ({"a": 1}, {})])
def test_the_same_type_will_do(covered: Any, value: Any) -> None:
    checks.check_type([covered], value, ("a",))
    checks.check_type([{"other": 1}, covered, "other"], value, ("a",))
    checks.check_type([], value, ("a",))


def test_a_node_that_is_not_there() -> None:
    checks.check_nodes(["2"], ["1", "2"])
    with pytest.raises(SettingsError, match="node-12") as caught:
        checks.check_nodes(["node-12"], ["node-1", "node-11"])
    assert "--new-node" in str(caught.value)
    with pytest.raises(SettingsError, match=r"\(did you mean node-1 or node-11\?\)$"):
        checks.check_nodes(["node-12"], ["node-1", "node-11"], may_be_new=False)
