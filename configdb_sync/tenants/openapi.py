"""The API as OpenAPI and WADL, made from the table of calls (T13), and the calls on health and metrics."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial
from http import HTTPStatus
from typing import Any, TypeAlias
from xml.etree import ElementTree as ET

import sqlalchemy as sa

from configdb_sync import __version__
from configdb_sync.names import NAME_LIMIT
from configdb_sync.store import gauges, tenant_schema
from configdb_sync.tenants import api_schemas
from configdb_sync.tenants.moves import NAMESPACE
from configdb_sync.tenants.paths import ID_RULES, LONGEST_ID
from configdb_sync.tenants.requests import Context, TenantRequest
from configdb_sync.web.responses import ApiResponse, json_response

ID_PATTERN = "[^/]+"
"""The pattern of the source document, in XML Schema, which can't contain NUL anyway."""

_SEGMENT = r"[^/\u0000]+"
_TAG = '(W/)?"[!#-~]*"'

Parameter: TypeAlias = dict[str, Any]


def _path(name: str, schema: dict[str, Any], **more: str) -> Parameter:
    return {"name": name, "in": "path", "required": True, **more, "schema": schema}


def _query(name: str, schema: dict[str, Any], **more: str) -> Parameter:
    return {"name": name, "in": "query", **more, "schema": schema}


def _text(pattern: str | None = None, *values: str) -> dict[str, Any]:
    if values:
        return {"type": "string", "enum": list(values)}
    return {"type": "string"} if pattern is None else {"type": "string", "pattern": pattern}


_ID = {"$ref": "#/components/schemas/TenantID"}
_NUMBER = _text("^[0-9]{1,18}$")
_NUL_FREE = _text(r"^[^\u0000]*$")
_TENANT = _path("tenantId", _ID)
_ENVIRONMENT = _path("environment", _text("^(0|[1-9][0-9]{0,18})$"))
_SOURCE = _path(
    "dataSource",
    {"type": "string", "maxLength": NAME_LIMIT, "pattern": f"^{_SEGMENT}(/{_SEGMENT})*$"},
    description="Slashes of the name stand bare in the path.",
)
_RUN = _path("run", _text())
_DEST: Parameter = {"name": "dest", "in": "query", "required": True, "schema": _ID}
_TAGS = {"anyOf": [{"const": "*"}, _text(f"^{_TAG}( *, *{_TAG})*$")]}
_MATCH: Parameter = {"name": "If-Match", "in": "header", "schema": _TAGS}
_NONE_MATCH: Parameter = {"name": "If-None-Match", "in": "header", "schema": _TAGS}
_LIMIT = _query("limit", {"type": "integer", "minimum": 1})
_MARKER = _query("marker", _NUL_FREE)
_FIELDS = _query("fields", _NUL_FREE)
_LEVEL = _query(
    "level",
    _text(r"^([^=,\s\u0000]+=[^,\s\u0000]+(,[^=,\s\u0000]+=[^,\s\u0000]+)*)?$"),
    description="Hierarchy levels, each once, outermost first: nodes=46. Empty: the root.",
)
_MARKERS = {
    "/v1.0/{tenantId}/environments": _query("marker", _NUMBER),
    "/v1.0/{tenantId}/resources": _query("marker", _text(r"^[0-9]{1,18}/[^\u0000]*$")),
    "/v1.0/{tenantId}/audit": _query("marker", _NUMBER),
    "/audit": _query("marker", _NUMBER),
}
"""Markers that are restricted."""
_NODE = _query("node", _text())
_STATUS = _query("status", _text(None, "ACTIVE", "BUILD", "ERROR", "null"))
_SHOW = _query("show", _text(None, "layers", "history"))
_KIND = _query("kind", _text(None, "overrides", "values"))
_KEY = _query("key", _text())
_MERGE = _query("merge", _text(None, "first", "unique", "hash", "deep"))
_FIND = _query("text", _text())
_ONLY = _query("only", _text(None, "ineffective", "ending"))
_EXPIRING = _query("expiring", _text())
_RECOVERABLE = _query("recoverable", _text(None, "true", "false"))

_Codes: TypeAlias = dict[str, tuple[int, ...]]

