"""Which data source a part of Nailgun's data is in Fuel 10's layout (U21): pure."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.hiera.layouts import Layout
from configdb_sync.jsonvalues import same
from configdb_sync.sync.nailgun_source import equal_keys, layout_of_data, placed

KEYS = st.sampled_from("abcd")
VALUES: Any = st.recursive(
    st.integers(0, 2) | st.booleans(), lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=8
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    found = dict(one)
    for key, value in other.items():
        inner = found.get(key)
        found[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return found


@given(DOCUMENTS, DOCUMENTS, st.sets(KEYS))
def test_what_a_node_run_left_is_found_again(cluster: dict[str, Any], node: dict[str, Any], common: set[str]) -> None:
    assert same(list(placed(merged(cluster, node), common, node, cluster)), [node, cluster])


@given(DOCUMENTS, DOCUMENTS, DOCUMENTS, st.sets(KEYS))
def test_nothing_of_the_data_is_lost(
    data: dict[str, Any], node: dict[str, Any], cluster: dict[str, Any], common: set[str]
) -> None:
    own, shared = placed(data, common, node, cluster)
    for key, value in data.items():
        assert key in own or key in shared
        if key not in own:
            assert same(shared[key], value)
        elif key not in shared or not isinstance(own[key], dict):
            assert same(own[key], value)
    assert data.keys() == own.keys() | shared.keys()


@given(st.lists(DOCUMENTS, min_size=1, max_size=4))
def test_equal_keys_are_those_that_all_have(documents: list[dict[str, Any]]) -> None:
    found = equal_keys(documents)
    for key in {key for document in documents for key in document}:
        assert (key in found) == all(key in one and same(one[key], documents[0].get(key)) for one in documents)


def test_types_count_and_a_nodes_name_is_its_own() -> None:
    assert equal_keys([{"a": 1, "b": 1}, {"a": True, "b": 1}]) == {"b"}
    assert equal_keys([{"uid": "1", "fqdn": "a", "c": None}]) == {"c"}
    assert equal_keys([]) == frozenset()


@pytest.mark.parametrize(
    ("data", "layout"),
    [
        ({"openstack_version": "mitaka-9.0", "fuel_version": "10.0"}, Layout.FUEL9),
        ({"openstack_version": "newton-10.0"}, Layout.FUEL10),
        ({"openstack_version": "ocata-11.0"}, Layout.FUEL10),
        ({"openstack_version": "2015.1.0-8.0"}, Layout.FUEL9),
        ({"openstack_version": 7, "fuel_version": "10.0"}, Layout.FUEL10),
        ({"openstack_version": "newton", "fuel_version": "9.0"}, Layout.FUEL9),
        ({}, Layout.FUEL9),
    ],
)
def test_the_environments_release_tells_the_layout(data: dict[str, Any], layout: Layout) -> None:
    assert layout_of_data(data) is layout
