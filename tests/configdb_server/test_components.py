"""Components (U6): answers and status codes of tuning-box master, without its faults."""

from __future__ import annotations

from typing import Any

from tests.support.configdb_server import NODE, Api


def test_a_component_comes_with_its_definitions(api: Api) -> None:
    body = {
        "name": "fuel9.0",
        "resource_definitions": [{"name": "override/plugins"}, {"name": "g", "content": {"a": 1}}],
    }
    made = api.post("/components", body)
    expected = {
        "id": 1,
        "name": "fuel9.0",
        "resource_definitions": [
            {"id": 1, "name": "override/plugins", "component_id": 1, "content": None},
            {"id": 2, "name": "g", "component_id": 1, "content": {"a": 1}},
        ],
    }
    assert (made.status_code, made.json) == (201, expected)
    assert made.text.endswith("\n")
    assert made.content_type == "application/json"
    assert api.good("GET", "/components/1") == expected
    api.good("POST", "/components", {"name": "empty", "other": 1})
    assert [item["name"] for item in api.good("GET", "/components")] == ["fuel9.0", "empty"]


def test_names_are_unique_and_texts(fuel: Api) -> None:
    assert fuel.post("/components", {"name": "fuel"}).status_code == 409
    twice = {"name": "x", "resource_definitions": [{"name": "a"}, {"name": "a"}]}
    assert fuel.post("/components", twice).status_code == 409
    wrong: Any
    for wrong in (
        {},
        {"name": None},
        {"name": ""},
        {"name": "x" * 129},
        {"name": "a\0"},
        {"name": "\ud800"},
    ):
        assert fuel.post("/components", wrong).status_code == 422, wrong
    items: Any
    for items in ({}, None, [{}], [1], [{"name": 1.5}]):
        assert fuel.post("/components", {"name": "y", "resource_definitions": items}).status_code == 422, items


def test_a_name_of_128_wide_characters_is_held(api: Api) -> None:
    name = "\U0001f600" * 128
    assert api.good("POST", "/components", {"name": name})["name"] == name


def test_a_change_renames_and_replaces_the_set_of_definitions(fuel: Api) -> None:
    fuel.good("PUT", NODE + "/values", {"a": 1})
    fuel.good("POST", "/components", {"name": "other", "resource_definitions": [{"name": "moved"}]})
    for method in ("PATCH", "PUT"):
        assert fuel(method, "/components/1", {"name": f"by {method}"}).status_code == 204
        assert fuel.good("GET", "/components/1")["name"] == f"by {method}"
    assert fuel.patch("/components/1", {"resource_definitions": [{"id": 3}, {"id": 1}]}).status_code == 204
    assert [item["name"] for item in fuel.good("GET", "/components/1")["resource_definitions"]] == ["globals", "moved"]
    assert fuel.good("GET", "/components/2")["resource_definitions"] == []
    assert fuel.get("/resource_definitions/2").status_code == 404
    assert fuel.good("GET", NODE + "/values") == {"a": 1}


def test_a_change_that_cannot_be_made_changes_nothing(fuel: Api) -> None:
    before = fuel.good("GET", "/components")
    fuel.good("POST", "/components", {"name": "other", "resource_definitions": [{"name": "globals"}]})
    for body, status in (
        ({"name": "other"}, 409),
        ({"name": "n", "resource_definitions": [{"id": 1}, {"id": 3}]}, 409),
        ({"name": "n", "resource_definitions": [{"id": 99}]}, 404),
        ({"name": "n", "resource_definitions": [{"name": "x"}]}, 422),
        ({"name": "n", "resource_definitions": [{"id": "1"}]}, 422),
        ({"name": None}, 422),
        ([], 422),
    ):
        assert fuel.patch("/components/1", body).status_code == status, body
    assert fuel.good("GET", "/components")[:1] == before


def test_deleting_a_component_takes_values_with_it(fuel: Api) -> None:
    fuel.good("PUT", NODE + "/values", {"a": 1})
    assert fuel.delete("/components/1").status_code == 204
    assert fuel.get(NODE + "/values").status_code == 404
    assert fuel.good("GET", "/environments/5")["components"] == []
    assert fuel.delete("/components/1").status_code == 404
    # No id is given twice: values hang on them.
    assert fuel.good("POST", "/components", {"name": "fuel"})["id"] == 2


def test_ids_that_no_database_holds_are_not_there(api: Api) -> None:
    for number in ("0", "99", str(2**31), str(2**63), "9" * 5000):
        for method in ("GET", "DELETE"):
            assert api(method, f"/components/{number}").status_code == 404
            assert api(method, f"/resource_definitions/{number}").status_code == 404
            assert api(method, f"/environments/{number}").status_code == 404
        assert api.patch(f"/components/{number}", {"name": "x"}).status_code == 404
        assert api.patch(f"/resource_definitions/{number}", {"name": "x"}).status_code == 404
        assert api.patch(f"/environments/{number}", {}).status_code == 404


def test_only_an_empty_component_is_deleted_as_such(fuel: Api) -> None:
    """So that no definition that another adds meanwhile goes with it."""
    empty = fuel.good("POST", "/components", {"name": "empty"})["id"]
    environment = fuel.good("GET", "/environments/5")
    fuel.good("PATCH", "/environments/5", {"components": [*environment["components"], empty]})
    full = environment["components"][0]
    assert fuel.delete(f"/components/{full}/empty").status_code == 409
    assert fuel.delete(f"/components/{empty}/empty").status_code == 204
    assert fuel.delete(f"/components/{empty}/empty").status_code == 404
    assert fuel.good("GET", "/environments/5") == environment