_READ: _Codes = {"get": (200, 203, 301, 304, 404, 410, 412), "head": (204, 301, 304, 404, 410, 412)}
_READ_RUNS: _Codes = {**_READ, "get": tuple(code for code in _READ["get"] if code != 203)}
_ACTION: _Codes = {"get": (200, 301, 304, 404, 410, 412), "post": (301, 303, 404, 409, 410, 412, 501, 503)}
_LIST: _Codes = {"get": (200, 404, 410)}
_LOOK: _Codes = {"get": (200, 304, 404, 412), "head": (204, 304, 404, 412)}
_LOOK_FRESH: _Codes = {**_LOOK, "get": (200, 203, 304, 404, 412)}

CALLS: dict[str, _Codes] = {
    "/v1.0": {"get": (200,)},
    "/v1.0/{tenantId}": {
        "get": (200, 203, 304, 404, 410, 412),
        "head": (204, 304, 404, 410, 412),
        "put": (201, 202, 409, 412, 413, 415),
        "delete": (204, 404, 410, 412),
    },
    "/v1.0/{tenantId}/action/recover": {"post": (204, 404, 409)},
    "/v1.0/{tenantId}/action/move": {key: tuple(one for one in codes if one != 301) for key, codes in _ACTION.items()},
    "/v1.0/{tenantId}/environments": _LIST,
    "/v1.0/{tenantId}/resources": _LIST,
    "/v1.0/{tenantId}/audit": {"get": (200,)},
    "/v1.0/{tenantId}/environments/{environment}": _READ,
    "/v1.0/{tenantId}/environments/{environment}/action/move": _ACTION,
    "/v1.0/{tenantId}/environments/{environment}/resources": {"get": (200, 301, 404, 410)},
    "/v1.0/{tenantId}/environments/{environment}/resources/{dataSource}": {
        "get": (*_READ["get"], 503),
        "head": (*_READ["head"], 503),
        "put": (204, 301, 404, 409, 410, 412, 413, 415, 503),
    },
    "/v1.0/{tenantId}/environments/{environment}/resources/{dataSource}/action/move": _ACTION,
    "/v1.0/{tenantId}/environments/{environment}/matrix": _READ,
    "/v1.0/{tenantId}/environments/{environment}/runs": _READ_RUNS,
    "/v1.0/{tenantId}/environments/{environment}/runs/{run}": _READ_RUNS,
    "/v1.0/{tenantId}/environments/{environment}/overrides": {key: (*_READ_RUNS[key], 503) for key in _READ_RUNS},
    "/v1.0/{tenantId}/environments/{environment}/findings": _READ_RUNS,
    "/environments": _LOOK,
    "/environments/{environment}/matrix": _LOOK_FRESH,
    "/environments/{environment}/runs": _LOOK,
    "/environments/{environment}/runs/{run}": _LOOK,
    "/environments/{environment}/overrides": {key: (*_LOOK[key], 503) for key in _LOOK},
    "/environments/{environment}/findings": _LOOK,
    "/environments/{environment}/lookup": {key: (*_LOOK[key], 503) for key in _LOOK},
    "/audit": {"get": (200,)},
    "/healthz": {"get": (200, 503)},
    "/metrics": {"get": (200,)},
    "/openapi.json": {"get": (200,)},
    "/application.wadl": {"get": (200,)},
}
"""Every call and its own answers; all calls can be answered with 400, 401, 403, 429, 500 and 503."""

OPEN = frozenset({"/healthz", "/openapi.json", "/application.wadl"})
_TENANTS_OWN = "/{tenantId}"
_OPERATORS = ("/action/move", "/action/recover", "/audit")


def show_health(context: Context, request: TenantRequest) -> ApiResponse:
    """GET /healthz: 200 if the registry is available, else 503. Open to all: it says nothing else."""
    request.parameters()
    context.registry.read(lambda connection: connection.execute(sa.select(sa.literal(1))).scalar())
    return json_response({"status": "ok"})


def show_metrics(context: Context, request: TenantRequest) -> ApiResponse:
    """GET /metrics: all workers' metrics, and what the watch and the runs say of environments, for Prometheus.

    Only on the admin endpoint: they name tenants.
    """
    request.parameters()
    waiting = sa.select(sa.func.count()).select_from(tenant_schema.OUTBOX)
    count = context.registry.read(lambda connection: connection.execute(waiting).scalar_one())
    told = {"outbox_waiting": ("Changes that ConfigDB has yet to follow", float(count))}
    own = b"" if context.meter is None else context.meter.text(told)
    environments = gauges.gauges_text(context.registry.database, request.clock)
    return ApiResponse(200, own + environments, kind=gauges.KIND)


