"""JSON Schema of the tenant API's answers (T13): OpenAPI's components, and which call has which answer.

Tests validate every answer that they receive.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from configdb_sync.tenants import paths, representations
from configdb_sync.tenants.status import LONGEST_DETAILS

Schema: TypeAlias = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_NUMBER: Schema = {"type": "integer"}
_FLAG: Schema = {"type": "boolean"}
_MAYBE_TEXT: Schema = {"type": ["string", "null"]}
_MAYBE_COUNT: Schema = {"type": ["integer", "null"], "minimum": 0}
_TIME: Schema = {"type": "string", "format": "date-time"}
_MAYBE_TIME: Schema = {"type": ["string", "null"], "format": "date-time"}
_STATUS: Schema = {"enum": ["ACTIVE", "BUILD", "ERROR", None]}
_ANY: Schema = {"type": "object"}
_NAMED: Schema = {"type": "object", "additionalProperties": _TEXT}
_DETAILS: Schema = {"type": ["string", "null"], "maxLength": LONGEST_DETAILS}
_NUL_FREE = r"^[^\u0000]*$"

_STATE: Schema = {"status": _STATUS, "status_details": _DETAILS, "created_at": _TIME, "updated_at": _TIME}


def ref(name: str) -> Schema:
    """Return a reference to a component."""
    return {"$ref": f"#/components/schemas/{name}"}


def _object(needed: Schema, optional: Schema | None = None) -> Schema:
    properties = {**needed, **(optional or {})}
    return {"type": "object", "properties": properties, "required": list(needed), "additionalProperties": False}


def _list(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def _chosen(whole: Schema) -> Schema:
    """Return the schema of a representation that the query's ``fields`` restricts."""
    return {"type": "object", "properties": whole["properties"], "additionalProperties": False}


def _page(name: str, item: Schema) -> Schema:
    return {name: _list(item), f"{name}_next": _MAYBE_TEXT}


