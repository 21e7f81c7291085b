"""Resource definitions (U6): also the move of one to another component, which copies no value."""

from __future__ import annotations

from tests.support.configdb_server import NODE, Api


def test_definitions_are_made_listed_and_filtered(fuel: Api) -> None:
    made = fuel.post("/resource_definitions", {"name": "astute", "component_id": 1, "content": [1, {"x": None}]})
    expected = {"id": 3, "name": "astute", "component_id": 1, "content": [1, {"x": None}]}
    assert (made.status_code, made.json) == (201, expected)
    lonely = fuel.good("POST", "/resource_definitions", {"name": "astute"})
    assert lonely["component_id"] is None
    assert fuel.good("GET", "/resource_definitions/3") == expected
    assert [item["id"] for item in fuel.good("GET", "/resource_definitions")] == [1, 2, 3, 4]
    assert [item["id"] for item in fuel.good("GET", "/resource_definitions?component_id=1")] == [1, 2, 3]
    assert [item["id"] for item in fuel.good("GET", "/resource_definitions?component_id=")] == [4]
    assert fuel.good("GET", "/resource_definitions?component_id=99") == []
    assert fuel.good("GET", f"/resource_definitions?component_id={2**70}") == []
    assert fuel.get("/resource_definitions?component_id=x").status_code == 400
    # A definition that a component gets is usable in its environments at once.
    assert fuel.good("GET", "/environments/5/resources/astute/values") == {}


def test_what_cannot_be_made_is_refused(fuel: Api) -> None:
    for body, status in (
        ({"name": "globals", "component_id": 1}, 409),
        ({"name": "x", "component_id": 99}, 409),
        ({"name": "x", "component_id": "1"}, 422),
        ({"name": "x", "component_id": 2**63}, 422),
        ({"name": "x", "component_id": True}, 422),
        ({"component_id": 1}, 422),
        ({"name": "x", "content": "a\0b"}, 422),
        ("x", 422),
    ):
        assert fuel.post("/resource_definitions", body).status_code == status, body


def test_a_move_keeps_id_values_overrides_and_history(fuel: Api) -> None:
    fuel.good("PUT", NODE + "/values", {"a": 1})
    fuel.good("PUT", NODE + "/overrides", {"b": 2})
    fuel.good("POST", "/components", {"name": "tenant/5"})
    assert fuel.patch("/resource_definitions/1", {"component_id": 2}).status_code == 204
    assert fuel.get(NODE + "/values").status_code == 404
    fuel.good("PATCH", "/environments/5", {"components": [1, 2]})
    assert fuel.good("GET", NODE + "/values?effective") == {"a": 1, "b": 2}
    assert len(fuel.good("GET", NODE + "/values/history")) == 1
    assert fuel.patch("/resource_definitions/1", {"component_id": 99}).status_code == 409
    fuel.good("POST", "/resource_definitions", {"name": "globals", "component_id": 1})
    assert fuel.patch("/resource_definitions/1", {"component_id": 1}).status_code == 409


def test_name_and_content_change_and_nothing_is_no_change(fuel: Api) -> None:
    for method in ("PATCH", "PUT"):
        assert fuel(method, "/resource_definitions/1", {"name": method, "content": {"m": method}}).status_code == 204
        assert fuel(method, "/resource_definitions/1", {"id": 77, "unknown": 1}).status_code == 204
        found = fuel.good("GET", "/resource_definitions/1")
        assert found == {"id": 1, "name": method, "component_id": 1, "content": {"m": method}}
    assert fuel.patch("/resource_definitions/1", {"name": "override/plugins"}).status_code == 409
    assert fuel.patch("/resource_definitions/1", {"content": None}).status_code == 204
    assert fuel.good("GET", "/resource_definitions/1")["content"] is None


def test_keys_of_the_content(fuel: Api) -> None:
    fuel.good("PATCH", "/resource_definitions/1", {"content": {"a": [1, 2]}})
    url = "/resource_definitions/1/keys/"
    assert fuel.put(url + "set", [["b", {"c": 1}], ["a", 0, 9]]).status_code == 204
    assert fuel.patch(url + "delete", [["a", 1]]).status_code == 204
    answer = fuel.put(url + "get", [["b", "c"], ["a"]])
    assert (answer.status_code, answer.json) == (200, [1, [9]])
    assert fuel.good("GET", "/resource_definitions/1")["content"] == {"a": [9], "b": {"c": 1}}
    assert fuel.put(url + "set", [["x", "y", 1]]).status_code == 409
    assert fuel.put(url + "set", {"x": 1}).status_code == 422
    assert fuel.put(url + "erase", []).status_code == 404
    assert fuel.put("/resource_definitions/99/keys/set", []).status_code == 404
    assert fuel.put("/resource_definitions/2/keys/set", [["a", 1]]).status_code == 409  # its content is null


def test_deleting_a_definition_takes_its_values(fuel: Api) -> None:
    fuel.good("PUT", NODE + "/values", {"a": 1})
    assert fuel.delete("/resource_definitions/1").status_code == 204
    assert fuel.delete("/resource_definitions/1").status_code == 404
    assert fuel.good("POST", "/resource_definitions", {"name": "globals", "component_id": 1})["id"] == 3
    assert fuel.good("GET", NODE + "/values") == {}
