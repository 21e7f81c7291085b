"""Documents that cost much, names that no URL reaches, numbers that would fill a page (R4, R5)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from werkzeug.test import TestResponse

from configdb_sync.configdb_server import contents
from configdb_sync.configdb_server.contents import MAX_KEYS, MAX_VALUES
from tests.configdb_server.test_errors import check
from tests.support.configdb_server import NODE, Api

VALUES = NODE + "/values"


@pytest.fixture
def backend() -> str:
    return "sqlite"


def put(api: Api, text: str) -> TestResponse:
    return api.put(VALUES, data=text.encode(), content_type="application/json")


def test_a_document_of_millions_of_values_is_refused_before_it_is_read(
    fuel: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 MiB of empty lists took 22 seconds."""
    read: list[str] = []
    monkeypatch.setattr(contents, "members", read.append)
    for item in ("[]", "{}", "1", '""', '"\\""', "[[[]]]"):
        text = f'{{"a":[{",".join([item] * (MAX_VALUES + 1))}]}}'
        assert f"more than {MAX_VALUES} values" in check(put(fuel, text), 413)["message"]
    assert read == []


def test_what_stands_in_texts_is_no_value(fuel: Api) -> None:
    for text in (",[{" * MAX_VALUES, ',\\"' * MAX_VALUES, "\\\\,," * MAX_VALUES):
        assert put(fuel, f'{{"a":"{text}"}}').status_code == 204
    # Texts that never end are no better reason to look for their end again and again.
    check(put(fuel, '{"a":' + '\\"' * MAX_VALUES + "," * 2 * MAX_VALUES), 400)


def test_a_document_has_so_many_keys(fuel: Api) -> None:
    keys = {f"k{number}": 0 for number in range(MAX_KEYS)}
    assert put(fuel, json.dumps(keys)).status_code == 204
    assert str(MAX_KEYS) in check(put(fuel, json.dumps(keys | {"more": 0})), 413)["message"]
    assert check(fuel.put(f"{VALUES}/keys/set", [["more", 0]]), 413)
    assert fuel.put(f"{VALUES}/keys/set", [["k0", 1]]).status_code == 204