def _maybe(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


_SELF = _object({"self": _TEXT})
_METADATA: Schema = {
    "type": "object",
    "maxProperties": representations.MOST,
    "propertyNames": {"minLength": 1, "maxLength": representations.LONGEST_KEY, "pattern": _NUL_FREE},
    "additionalProperties": {**_TEXT, "maxLength": representations.LONGEST_VALUE, "pattern": _NUL_FREE},
}
_TENANT: Schema = {
    "id": ref("TenantID"),
    "metadata": _METADATA,
    "updatable": _FLAG,
    "resource_count": _COUNT,
    **_STATE,
    "links": _SELF,
}
_MARKED: Schema = {"deleted_at": _TIME, "recoverable_until": _TIME}
_ENVIRONMENT: Schema = {
    "id": _TEXT,
    "environment": _COUNT,
    "home": _FLAG,
    "resource_count": _COUNT,
    **_STATE,
    "links": _SELF,
}
_SOURCE: Schema = {
    "id": _TEXT,
    "tenant": ref("TenantID"),
    "environment": _COUNT,
    "name": _TEXT,
    **_STATE,
    "links": _SELF,
}
_LEVEL: Schema = {"level": _NAMED}
_RUN: Schema = {
    "run": _TEXT,
    "environment": _COUNT,
    "kind": _TEXT,
    "stage": _MAYBE_TEXT,
    "started_at": _TIME,
    "finished_at": _MAYBE_TIME,
    "seconds": {"type": ["number", "null"]},
    "outcome": _TEXT,
    "nodes": _MAYBE_COUNT,
    "nodes_failed": _COUNT,
    "links": _SELF,
}
_OPERATORS_RUN: Schema = {
    **_RUN,
    "author": _TEXT,
    "host": _TEXT,
    "place": _TEXT,
    "exit": {"type": ["integer", "null"]},
    **dict.fromkeys(("uploads", "writes", "problems", "bytes"), _MAYBE_COUNT),
    "digest": _MAYBE_TEXT,
}
_NODE_DONE: Schema = {"node": _TEXT, "fqdn": _MAYBE_TEXT, "outcome": {"enum": ["done", "failed"]}}
_LAST_RUN: Schema = {"anyOf": [ref("Run"), ref("OperatorsRun"), {"type": "null"}]}
_STANDING = _object(
    {
        "environment": _COUNT,
        "status": _STATUS,
        "status_details": _MAYBE_TEXT,
        "resource_count": _COUNT,
        "tenants": _list(
            _object(
                {"tenant": ref("TenantID"), "home": _FLAG, "resource_count": _COUNT, "status": _STATUS, "links": _SELF}
            )
        ),
        "last_run": _LAST_RUN,
        "links": _object(dict.fromkeys(("matrix", "runs", "overrides", "findings"), _TEXT)),
    },
    {"findings": _COUNT},
)
_NODE = _object(
    {
        "node": _TEXT,
        "fqdn": _MAYBE_TEXT,
        "level": _maybe(_NAMED),
        "statuses": _list(_STATUS),
        "run": _MAYBE_TEXT,
        "run_started_at": _MAYBE_TIME,
        "run_failed": _FLAG,
        "marks": _list({"enum": ["drifted", "overridden"]}),
        "problems": _list(_object({"data_source": _MAYBE_TEXT, "what": _TEXT})),
    }
)
_OVERRIDE = _object(
    {
        "level": _NAMED,
        "data_source": _TEXT,
        "tenant": _maybe(ref("TenantID")),
        "key": _list(_TEXT),
        "author": _MAYBE_TEXT,
        "time": _MAYBE_TIME,
        "reason": _MAYBE_TEXT,
        "until": _MAYBE_TIME,
        "effect": {"enum": ["full", "partial", "none", "unknown"]},
        "why": _TEXT,
    },
    {"value": {}},
)
_FINDING = _object(
    {
        "kind": _TEXT,
        "text": _TEXT,
        **dict.fromkeys(("node", "data_source", "level", "key"), _MAYBE_TEXT),
        "count": _COUNT,
        "changes": _list(_TEXT),
        "first_seen_at": _TIME,
        "last_seen_at": _TIME,
        "settled_at": _MAYBE_TIME,
    }
)
_ROUND = _object({"started_at": _TIME, "finished_at": _TIME, "outcome": _TEXT, "text": _TEXT})
_LEAF = _object(
    {"key": _list(_TEXT), "mark": _TEXT, "level": {}, "override_level": {}},
    {"values": {}, "override": {}, "effective": {}},
)
_CHANGE = _object({"key": _list(_TEXT), "before": _MAYBE_TEXT, "after": _MAYBE_TEXT})
_VERSION = _object(
    {
        "version": _COUNT,
        "time": {},
        "author": _MAYBE_TEXT,
        "run": _MAYBE_TEXT,
        "comment": _MAYBE_TEXT,
        "changes": _maybe(_list(_CHANGE)),
        "more_changes": _COUNT,
    }
)
_ENTRY = _object(
    {
        "number": _COUNT,
        "time": _TIME,
        "tenant": _TEXT,
        "path": _TEXT,
        "action": _TEXT,
        "actor": _TEXT,
        "origin": _TEXT,
        "request_id": _TEXT,
        "details": _ANY,
    }
)
_COUNTS: Schema = dict.fromkeys(("size", "active", "build", "error"), _COUNT)
_MOVE = _object(
    {
        "dest": ref("TenantID"),
        "tenants": {
            **_list(_object({"id": ref("TenantID"), "status": _STATUS, "size": _COUNT, "metadata": _METADATA})),
            "minItems": 2,
            "maxItems": 2,
        },
        "resources": {
            "anyOf": [
                _list(_object({"id": _TEXT, "status": _STATUS}, {"home": _FLAG})),
                _object({"tag": _TEXT, **_COUNTS}),
            ]
        },
    }
)
_WHOLE_TENANT = _object({**_TENANT, **_page("resources", ref("EnvironmentItem"))}, _MARKED)
_WHOLE_ENVIRONMENT = _object({**_ENVIRONMENT, "tenant": ref("TenantID"), **_page("resources", ref("DataSource"))})

SCHEMAS: dict[str, Schema] = {
    "TenantID": {
        "type": "string",
        "minLength": 1,
        "maxLength": paths.LONGEST_ID,
        "pattern": r"^[^/\u0000]+$",
        "description": paths.ID_RULES,
    },
    "TenantBody": {
        "type": "object",
        "description": "Of what GET gives all can be sent back: timestamps, resources and links are ignored.",
        "properties": {
            **{name: {"readOnly": True} for name in sorted(representations.IGNORED)},
            "id": {**ref("TenantID"), "readOnly": True},
            "metadata": _METADATA,
            "status": {**_STATUS, "readOnly": True},
            "status_details": {**_DETAILS, "readOnly": True},
        },
        "additionalProperties": False,
    },
    "TenantItem": _object(_TENANT, _MARKED),
    "Tenant": _WHOLE_TENANT,
    "TenantFields": _chosen(_WHOLE_TENANT),
    "Tenants": _object(_page("tenants", ref("TenantItem"))),
    "EnvironmentItem": _object(_ENVIRONMENT),
    "Environment": _WHOLE_ENVIRONMENT,
    "EnvironmentFields": _chosen(_WHOLE_ENVIRONMENT),
    "Environments": _object(_page("resources", ref("EnvironmentItem"))),
    "DataSource": _object(_SOURCE),
    "DataSourceFields": _chosen(_object(_SOURCE)),
    "DataSources": _object(_page("resources", ref("DataSource"))),
    "Effective": _object({**_SOURCE, **_LEVEL, "effective": _ANY}),
    "EffectiveUnknown": _object({**_SOURCE, **_LEVEL}),
    "Layers": _object(
        {**_SOURCE, **_LEVEL, "counts": {"type": "object", "additionalProperties": _COUNT}, **_page("leaves", _LEAF)}
    ),
    "History": _object({**_SOURCE, **_LEVEL, "kind": {"enum": ["overrides", "values"]}, **_page("versions", _VERSION)}),
    "AllEnvironments": _object(_page("environments", _STANDING)),
    "Run": _object(_RUN),
    "OperatorsRun": _object(_OPERATORS_RUN),
    "Runs": _object(_page("runs", ref("Run"))),
    "OperatorsRuns": _object(_page("runs", ref("OperatorsRun"))),
    "WholeRun": _object({**_RUN, "done": _list(_object(_NODE_DONE))}),
    "OperatorsWholeRun": _object(
        {
            **_OPERATORS_RUN,
            "done": _list(_object({**_NODE_DONE, **dict.fromkeys(("uploads", "writes", "problems"), _COUNT)})),
            "stopped": {},
            "trouble": _list(_ANY),
            "withheld": _list(_ANY),
            "withheld_digest": _MAYBE_TEXT,
            "not_attempted": _list({}),
        }
    ),
    "Matrix": _object(
        {
            "environment": _COUNT,
            "node_count": _COUNT,
            "counts": _object(dict.fromkeys(("ERROR", "BUILD", "ACTIVE"), _COUNT)),
            "last_run": _LAST_RUN,
            "data_sources": _list(
                _object(
                    {
                        "name": _TEXT,
                        "tenant": _maybe(ref("TenantID")),
                        "status": _STATUS,
                        "status_details": _DETAILS,
                        "links": _object({}, {"self": _TEXT}),
                    }
                )
            ),
            **_page("nodes", _NODE),
        }
    ),
    "Overrides": _object({"environment": _COUNT, "count": _COUNT, **_page("overrides", _OVERRIDE)}),
    "Findings": _object(
        {
            "environment": _COUNT,
            "count": _COUNT,
            "last_round": _maybe(_ROUND),
            **_page("findings", _FINDING),
            "settled": _list(_FINDING),
        }
    ),
    "Lookup": _object(
        {
            "environment": _COUNT,
            "node": _TEXT,
            "key": _list(_TEXT),
            "merge": {"enum": ["first", "unique", "hash", "deep"]},
            "found": _FLAG,
            "data_source": _MAYBE_TEXT,
            "layers": _list(
                _object(
                    {
                        "data_source": _TEXT,
                        "level": _TEXT,
                        "kind": {"enum": ["values", "overrides"]},
                        "outcome": {"enum": ["wins", "merged", "covered", "hidden"]},
                    },
                    {"value": {}},
                )
            ),
            "unknown_variables": _list(_TEXT),
        },
        {"value": {}},
    ),
    "Entries": _object(_page("entries", _ENTRY)),
    "MoveAction": _object({"move": _MOVE}),
    "Health": _object({"status": {"const": "ok"}}),
    "Error": _object({"error": _object({"code": _NUMBER, "title": _TEXT, "message": _TEXT, "request_id": _TEXT})}),
}

_TENANTS = "/v1.0/{tenantId}"
_HERE = f"{_TENANTS}/environments/{{environment}}"
_KINDS: dict[str, tuple[str, ...]] = {
    "/v1.0": ("Tenants",),
    _TENANTS: ("Tenant", "TenantFields"),
    f"{_TENANTS}/environments": ("Environments",),
    f"{_TENANTS}/resources": ("DataSources",),
    f"{_TENANTS}/audit": ("Entries",),
    _HERE: ("Environment", "EnvironmentFields"),
    f"{_HERE}/resources": ("DataSources",),
    f"{_HERE}/resources/{{dataSource}}": ("DataSource", "DataSourceFields", "Effective", "Layers", "History"),
    f"{_HERE}/matrix": ("Matrix",),
    f"{_HERE}/runs": ("Runs",),
    f"{_HERE}/runs/{{run}}": ("WholeRun",),
    f"{_HERE}/overrides": ("Overrides",),
    f"{_HERE}/findings": ("Findings",),
    "/environments": ("AllEnvironments",),
    "/environments/{environment}/matrix": ("Matrix",),
    "/environments/{environment}/runs": ("OperatorsRuns",),
    "/environments/{environment}/runs/{run}": ("OperatorsWholeRun",),
    "/environments/{environment}/overrides": ("Overrides",),
    "/environments/{environment}/findings": ("Findings",),
    "/environments/{environment}/lookup": ("Lookup",),
    "/audit": ("Entries",),
    "/healthz": ("Health",),
}
_AWAY = ("DataSource", "DataSourceFields", "EffectiveUnknown")
_OTHERS: dict[str, tuple[str, Schema]] = {
    "/metrics": ("text/plain", _TEXT),
    "/application.wadl": ("application/vnd.sun.wadl+xml", _TEXT),
    "/openapi.json": ("application/json", _ANY),
}
XML = "application/xml"


def content_of(path: str, method: str, code: int) -> dict[str, Schema]:
    """Return the schema of an answer's body by media type; empty if it has none."""
    if method == "head" or code in {204, 303, 304}:
        return {}
    if code >= 300 or method == "put":
        return _json("Error" if code >= 300 else "Tenant")
    if path in _OTHERS:
        kind, schema = _OTHERS[path]
        return {kind: {"schema": schema}}
    if path.endswith("/action/move"):
        return {**_json("MoveAction"), XML: {"schema": _TEXT}}
    away = code == 203 and path.endswith("/{dataSource}")
    return _json(*(_AWAY if away else _KINDS[path]))


def _json(*kinds: str) -> dict[str, Schema]:
    schema = ref(kinds[0]) if len(kinds) == 1 else {"anyOf": [ref(kind) for kind in kinds]}
    return {"application/json": {"schema": schema}}
