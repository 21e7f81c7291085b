"""The machine-readable descriptions (T13): both served, both true of the code."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from configdb_sync.tenants import app, documents, names
from configdb_sync.tenants.paths import Kind, route
from configdb_sync.tenants.refusals import TenantRefusal
from tests.tenants.test_targets import GOOD

WADL = "{http://wadl.dev.java.net/2009/02}"
XSD = "{http://www.w3.org/2001/XMLSchema}"
EXAMPLE = {"tenantId": "t", "environment": "1", "dataSource": "plugins/x", "run": "req-1"}


@pytest.mark.parametrize("path", documents.CALLS)
def test_every_call_is_there_with_its_methods(path: str) -> None:
    asked = route(tuple(path.format(**EXAMPLE)[1:].split("/")))
    there = {method.lower() for method in app.methods_of(asked)}
    told = set(documents.CALLS[path])
    assert told - {"head"} == there
    assert ("head" in told) <= ("get" in there)


def test_all_that_the_code_has_is_told() -> None:
    kinds = {route(tuple(path.format(**EXAMPLE)[1:].split("/"))).kind for path in documents.CALLS}
    assert kinds == {*app._TABLE, Kind.DOCUMENT}


def _wadl() -> ET.Element:
    return ET.fromstring(documents.wadl())


def test_the_wadl_has_the_same_calls() -> None:
    found: dict[str, set[str]] = {}
    for resource in _wadl().iter(f"{WADL}resource"):
        found[f"/{resource.get('path')}"] = {(one.get("name") or "").lower() for one in resource.iter(f"{WADL}method")}
    assert found == {path: set(methods) for path, methods in documents.CALLS.items()}


@pytest.mark.parametrize("tenant", [*GOOD, "", "a/b", "x" * 255, "x" * 256], ids=ascii)
def test_the_types_take_what_the_service_takes(tenant: str) -> None:
    restriction = next(_wadl().iter(f"{XSD}restriction"))
    facets = {one.tag.removeprefix(XSD): one.get("value") or "" for one in restriction}
    schema: Any = documents.openapi()["components"]["schemas"]["TenantID"]
    try:
        taken = names.tenant_id(tenant) == tenant
    except TenantRefusal:
        taken = False
    length = int(facets["minLength"]) <= len(tenant) <= int(facets["maxLength"])
    assert (length and re.fullmatch(facets["pattern"], tenant) is not None) is taken
    length = schema["minLength"] <= len(tenant) <= schema["maxLength"]
    assert (length and re.search(schema["pattern"], tenant) is not None) is taken


def test_openapi_is_json_with_what_it_refers_to() -> None:
    told = documents.openapi()
    text = json.dumps(told)
    for name in re.findall(r"#/components/schemas/(\w+)", text):
        assert name in told["components"]["schemas"]
    for path, methods in told["paths"].items():
        wanted = set(re.findall(r"\{(\w+)\}", path))
        for operation in methods.values():
            assert {one["name"] for one in operation["parameters"] if one["in"] == "path"} == wanted


def test_the_public_endpoint_tells_what_it_has() -> None:
    told = documents.calls(public=True)
    for path in documents.CALLS:
        asked = route(tuple(path.format(**EXAMPLE)[1:].split("/")))
        try:
            there = {method.lower() for method in app.public_methods_of(asked)}
        except TenantRefusal:
            there = set()
        if asked.place is None and path not in documents.OPEN:
            assert path not in told, "nobody's own"
            continue
        assert set(told.get(path, {})) - {"head"} == there, path
        assert {code for codes in told.get(path, {}).values() for code in codes}.isdisjoint({301, 303})
    assert "/v1.0/{tenantId}" in told
    assert set(documents.openapi(public=True)["paths"]) == set(told)
    assert b"action/move" not in documents.wadl(public=True)
    assert b"action/move" in documents.wadl()
