"""Environments and hierarchy levels (U6)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.configdb_server import CLUSTER, NODE, ROOT, Api

LEVELS = "/environments/5/hierarchy_levels"


def test_components_go_by_name_or_id_and_levels_keep_their_order(fuel: Api) -> None:
    fuel.good("POST", "/components", {"name": "1"})
    made = fuel.post("/environments", {"id": 7, "components": ["1", 1], "hierarchy_levels": ["z", "a", "m"]})
    assert made.status_code == 201
    assert made.json == {"id": 7, "components": [1, 2], "hierarchy_levels": ["z", "a", "m"]}
    assert [item["id"] for item in fuel.good("GET", "/environments")] == [5, 7]


def test_ids_are_given_or_drawn_and_never_collide(fuel: Api) -> None:
    empty: dict[str, Any] = {"components": [], "hierarchy_levels": []}
    assert fuel.good("POST", "/environments", empty)["id"] == 6
    assert fuel.good("POST", "/environments", {"id": "11", **empty})["id"] == 11
    assert fuel.good("POST", "/environments", {"id": None, **empty})["id"] == 12
    assert fuel.good("POST", "/environments", {"id": 2**63 - 1, **empty})["id"] == 2**63 - 1
    assert fuel.post("/environments", {"id": 5, **empty}).status_code == 409


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"hierarchy_levels": []}, 422),
        ({"components": []}, 422),
        ({"components": "fuel", "hierarchy_levels": []}, 422),
        ({"components": [None], "hierarchy_levels": []}, 422),
        ({"components": [True], "hierarchy_levels": []}, 422),
        ({"components": ["nope"], "hierarchy_levels": []}, 404),
        ({"components": [99], "hierarchy_levels": []}, 404),
        ({"components": ["fuel", 1], "hierarchy_levels": []}, 409),
        ({"components": [], "hierarchy_levels": ["a", "a"]}, 409),
        ({"components": [], "hierarchy_levels": ["a/b"]}, 422),
        ({"components": [], "hierarchy_levels": ["resources"]}, 422),
        ({"components": [], "hierarchy_levels": [1]}, 422),
        ({"id": "abc", "components": [], "hierarchy_levels": []}, 422),
        ({"id": -1, "components": [], "hierarchy_levels": []}, 422),
        ({"id": 2**63, "components": [], "hierarchy_levels": []}, 422),
        ({"id": 1.0, "components": [], "hierarchy_levels": []}, 422),
        ([], 422),
    ],
)
def test_what_cannot_be_made_is_refused(fuel: Api, body: object, status: int) -> None:
    assert fuel.post("/environments", body).status_code == status
    assert len(fuel.good("GET", "/environments")) == 1


def test_a_component_taken_off_hides_documents_and_brings_them_back(fuel: Api) -> None:
    fuel.good("PUT", NODE + "/values", {"a": 1})
    assert fuel.patch("/environments/5", {"components": []}).status_code == 204
    assert fuel.get(NODE + "/values").status_code == 404
    assert fuel.put("/environments/5", {"components": ["fuel"]}).status_code == 204
    assert fuel.good("GET", NODE + "/values") == {"a": 1}


def test_levels_are_appended_reordered_and_taken_off(fuel: Api) -> None:
    fuel.good("PUT", NODE + "/values", {"a": 1})
    fuel.good("PUT", CLUSTER + "/values", {"b": 1})
    assert fuel.patch("/environments/5", {"hierarchy_levels": ["nodes", "cluster", "rack"]}).status_code == 204
    assert fuel.good("GET", "/environments/5")["hierarchy_levels"] == ["nodes", "cluster", "rack"]
    assert fuel.good("GET", "/environments/5/nodes/n1/cluster/c1/resources/1/values?effective") == {"a": 1, "b": 1}
    assert fuel.patch("/environments/5", {"hierarchy_levels": ["nodes"]}).status_code == 204
    assert fuel.patch("/environments/5", {"hierarchy_levels": ["cluster", "nodes"]}).status_code == 204
    assert fuel.good("GET", CLUSTER + "/values") == {}
    assert fuel.good("GET", NODE + "/values") == {"a": 1}


def test_a_change_that_cannot_be_made_changes_nothing(fuel: Api) -> None:
    before = fuel.good("GET", "/environments/5")
    for body, status in (
        ({"components": [99]}, 404),
        ({"components": [], "hierarchy_levels": ["a", "a"]}, 409),
        ({"hierarchy_levels": ["x"], "components": [1, "fuel"]}, 409),
        ({"components": {}}, 422),
    ):
        assert fuel.patch("/environments/5", body).status_code == status
    assert fuel.patch("/environments/5", {}).status_code == 204
    assert fuel.good("GET", "/environments/5") == before


def test_deleting_an_environment_takes_its_documents(fuel: Api) -> None:
    fuel.good("PUT", NODE + "/values", {"a": 1})
    assert fuel.delete("/environments/5").status_code == 204
    assert fuel.get("/environments/5").status_code == 404
    fuel.good("POST", "/environments", {"id": 5, "components": [1], "hierarchy_levels": ["cluster", "nodes"]})
    assert fuel.good("GET", NODE + "/values") == {}
    assert fuel.good("GET", NODE + "/values/history") == []


def test_hierarchy_levels_show_the_values_that_have_documents(fuel: Api) -> None:
    fuel.good("PUT", NODE + "/values", {"a": 1})
    fuel.good("PUT", NODE.replace("globals", "2") + "/overrides", {"a": 1})
    fuel.good("PUT", NODE.replace("n1", "a b") + "/values", {"a": 1})
    found = fuel.good("GET", LEVELS)
    assert found == [
        {"id": 1, "name": "cluster", "environment_id": 5, "parent": None, "values": []},
        {"id": 2, "name": "nodes", "environment_id": 5, "parent": "cluster", "values": ["a b", "n1"]},
    ]
    assert fuel.good("GET", LEVELS + "/nodes") == found[1]
    assert fuel.good("GET", LEVELS + "/1") == found[0]
    for missing in ("/rack", "/99", f"/{2**70}"):
        assert fuel.get(LEVELS + missing).status_code == 404
        assert fuel.patch(LEVELS + missing, {"name": "x"}).status_code == 404
    assert fuel.get("/environments/9/hierarchy_levels").status_code == 404


def test_reading_writes_nothing(fuel: Api) -> None:
    for path in (NODE, ROOT):
        for suffix in (
            "/values",
            "/overrides",
            "/values?effective",
            "/values?effective&show_lookup",
            "/values/history",
        ):
            fuel.good("GET", path + suffix)
    fuel.good("GET", "/environments/5/cluster/c1/nodes/n1/etags")
    assert [level["values"] for level in fuel.good("GET", LEVELS)] == [[], []]


def test_a_level_is_renamed_with_its_documents(fuel: Api) -> None:
    fuel.good("PUT", NODE + "/values", {"a": 1})
    assert fuel.patch(LEVELS + "/nodes", {"name": "hosts"}).status_code == 204
    assert fuel.good("GET", NODE.replace("nodes", "hosts") + "/values") == {"a": 1}
    assert fuel.get(NODE + "/values").status_code == 404
    assert fuel.put(LEVELS + "/hosts", {"name": "cluster"}).status_code == 409
    assert fuel.put(LEVELS + "/2", {}).status_code == 204
    assert fuel.put(LEVELS + "/2", {"name": "a/b"}).status_code == 422
    assert fuel.good("GET", "/environments/5")["hierarchy_levels"] == ["cluster", "hosts"]
