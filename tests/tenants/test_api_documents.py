"""The machine-readable descriptions (T13): both served, both true of the code."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from configdb_sync.tenants import app, openapi, paths
from configdb_sync.tenants.paths import RouteKind, route
from configdb_sync.web.refusals import RefusalError
from tests.tenants import described
from tests.tenants.test_targets import GOOD

WADL = "{http://wadl.dev.java.net/2009/02}"
XSD = "{http://www.w3.org/2001/XMLSchema}"
EXAMPLE = {"tenantId": "t", "environment": "1", "dataSource": "plugins/x", "run": "req-1"}


@pytest.mark.parametrize("path", openapi.CALLS)
def test_every_call_is_there_with_its_methods(path: str) -> None:
    asked = route(tuple(path.format(**EXAMPLE)[1:].split("/")))
    there = {method.lower() for method in app.methods_of(asked)}
    told = set(openapi.CALLS[path])
    assert told - {"head"} == there
    assert ("head" in told) <= ("get" in there)


def test_all_that_the_code_has_is_told() -> None:
    kinds = {route(tuple(path.format(**EXAMPLE)[1:].split("/"))).kind for path in openapi.CALLS}
    assert kinds == {*app._TABLE, RouteKind.DOCUMENT}


def _wadl() -> ET.Element:
    return ET.fromstring(openapi.wadl())


def test_the_wadl_has_the_same_calls() -> None:
    found: dict[str, set[str]] = {}
    for resource in _wadl().iter(f"{WADL}resource"):
        found[f"/{resource.get('path')}"] = {(one.get("name") or "").lower() for one in resource.iter(f"{WADL}method")}
    assert found == {path: set(methods) for path, methods in openapi.CALLS.items()}


@pytest.mark.parametrize("tenant", [*GOOD, "", "a/b", "x" * 255, "x" * 256], ids=ascii)
def test_the_types_take_what_the_service_takes(tenant: str) -> None:
    restriction = next(_wadl().iter(f"{XSD}restriction"))
    facets = {one.tag.removeprefix(XSD): one.get("value") or "" for one in restriction}
    schema: Any = openapi.openapi()["components"]["schemas"]["TenantID"]
    try:
        taken = paths.tenant_id(tenant) == tenant
    except RefusalError:
        taken = False
    length = int(facets["minLength"]) <= len(tenant) <= int(facets["maxLength"])
    assert (length and re.fullmatch(facets["pattern"], tenant) is not None) is taken
    length = schema["minLength"] <= len(tenant) <= schema["maxLength"]
    assert (length and re.search(schema["pattern"], tenant) is not None) is taken


def test_openapi_is_json_with_what_it_refers_to() -> None:
    told = openapi.openapi()
    text = json.dumps(told)
    for name in re.findall(r"#/components/schemas/(\w+)", text):
        assert name in told["components"]["schemas"]
    for path, methods in told["paths"].items():
        wanted = set(re.findall(r"\{(\w+)\}", path))
        for operation in methods.values():
            assert {one["name"] for one in operation["parameters"] if one["in"] == "path"} == wanted


def test_the_public_endpoint_tells_what_it_has() -> None:
    told = openapi.calls(public=True)
    for path in openapi.CALLS:
        asked = route(tuple(path.format(**EXAMPLE)[1:].split("/")))
        try:
            there = {method.lower() for method in app.public_methods_of(asked)}
        except RefusalError:
            there = set()
        if asked.place is None and path not in openapi.OPEN:
            assert path not in told, "nobody's own"
            continue
        assert set(told.get(path, {})) - {"head"} == there, path
        assert {code for codes in told.get(path, {}).values() for code in codes}.isdisjoint({301, 303})
    assert "/v1.0/{tenantId}" in told
    assert set(openapi.openapi(public=True)["paths"]) == set(told)
    assert b"action/move" not in openapi.wadl(public=True)
    assert b"action/move" in openapi.wadl()


@pytest.mark.parametrize("public", [False, True])
def test_openapi_is_valid(public: bool) -> None:
    told: Any = openapi.openapi(public=public)
    assert not [str(error) for error in OpenAPIV31SpecValidator(told).iter_errors()]


def operations() -> list[tuple[str, str]]:
    return [(path, method) for path, methods in openapi.CALLS.items() for method in methods]


@pytest.mark.parametrize(("path", "method"), operations())
def test_every_answer_has_its_schema(path: str, method: str) -> None:
    answers = openapi.openapi()["paths"][path][method]["responses"]
    assert set(map(int, answers)) > set(openapi.CALLS[path][method])
    for code, answer in answers.items():
        bare = method == "head" or code in {"204", "303", "304"}
        assert ("content" in answer) is not bare, code
        for content in answer.get("content", {}).values():
            assert content["schema"] != {}
        if int(code) >= 301 and not bare:
            assert answer["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Error"}


def test_a_level_is_needed_where_overrides_are_written() -> None:
    path = "/v1.0/{tenantId}/environments/{environment}/resources/{dataSource}"
    told = openapi.openapi()["paths"][path]
    needed = {method: [one["name"] for one in told[method]["parameters"] if one.get("required")] for method in told}
    assert "level" in needed["put"]
    assert "level" not in needed["get"]
    assert told["put"]["requestBody"]["required"]


def test_what_is_no_answer_is_seen() -> None:
    """The check by which all tests look at answers."""
    tenant = {"$ref": "#/components/schemas/Health"}
    assert described.faults(tenant, {"status": "ok"}) == []
    assert described.faults(tenant, {"status": "ok", "more": 1})
    assert described.faults(tenant, {})
    with pytest.raises(AssertionError):
        described.check("GET", "/v1.0/a", 418, "application/json", b"{}")
    with pytest.raises(AssertionError):
        described.check("GET", "/v1.0/a", 200, "application/json", b'{"id": "a"}')
    described.check("GET", "/v1.0/a?fields=id", 200, "application/json", b'{"id": "a"}')


# The content models of the WADL submission (https://www.w3.org/submissions/wadl/, 2): what an element holds, in this
# order, and its attributes. What may stand any number of times in any order is one group.
_MODELS: dict[str, tuple[tuple[tuple[str, ...], ...], frozenset[str]]] = {
    "application": (
        (("doc",), ("grammars",), ("resources",), ("resource_type", "method", "representation", "param")),
        frozenset(),
    ),
    "doc": ((), frozenset({"title"})),
    "grammars": ((("doc",), ("include",)), frozenset()),
    "include": ((("doc",),), frozenset({"href"})),
    "resources": ((("doc",), ("resource",)), frozenset({"base"})),
    "resource": ((("doc",), ("param",), ("method", "resource")), frozenset({"id", "type", "queryType", "path"})),
    "method": ((("doc",), ("request",), ("response",)), frozenset({"id", "name", "href"})),
    "request": ((("doc",), ("param",), ("representation",)), frozenset()),
    "response": ((("doc",), ("param",), ("representation",)), frozenset({"status"})),
    "representation": ((("doc",), ("param",)), frozenset({"id", "element", "mediaType", "href", "profile"})),
    "param": (
        (("doc",), ("option",), ("link",)),
        frozenset({"href", "name", "style", "id", "type", "default", "required", "repeating", "fixed", "path"}),
    ),
    "option": ((("doc",),), frozenset({"value", "mediaType"})),
    "link": ((("doc",),), frozenset({"resource_type", "rel", "rev"})),
}
_ONCE = {"grammars", "request", "link"}
_VALUES = {
    ("param", "style"): r"plain|query|matrix|header|template",
    ("param", "name"): r"[\w.:-]+",
    ("param", "required"): r"true|false|0|1",
    ("param", "type"): r"(xsd|t):\w+",
    ("representation", "element"): r"(t|a):\w+",
    ("representation", "mediaType"): r"[\w.+-]+/[\w.+-]+",
    ("method", "name"): r"[\w.:-]+",
    ("response", "status"): r"[0-9]{3}( [0-9]{3})*",
}


def _wadl_faults(element: ET.Element) -> list[str]:
    name = element.tag.removeprefix(WADL)
    groups, attributes = _MODELS[name]
    found = [f"{name} has no attribute {key}" for key in element.attrib if key not in attributes and "}" not in key]
    for key, value in element.items():
        if not re.fullmatch(_VALUES.get((name, key), ".*"), value):
            found.append(f"{name} {key}={value!r}")
    place, seen = 0, []
    for child in element:
        if not child.tag.startswith(WADL):
            place = len(groups)  # others' elements come last
            continue
        kind = child.tag.removeprefix(WADL)
        at = next((number for number, group in enumerate(groups) if kind in group), None)
        if at is None or at < place or (kind in _ONCE and kind in seen):
            found.append(f"{kind} is out of place in {name} {element.attrib}")
        else:
            place = at
        seen.append(kind)
        found += _wadl_faults(child)
    if name == "resources" and "resource" not in seen:
        found.append("resources without any")
    return found


@pytest.mark.parametrize("public", [False, True])
def test_the_wadl_is_valid(public: bool) -> None:
    root = ET.fromstring(openapi.wadl(public=public))
    assert root.tag == f"{WADL}application"
    assert _wadl_faults(root) == []


def test_the_check_of_the_wadl_sees_faults() -> None:
    start = f'<application xmlns="{WADL[1:-1]}"><resources base="/"><resource path="x">'
    end = "</resource></resources></application>"
    for wrong in (
        '<method name="GET"/><param name="a" style="query"/>',
        '<method name="GET"><response/><request/></method>',
        '<param name="a" style="body"/>',
        '<param name="a b" style="query"/>',
        '<representation mediaType="a/b"/>',
        '<method name="GET" verb="x"/>',
        '<method name="GET"><response status="2xx"/></method>',
    ):
        assert _wadl_faults(ET.fromstring(f"{start}{wrong}{end}")), wrong
    assert not _wadl_faults(ET.fromstring(f'{start}<param name="a" style="query"/><method name="GET"/>{end}'))


def test_the_wadl_tells_answers_and_errors() -> None:
    for resource in _wadl().iter(f"{WADL}resource"):
        path = f"/{resource.get('path')}"
        for method in resource.iter(f"{WADL}method"):
            verb = (method.get("name") or "").lower()
            told: dict[str, set[str]] = {}
            for response in method.iter(f"{WADL}response"):
                kinds = {one.get("mediaType") or "" for one in response.iter(f"{WADL}representation")}
                told.update(dict.fromkeys((response.get("status") or "").split(), kinds))
            answers = openapi.openapi()["paths"][path][verb]["responses"]
            assert told == {code: set(answer.get("content", {})) for code, answer in answers.items()}, (path, verb)
            assert (verb == "put") is (method.find(f"{WADL}request/{WADL}representation") is not None)