def calls(*, public: bool) -> dict[str, _Codes]:
    """Return the calls of an endpoint; the public one only reads what is a tenant's own."""
    if not public:
        return CALLS
    found: dict[str, _Codes] = {}
    for path, methods in CALLS.items():
        if path in OPEN or (_TENANTS_OWN in path and not path.endswith(_OPERATORS)):
            reading = {method: codes for method, codes in methods.items() if method in {"get", "head"}}
            # A redirect would name another tenant.
            found[path] = {method: tuple(code for code in codes if code != 301) for method, codes in reading.items()}
    return found


def show_openapi(_: Context, request: TenantRequest, *, public: bool = False) -> ApiResponse:
    """GET /openapi.json: the API of this endpoint."""
    request.parameters()
    return ApiResponse(200, json.dumps(openapi(public=public), indent=1).encode("ascii") + b"\n")


def show_wadl(_: Context, request: TenantRequest, *, public: bool = False) -> ApiResponse:
    """GET /application.wadl: the API of this endpoint."""
    request.parameters()
    return ApiResponse(200, wadl(public=public), kind="application/vnd.sun.wadl+xml; charset=UTF-8")


PUBLIC_DOCUMENTS: dict[str, Callable[[Context, TenantRequest], ApiResponse]] = {
    "openapi.json": partial(show_openapi, public=True),
    "application.wadl": partial(show_wadl, public=True),
}
"""The documents of the public endpoint."""


_SECURITY = {"token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"}}
_LOOKS: dict[str, tuple[Parameter, ...]] = {
    "environments": (_LIMIT, _query("marker", _NUMBER)),
    "matrix": (_NODE, _STATUS, _LIMIT, _MARKER),
    "runs": (_LIMIT, _query("marker", _text(r"^[0-9]{1,12}(\.[0-9]{1,9})?/[^\u0000]+$"))),
    "{run}": (),
    "overrides": (_FIND, _ONLY, _EXPIRING, _LIMIT, _MARKER),
    "lookup": ({**_NODE, "required": True}, {**_KEY, "required": True}, _MERGE),
    "findings": (_FIND, _LIMIT, _MARKER),
}
"""The parameters of status calls, by the last part of the path."""


def _parameters(path: str, method: str) -> list[Parameter]:
    found = [one for one in (_TENANT, _ENVIRONMENT, _SOURCE, _RUN) if f"{{{one['name']}}}" in path]
    if path.endswith("/action/move"):
        found += [_DEST, _MATCH]
    elif path == "/v1.0":
        found += [_LIMIT, _MARKER, _RECOVERABLE]
    elif path.endswith(("/matrix", "/runs", "/{run}", "/overrides", "/findings", "/lookup")) or path == "/environments":
        found += [*_LOOKS[path.rpartition("/")[2]], _MATCH, _NONE_MATCH]
    elif path.endswith(("/environments", "/resources", "/audit")):
        found += [_LIMIT, _MARKERS.get(path, _MARKER)]
    elif path.endswith("/{dataSource}"):
        more = [] if method == "put" else [_FIELDS, _SHOW, _KIND, _KEY, _LIMIT, _MARKER]
        level = {**_LEVEL, "required": True} if method == "put" else _LEVEL
        found += [*more, level, _MATCH, _NONE_MATCH]
    elif path == "/v1.0/{tenantId}" and method in {"put", "delete"}:
        found += [_MATCH, *([_NONE_MATCH] if method == "put" else [])]
    elif method in {"get", "head"} and path not in OPEN | {"/metrics"}:
        found += [_FIELDS, _LIMIT, _MATCH, _NONE_MATCH]
    return found


@cache
def openapi(*, public: bool = False) -> dict[str, Any]:
    """Return the API of an endpoint as OpenAPI 3.1."""
    paths: dict[str, Any] = {}
    for path, methods in calls(public=public).items():
        for method, codes in methods.items():
            answers = {str(code): _answer(path, method, code) for code in sorted({*codes, *_everywhere(path)})}
            operation: dict[str, Any] = {"parameters": _parameters(path, method), "responses": answers}
            if path in OPEN:
                operation["security"] = []
            if method == "put":
                overrides = path.endswith("/{dataSource}")
                schema = {"type": "object"} if overrides else api_schemas.ref("TenantBody")
                operation["requestBody"] = {"content": {"application/json": {"schema": schema}}, "required": overrides}
            paths.setdefault(path, {})[method] = operation
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tenants", "version": __version__, "description": ID_RULES},
        "security": [{"token": []}],
        "paths": paths,
        "components": {"schemas": api_schemas.SCHEMAS, "securitySchemes": _SECURITY},
    }


