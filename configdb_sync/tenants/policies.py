"""The policy's rules with their defaults (T12): which rule each call needs. Pure data, documented for operators.

``oslopolicy-sample-generator --namespace configdb_sync.tenants`` finds them by entry point.
"""

from __future__ import annotations

from urllib.parse import unquote

from oslo_policy.policy import DocumentedRuleDefault, Operation, RuleDefault

from configdb_sync.tenants.paths import Kind, Place, Route

NAMESPACE = "configdb_sync.tenants"
OPERATOR = "operator"
OWN = "own_tenant"
OTHER = "admin:other"
METRICS_ROLE = "metrics_reader"
"""The role that reads the metrics and nothing else; whoever has the token of --metrics-token-file has it."""

_TENANT = "/v1.0/{tenantId}"
_ENVIRONMENT = f"{_TENANT}/environments/{{environment}}"
_SOURCE = f"{_ENVIRONMENT}/resources/{{dataSource}}"
_READ = (_TENANT, f"{_TENANT}/environments", f"{_TENANT}/resources", _ENVIRONMENT, f"{_ENVIRONMENT}/resources", _SOURCE)
_LOOK = tuple(f"{_ENVIRONMENT}/{what}" for what in ("matrix", "runs", "runs/{run}"))
_LOOK_ALL = ("/environments", *(f"/environments/{{environment}}/{what}" for what in ("matrix", "runs", "runs/{run}")))
_MOVES = tuple(f"{place}/action/move" for place in (_TENANT, _ENVIRONMENT, _SOURCE))

_ADMIN: tuple[tuple[str, str, tuple[tuple[str, tuple[str, ...]], ...]], ...] = (
    ("admin:list_tenants", "List all tenants, and those that can be recovered.", (("GET", ("/v1.0",)),)),
    ("admin:get", "Read any tenant, its environments and its data sources.", (("GET", _READ), ("HEAD", _READ))),
    (
        "admin:get_values",
        "Read the effective data of a data source, passwords in it included (the query parameter level).",
        (("GET", (_SOURCE,)), ("HEAD", (_SOURCE,))),
    ),
    (
        "admin:get_status",
        "See nodes, runs and environments as they stand, whoever owns what is in them; the status page, too.",
        (("GET", (*_LOOK_ALL, *_LOOK)), ("HEAD", (*_LOOK_ALL, *_LOOK))),
    ),
    ("admin:put_tenant", "Create a tenant, or modify its metadata.", (("PUT", (_TENANT,)),)),
    ("admin:delete_tenant", "Mark a tenant for deletion.", (("DELETE", (_TENANT,)),)),
    (
        "admin:recover_tenant",
        "Bring back a tenant that is marked for deletion.",
        (("POST", (f"{_TENANT}/action/recover",)),),
    ),
    ("admin:override", "Override the values of a data source.", (("PUT", (_SOURCE,)),)),
    ("admin:get_move", "Look at what a move would touch.", (("GET", _MOVES),)),
    ("admin:move", "Move a data source, an environment, or all that a tenant has.", (("POST", _MOVES),)),
    ("admin:audit", "Read the audit trail, of one tenant or of all.", (("GET", ("/audit", f"{_TENANT}/audit")),)),
    ("admin:metrics", "Read the metrics, which name tenants.", (("GET", ("/metrics",)),)),
)
_PUBLIC = (
    (
        "public:get",
        "Read a tenant, its environments and its data sources; with --public-page nodes and runs, too.",
        (("GET", (*_READ, *_LOOK)), ("HEAD", (*_READ, *_LOOK))),
    ),
    (
        "public:get_values",
        "Read the effective data of a data source, passwords in it included (the query parameter level).",
        (("GET", (_SOURCE,)), ("HEAD", (_SOURCE,))),
    ),
)

_OF_KINDS: dict[tuple[Kind, str], str] = {
    (Kind.TENANTS, "GET"): "list_tenants",
    (Kind.ENVIRONMENTS, "GET"): "get",
    (Kind.RESOURCES, "GET"): "get",
    (Kind.MOVE, "GET"): "get_move",
    (Kind.MOVE, "POST"): "move",
    (Kind.RECOVER, "POST"): "recover_tenant",
    (Kind.AUDIT, "GET"): "audit",
    (Kind.ALL_ENVIRONMENTS, "GET"): "get_status",
    (Kind.MATRIX, "GET"): "get_status",
    (Kind.RUNS, "GET"): "get_status",
    (Kind.RUN, "GET"): "get_status",
}
_OF_DOCUMENTS = {"audit": "audit", "metrics": "metrics"}


def rules(admin_role: str = "admin") -> list[RuleDefault]:
    """Return all rules with their defaults; ``admin_role`` makes an operator."""
    found: list[RuleDefault] = [
        RuleDefault(OPERATOR, f"role:{admin_role}", description="Who may use the admin endpoint (--admin-role)."),
        RuleDefault(
            OWN,
            "True:%(own)s",
            description="A tenant's own user: the token's project is the tenant's project_id (metadata; by default"
            " its ID), or the token is the tenant's own.",
        ),
    ]
    for calls, who in ((_ADMIN, OPERATOR), (_PUBLIC, OWN)):
        for name, description, operations in calls:
            told = [Operation(path=path, method=method) for method, paths in operations for path in paths]
            check = f"rule:{who} or role:{METRICS_ROLE}" if name == "admin:metrics" else f"rule:{who}"
            found.append(DocumentedRuleDefault(name, check, description, told))
    found.append(RuleDefault(OTHER, f"rule:{OPERATOR}", description="All other calls of the admin endpoint."))
    return found


def list_rules() -> list[RuleDefault]:
    """Return the rules as oslo.policy's own tools ask for them."""
    return rules()


def rule_of(asked: Route, method: str, query: str | None, *, public: bool) -> str:
    """Return the rule that a call needs."""
    if public:
        return "public:get_values" if _values(asked.place, query) else "public:get"
    method = "GET" if method == "HEAD" else method
    if asked.kind is Kind.PLACE and asked.place is not None:
        return f"admin:{_of_place(asked.place, method, query)}"
    name = _OF_DOCUMENTS.get(asked.document) if asked.kind is Kind.DOCUMENT else _OF_KINDS.get((asked.kind, method))
    return OTHER if name is None else f"admin:{name}"


def _of_place(place: Place, method: str, query: str | None) -> str:
    if method == "GET":
        return "get_values" if _values(place, query) else "get"
    if place.environment is None:
        return {"PUT": "put_tenant", "DELETE": "delete_tenant"}.get(method, "other")
    return "override" if method == "PUT" else "other"


def _values(place: Place | None, query: str | None) -> bool:
    # Whatever may turn out to be the parameter counts as it: %6Cevel is one too.
    return place is not None and place.data_source is not None and query is not None and "level" in unquote(query)