def test_keys_operations_make_no_larger_documents(fuel: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    fuel.good("PUT", VALUES, {"a": []})
    monkeypatch.setattr(contents, "MAX_VALUES", 6)
    assert fuel.put(f"{VALUES}/keys/set", [["a", [1, 2, 3]]]).status_code == 204
    assert "the result" in check(fuel.put(f"{VALUES}/keys/set", [["b", [1, 2]]]), 413)["message"]


UNREACHABLE = [
    "a\n",
    "\na",
    "a\nb",
    "a\r",
    "a\u2028b",
    "a\x85",
    "/a",
    "a/",
    "a//b",
    "/",
    "//",
    ".",
    "..",
    "a/../b",
    "./a",
]


@pytest.mark.parametrize("name", UNREACHABLE)
def test_names_that_no_url_reaches_are_refused(fuel: Api, name: str) -> None:
    for method, path, body in (
        ("POST", "/components", {"name": "c", "resource_definitions": [{"name": name}]}),
        ("POST", "/resource_definitions", {"name": name, "component_id": 1}),
        ("PATCH", "/resource_definitions/1", {"name": name}),
        ("POST", "/environments", {"components": [], "hierarchy_levels": [name]}),
        ("PATCH", "/environments/5", {"hierarchy_levels": [name]}),
        ("PATCH", "/environments/5/hierarchy_levels/nodes", {"name": name}),
    ):
        assert "no URL" in check(fuel(method, path, body), 422)["message"]


REACHABLE = [
    "a b",
    "a.b",
    "...",
    "x/plugins",
    "é☃",
    "a?b#c%2Fd",
    "values",
    "x/values",
    "\u00b2",
    "\u0663",
]


@pytest.mark.parametrize("name", REACHABLE)
def test_all_others_are_reached(fuel: Api, name: str) -> None:
    """A digit of another script is a name."""
    from urllib.parse import quote

    number = fuel.good("POST", "/resource_definitions", {"name": name, "component_id": 1})["id"]
    fuel.good("PUT", f"/environments/5/resources/{quote(name)}/values", {"mine": name})
    assert fuel.good("GET", f"/environments/5/resources/{number}/values") == {"mine": name}


def test_components_names_stand_in_no_url(fuel: Api) -> None:
    """A tenant's component is named after the tenant, and its ID may be anything."""
    for name in ("/configdb-sync/5", "../5", "a\n/5"):
        assert fuel.good("POST", "/components", {"name": name})["name"] == name


@pytest.mark.parametrize("what", ["component", "definition"])
def test_a_numeric_name_is_a_name(fuel: Api, what: str) -> None:
    """As tuning-box takes it; where components are listed, a number is an id and a text a name."""
    if what == "definition":
        assert fuel.good("POST", "/resource_definitions", {"name": 123, "component_id": 1})["name"] == "123"
        return
    made = fuel.good("POST", "/components", {"name": 7})
    assert made["name"] == "7"
    assert made["id"] != 7
    listed: dict[str, Any] = {"hierarchy_levels": []}
    assert fuel.good("POST", "/environments", {"components": ["7"], **listed})["components"] == [made["id"]]
    assert fuel.good("POST", "/environments", {"components": [made["id"]], **listed})["components"] == [made["id"]]
    check(fuel.post("/environments", {"components": [7], **listed}), 404)
    check(fuel.post("/components", {"name": True}), 422)
    check(fuel.post("/components", {"name": 10**200}), 422)


MISSING = [
    ("PUT", "/environments/7/resources/globals/values"),
    ("PUT", "/environments/5/resources/nope/overrides"),
    ("PUT", "/environments/5/nodes/1/resources/globals/values"),
    ("PATCH", "/environments/7/resources/globals/values/keys/set"),
    ("PATCH", "/environments/7"),
    ("PUT", "/environments/5/hierarchy_levels/nope"),
    ("PATCH", "/components/77"),
    ("PUT", "/resource_definitions/77"),
    ("PATCH", "/resource_definitions/77/keys/set"),
]


@pytest.mark.parametrize(("method", "path"), MISSING)
def test_what_is_missing_comes_before_what_is_wrong(fuel: Api, method: str, path: str) -> None:
    """As with tuning-box: a client that asks for a thing that isn't there learns that, whatever it sent."""
    bodies: list[dict[str, Any]] = [
        {"data": b"a: 1", "content_type": "text/plain"},
        {"data": b"{", "content_type": "application/json"},
        {"json": "text"},
        {"json": {"name": []}},
    ]
    for body in bodies:
        check(fuel(method, path, **body), 404)


def test_a_missing_component_comes_before_wrong_levels(fuel: Api) -> None:
    check(fuel.post("/environments", {"components": ["nope"]}), 404)
    check(fuel.post("/environments", {"components": ["nope"], "hierarchy_levels": "x"}), 404)
    check(fuel.post("/environments", {"components": ["fuel"]}), 422)


def test_hostile_numbers_are_short_in_texts(make: Callable[..., Api], fuel: Api) -> None:
    huge, digits = 10**4000, "9" * 10_000
    answers = [
        fuel.post("/environments", {"id": huge, "components": [], "hierarchy_levels": []}),
        fuel.post("/environments", {"components": [huge], "hierarchy_levels": []}),
        fuel.post("/components", {"name": huge}),
        fuel.put(f"{VALUES}/keys/get", [["a", huge, huge]]),
        put(fuel, f'{{"a":{digits}}}'),
        put(fuel, f'{{"a":1e{digits}}}'),
        fuel.get(f"/environments/{digits}"),
        fuel.get(f"/environments/5/resources/{digits}/values"),
        fuel.get(f"/resource_definitions?component_id={digits}x"),
        fuel.get(f"{VALUES}?version={digits}"),
    ]
    for answer in answers:
        message = check(answer, answer.status_code)["message"]
        assert 400 <= answer.status_code < 500
        assert len(message) < 500
        assert "9" * 250 not in message
        assert "sys." not in message
