"""Digests of all data sources of a node in one request, and all overrides (U13, U17)."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from configdb_sync.configdb import level_merge
from configdb_sync.jsonvalues import EMPTY_DIGEST, document_digest
from tests.support.configdb_server import CLUSTER, NODE, ROOT, Api

ETAGS = "/environments/5/cluster/c1/nodes/n1/etags"


def test_lists_are_answered_conditionally(fuel: Api) -> None:
    """U15: a node that looks up asks again after a time, and mostly nothing has changed."""
    for path, change in (
        ("/components", ("PATCH", "/components/1", {"name": "renamed"})),
        (ETAGS, ("PUT", NODE + "/values", {"a": 1})),
    ):
        tag = fuel.get(path).headers["ETag"]
        known = {"headers": {"If-None-Match": tag}}
        again = fuel.get(path, **known)
        assert (again.status_code, again.text, again.headers["ETag"]) == (304, "", tag)
        assert fuel("HEAD", path).headers["ETag"] == tag
        fuel.good(*change)
        assert fuel.get(path, **known).status_code == 200
        assert fuel.get(path, headers={"If-None-Match": "broken"}).status_code == 400


def test_digests_of_a_node(fuel: Api) -> None:
    empty = {"values": EMPTY_DIGEST, "overrides": EMPTY_DIGEST, "effective": EMPTY_DIGEST}
    assert fuel.good("GET", ETAGS) == {"1": empty, "2": empty}
    fuel.good("PUT", NODE + "/values", {"a": 1})
    one = document_digest({"a": 1})
    assert fuel.good("GET", ETAGS)["1"] == {"values": one, "overrides": EMPTY_DIGEST, "effective": one}
    fuel.good("PUT", NODE + "/overrides", {"b": 2})
    fuel.good("PUT", ROOT + "/values", {"a": 0, "c": 3})
    assert fuel.good("GET", ETAGS)["1"] == {
        "values": one,
        "overrides": document_digest({"b": 2}),
        "effective": document_digest({"a": 1, "b": 2, "c": 3}),
    }
    root = document_digest({"a": 0, "c": 3})
    assert fuel.good("GET", "/environments/5/etags")["1"] == {
        "values": root,
        "overrides": EMPTY_DIGEST,
        "effective": root,
    }
    assert fuel.good("GET", ETAGS)["2"] == empty
    assert fuel.get("/environments/9/etags").status_code == 404
    fuel.good("PATCH", "/environments/5", {"components": []})
    assert fuel.good("GET", ETAGS) == {}


DOCUMENTS = st.dictionaries(
    st.sampled_from("abcd"), st.integers(0, 2) | st.lists(st.booleans(), max_size=1), max_size=3
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(levels=st.lists(st.tuples(DOCUMENTS, DOCUMENTS), min_size=3, max_size=3))
def test_effective_digests_are_those_of_the_merge(
    fuel: Api, levels: list[tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    for place, (values, overrides) in zip((ROOT, CLUSTER, NODE), levels, strict=True):
        fuel.good("PUT", place + "/values", values)
        fuel.good("PUT", place + "/overrides", overrides)
    expected = level_merge.effective(levels)
    answer = fuel.get(NODE + "/values?effective")
    assert answer.json == expected
    assert list(answer.json) == list(expected) or len([pair for pair in levels if any(pair)]) < 2
    assert answer.headers["ETag"] == f'"{document_digest(expected)}"'
    assert fuel.good("GET", ETAGS)["1"]["effective"] == document_digest(expected)
    assert fuel.get(NODE + "/values?effective", headers={"If-None-Match": answer.headers["ETag"]}).status_code == 304


def test_all_overrides_of_an_environment(fuel: Api) -> None:
    fuel.good("PUT", NODE + "/values", {"a": 1, "b": 2})
    fuel.good("PUT", NODE.replace("n1", "n2") + "/values", {"a": 1})
    fuel.good("PUT", NODE + "/overrides", {"a": 5, "b": 2}, headers={"X-Configdb-Run": "req-2"})
    fuel.good("PUT", ROOT + "/overrides", {"a": 7, "b": 7, "c": 7})
    fuel.good("PUT", NODE.replace("globals", "override/plugins") + "/overrides", {"x": 1})
    fuel.good("PUT", NODE.replace("globals", "override/plugins") + "/overrides", {})
    root, node = fuel.good("GET", "/environments/5/overrides")
    assert root["resource_definition"] == {"id": 1, "name": "globals"}
    assert (root["level"], root["level_value"], root["place"]) == (None, None, "/")
    assert root["keys"] == {
        "a": {"effect": "none", "reason": "hidden", "hidden_by": 2},
        "b": {"effect": "partial", "reason": "hidden", "hidden_by": 1},
        "c": {"effect": "full", "reason": None, "hidden_by": 0},
    }
    keys = node.pop("keys")
    assert node == {
        "resource_definition": {"id": 1, "name": "globals"},
        "level": "nodes",
        "level_value": "n1",
        "place": "/nodes/n1/",
        "version": 1,
        "digest": document_digest({"a": 5, "b": 2}),
        "author": "anonymous",
        "run": "req-2",
        "comment": None,
        "time": node["time"],
    }
    assert keys == {
        "a": {"effect": "full", "reason": None, "hidden_by": 0},
        "b": {"effect": "none", "reason": "equal", "hidden_by": 0},
    }
    assert fuel.get("/environments/9/overrides").status_code == 404
