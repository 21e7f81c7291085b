"""The policy's rules with their defaults (T12), and which of them each call needs. Pure, documented for operators.

``oslopolicy-sample-generator --namespace configdb_sync.tenants`` finds them by entry point.
"""

from __future__ import annotations

from urllib.parse import unquote

from oslo_policy.policy import DocumentedRuleDefault, Operation, RuleDefault

from configdb_sync.tenants.documents import CALLS, OPEN
from configdb_sync.tenants.paths import Kind, Place, Route, route

NAMESPACE = "configdb_sync.tenants"
OPERATOR = "operator"
OWN = "own_tenant"
_READING = frozenset({"GET", "HEAD"})
_SHOW_VALUES = ("level", "show")
METRICS_ROLE = "metrics_reader"
"""The role that reads the metrics and nothing else; whoever has the token of --metrics-token-file has it."""

_DESCRIPTIONS = {
    "admin:list_tenants": "List all tenants, and those that can be recovered.",
    "admin:get": "Read any tenant, its environments and its data sources.",
    "admin:get_values": "Read the effective data of a data source, passwords in it included (the query's level).",
    "admin:get_status": "See nodes, runs and environments as they stand, whoever owns what is in them, and the pages.",
    "admin:put_tenant": "Create a tenant, or modify its metadata.",
    "admin:delete_tenant": "Mark a tenant for deletion.",
    "admin:recover_tenant": "Bring back a tenant that is marked for deletion.",
    "admin:override": "Override the values of a data source.",
    "admin:get_move": "Look at what a move would touch.",
    "admin:move": "Move a data source, an environment, or all that a tenant has.",
    "admin:audit": "Read the audit trail, of one tenant or of all.",
    "admin:metrics": "Read the metrics, which name tenants.",
    "admin:other": "All other calls of the admin endpoint.",
    "public:get": "Read a tenant, its environments and its data sources; with --public-page nodes and runs, too.",
    "public:get_values": "Read the effective data of a data source, passwords in it included (the query's level).",
}
_OF_KINDS: dict[tuple[str, str], str] = {
    ("tenants", "GET"): "list_tenants",
    ("environments", "GET"): "get",
    ("resources", "GET"): "get",
    ("all environments", "GET"): "get_status",
    ("matrix", "GET"): "get_status",
    ("runs", "GET"): "get_status",
    ("run", "GET"): "get_status",
    ("move", "GET"): "get_move",
    ("move", "POST"): "move",
    ("recover", "POST"): "recover_tenant",
    ("audit", "GET"): "audit",
}
"""Rules by the kind of a URL, as its value names it, and method."""
_OF_DOCUMENTS = {"audit": "audit", "metrics": "metrics"}
_OPERATORS = frozenset({"move", "recover", "audit"})
"""What a tenant's path has on the admin endpoint alone."""
_EXAMPLES = {"tenantId": "t", "environment": "1", "dataSource": "s", "run": "r"}


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
    told = _calls()
    for name, description in _DESCRIPTIONS.items():
        check = f"rule:{OWN}" if name.startswith("public:") else f"rule:{OPERATOR}"
        if name == "admin:metrics":
            check += f" or role:{METRICS_ROLE}"
        calls = [Operation(path=path, method=method) for path, method in told.get(name, [])]
        if calls:
            found.append(DocumentedRuleDefault(name, check, description, calls))
        else:
            found.append(RuleDefault(name, check, description=description))
    return found


def _calls() -> dict[str, list[tuple[str, str]]]:
    """Return the calls that need each rule, as the code itself decides."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path, methods in CALLS.items():
        if path in OPEN:
            continue
        asked = route(tuple(path.format(**_EXAMPLES)[1:].split("/")))
        source = asked.kind is Kind.PLACE and asked.place is not None and asked.place.data_source is not None
        for method in (method.upper() for method in methods):
            queries = (None, "level=") if source and method in _READING else (None,)
            publics = (False, True) if _is_public(asked, method) else (False,)
            for rule in {rule_of(asked, method, query, public=public) for query in queries for public in publics}:
                found.setdefault(rule, []).append((path, method))
    return found


def _is_public(asked: Route, method: str) -> bool:
    return asked.place is not None and method in _READING and asked.kind.value not in _OPERATORS


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
    if asked.kind is Kind.DOCUMENT:
        return f"admin:{_OF_DOCUMENTS.get(asked.document, 'other')}"
    return f"admin:{_OF_KINDS.get((asked.kind.value, method), 'other')}"


def _of_place(place: Place, method: str, query: str | None) -> str:
    if method == "GET":
        return "get_values" if _values(place, query) else "get"
    if place.environment is None:
        return {"PUT": "put_tenant", "DELETE": "delete_tenant"}.get(method, "other")
    return "override" if method == "PUT" else "other"


def _values(place: Place | None, query: str | None) -> bool:
    if place is None or place.data_source is None or query is None:
        return False
    # Whatever may turn out to be a parameter that shows values counts as one: %6Cevel, too.
    plain = unquote(query)
    return any(name in plain for name in _SHOW_VALUES)