def _answer(path: str, method: str, code: int) -> dict[str, Any]:
    found: dict[str, Any] = {"description": HTTPStatus(code).phrase}
    if code in {201, 301, 303}:
        found["headers"] = {"Location": {"required": True, "schema": {"type": "string"}}}
    content = api_schemas.content_of(path, method, code)
    return {**found, "content": content} if content else found


_WADL = "http://wadl.dev.java.net/2009/02"
_SCHEMA = "http://www.w3.org/2001/XMLSchema"
_OWN = "urn:configdb-sync:tenants:v1.0"


@cache
def wadl(*, public: bool = False) -> bytes:
    """Return the API of an endpoint as WADL, with the tenant ID's type as in the source document, and its length."""
    root = ET.Element("application", {"xmlns": _WADL, "xmlns:xsd": _SCHEMA, "xmlns:t": _OWN, "xmlns:a": NAMESPACE})
    schema = ET.SubElement(ET.SubElement(root, "grammars"), "xsd:schema", {"targetNamespace": _OWN})
    kind = ET.SubElement(schema, "xsd:simpleType", {"name": "TenantID"})
    ET.SubElement(ET.SubElement(kind, "xsd:annotation"), "xsd:documentation").text = ID_RULES
    restriction = ET.SubElement(kind, "xsd:restriction", {"base": "xsd:string"})
    ET.SubElement(restriction, "xsd:minLength", {"value": "1"})
    ET.SubElement(restriction, "xsd:maxLength", {"value": str(LONGEST_ID)})
    ET.SubElement(restriction, "xsd:pattern", {"value": ID_PATTERN})
    resources = ET.SubElement(root, "resources", {"base": "/"})
    for path, methods in calls(public=public).items():
        resource = ET.SubElement(resources, "resource", {"path": path.removeprefix("/")})
        # Parameters come before methods, in the URL as in the schema.
        for one in _parameters(path, "get"):
            if one["in"] == "path":
                _wadl_parameter(resource, one)
        for method, codes in methods.items():
            element = ET.SubElement(resource, "method", {"name": method.upper()})
            asked = ET.SubElement(element, "request")
            for one in _parameters(path, method):
                if one["in"] != "path":
                    _wadl_parameter(asked, one)
            if method == "put":
                ET.SubElement(asked, "representation", {"mediaType": "application/json"})
            for kinds, several in _responses(path, method, codes):
                response = ET.SubElement(element, "response", {"status": " ".join(map(str, several))})
                for media in kinds:
                    body = ET.SubElement(response, "representation", {"mediaType": media})
                    if media == api_schemas.XML:
                        body.set("element", "a:move")
    text: bytes = ET.tostring(root, encoding="UTF-8", xml_declaration=True)
    return text + b"\n"


def _responses(path: str, method: str, codes: tuple[int, ...]) -> list[tuple[tuple[str, ...], list[int]]]:
    """Return an operation's status codes by the media types of their bodies, errors apart from answers."""
    found: dict[tuple[bool, tuple[str, ...]], list[int]] = {}
    for code in sorted({*codes, *_everywhere(path)}):
        found.setdefault((code >= 400, tuple(api_schemas.content_of(path, method, code))), []).append(code)
    return [(kinds, several) for (_, kinds), several in found.items()]


def _everywhere(path: str) -> tuple[int, ...]:
    return (400, 500) if path in OPEN else (400, 401, 403, 429, 500, 503)


def _wadl_parameter(parent: ET.Element, one: Parameter) -> None:
    style = {"path": "template", "query": "query", "header": "header"}[one["in"]]
    typed = "t:TenantID" if one["name"] in {"tenantId", "dest"} else "xsd:string"
    values = {"name": one["name"], "style": style, "type": typed}
    ET.SubElement(parent, "param", values | ({"required": "true"} if one.get("required") else {}))
