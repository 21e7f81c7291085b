"""The policy (T12): the rules with their defaults, which rule each call needs, the operator's file, and decisions.

Below it is the access that is not an operator's: a tenant's own token, and the one of the metrics.

oslo.policy decides, which takes a tenth of a millisecond; decisions are cached. The file is checked every few seconds:
a changed one applies from then on, a broken one is reported and changes nothing.
``oslopolicy-sample-generator --namespace configdb_sync.tenants`` finds the rules by entry point.
"""

from __future__ import annotations

import hmac
import logging
import os
import re
import stat
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import yaml
from oslo_config import cfg
from oslo_policy import policy
from oslo_policy.policy import DocumentedRuleDefault, Operation, RuleDefault

from configdb_sync.clock import Clock
from configdb_sync.errors import SettingsError
from configdb_sync.tenants.openapi import CALLS, OPEN
from configdb_sync.tenants.paths import ResourcePath, Route, RouteKind, route
from configdb_sync.web.access import Access, Caller, check_token, has_token
from configdb_sync.web.refusals import refuse
from configdb_sync.web.requests import Environ

NAMESPACE = "configdb_sync.tenants"
OPERATOR = "operator"
OWN = "own_tenant"
_READING = frozenset({"GET", "HEAD"})
_SHOW_VALUES = ("level", "show")
METRICS_ROLE = "metrics_reader"
"""The role that may only read the metrics; callers with the token of --metrics-token-file have it."""

_DESCRIPTIONS = {
    "admin:list_tenants": "List all tenants, and those that can be recovered.",
    "admin:get": "Read any tenant, its environments and its data sources.",
    "admin:get_values": "Read the effective data of a data source, passwords in it included (the query's level).",
    "admin:get_status": "See environments with nodes, runs, overrides and findings, whoever owns them, and the pages.",
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
    ("overrides", "GET"): "get_status",
    ("findings", "GET"): "get_status",
    ("lookup", "GET"): "get_status",
    ("move", "GET"): "get_move",
    ("move", "POST"): "move",
    ("recover", "POST"): "recover_tenant",
    ("audit", "GET"): "audit",
}
"""Rules by the kind of a URL (its value) and method."""
_OF_DOCUMENTS = {"audit": "audit", "metrics": "metrics"}
_OPERATORS = frozenset({"move", "recover", "audit"})
"""What a tenant's path has on the admin endpoint only."""
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
    calls_of = _calls()
    for name, description in _DESCRIPTIONS.items():
        check = f"rule:{OWN}" if name.startswith("public:") else f"rule:{OPERATOR}"
        if name == "admin:metrics":
            check += f" or role:{METRICS_ROLE}"
        calls = [Operation(path=path, method=method) for path, method in calls_of.get(name, [])]
        if calls:
            found.append(DocumentedRuleDefault(name, check, description, calls))
        else:
            found.append(RuleDefault(name, check, description=description))
    return found


def _calls() -> dict[str, list[tuple[str, str]]]:
    """Return the calls that need each rule, as ``rule_of`` decides."""
    found: dict[str, list[tuple[str, str]]] = {}
    for path, methods in CALLS.items():
        if path in OPEN:
            continue
        asked = route(tuple(path.format(**_EXAMPLES)[1:].split("/")))
        source = asked.kind is RouteKind.PLACE and asked.place is not None and asked.place.data_source is not None
        for method in (method.upper() for method in methods):
            queries = (None, "level=") if source and method in _READING else (None,)
            publics = (False, True) if _is_public(asked, method) else (False,)
            for rule in {rule_of(asked, method, query, public=public) for query in queries for public in publics}:
                found.setdefault(rule, []).append((path, method))
    return found


def _is_public(asked: Route, method: str) -> bool:
    return asked.place is not None and method in _READING and asked.kind.value not in _OPERATORS


def list_rules() -> list[RuleDefault]:
    """Return the rules for oslo.policy's own tools."""
    return rules()


def rule_of(asked: Route, method: str, query: str | None, *, public: bool) -> str:
    """Return the rule that a call needs."""
    if public:
        return "public:get_values" if _values(asked.place, query) else "public:get"
    method = "GET" if method == "HEAD" else method
    if asked.kind is RouteKind.PLACE and asked.place is not None:
        return f"admin:{_of_place(asked.place, method, query)}"
    if asked.kind is RouteKind.DOCUMENT:
        return f"admin:{_OF_DOCUMENTS.get(asked.document, 'other')}"
    return f"admin:{_OF_KINDS.get((asked.kind.value, method), 'other')}"


def _of_place(place: ResourcePath, method: str, query: str | None) -> str:
    if method == "GET":
        return "get_values" if _values(place, query) else "get"
    if place.environment is None:
        return {"PUT": "put_tenant", "DELETE": "delete_tenant"}.get(method, "other")
    return "override" if method == "PUT" else "other"


def _values(place: ResourcePath | None, query: str | None) -> bool:
    if place is None or place.data_source is None or query is None:
        return False
    # Anything that may be a parameter that shows values counts as one: %6Cevel, too.
    plain = unquote(query)
    return any(name in plain for name in _SHOW_VALUES)


log = logging.getLogger(__name__)

EVERY = 10.0
"""Seconds between checks of the file."""
_MOST = 10_000
_Question = tuple[str, str, frozenset[str], str | None, bool]


@dataclass(frozen=True)
class _Rules:
    """The current rules and the decisions by them; replaced as a whole."""

    enforcer: policy.Enforcer
    owning: frozenset[str]
    stamp: tuple[int, ...] | None
    answers: dict[_Question, bool]


class Policy:
    """Decides on calls. Thread-safe."""

    def __init__(self, clock: Clock, path: Path | None = None, admin_role: str = "admin") -> None:
        """Raise ``SettingsError`` for an unusable file, with the line."""
        self._clock = clock
        self._path = path
        self._admin_role = admin_role
        self._lock = threading.Lock()
        self._rules = self._loaded()
        self._looked = clock.monotonic()

    def asks_for_own(self, rule: str) -> bool:
        """Tell whether the rule depends on whether the tenant is the caller's own."""
        return rule in self._current().owning

    def allows(self, rule: str, caller: Caller, *, own: bool) -> bool:
        """Tell whether a rule allows a caller's request. ``own``: the requested tenant is the caller's own."""
        now = self._current()
        question = (rule, caller.name, caller.roles, caller.project, own)
        answer = now.answers.get(question)
        if answer is None:
            target = {"own": str(own)}
            credentials = {"roles": sorted(caller.roles), "user_name": caller.name}
            if caller.project is not None:
                credentials["project_id"] = caller.project
            answer = now.enforcer.authorize(rule, target, credentials)
            if len(now.answers) >= _MOST:
                now.answers.clear()
            now.answers[question] = answer
        return answer

    def _current(self) -> _Rules:
        if self._path is None or self._clock.monotonic() - self._looked < EVERY:
            return self._rules
        with self._lock:
            if self._clock.monotonic() - self._looked < EVERY:
                return self._rules
            self._looked = self._clock.monotonic()
            try:
                if stamp(self._path.stat()) != self._rules.stamp:
                    self._rules = self._loaded()
                    log.warning("the policy file %s has changed and applies from now on", self._path)
            except (SettingsError, OSError) as error:
                log.error("the previous policy still applies: %s", error)
            return self._rules

    def _loaded(self) -> _Rules:
        defaults = rules(self._admin_role)
        texts = {one.name: one.check_str for one in defaults}
        stamp = None
        if self._path is not None:
            own, stamp = read(self._path, texts)
            texts |= own
        configuration = cfg.ConfigOpts()
        configuration([], project="configdb-sync-tenants", default_config_files=[], default_config_dirs=[])
        enforcer = policy.Enforcer(configuration)
        enforcer.register_defaults(defaults)
        enforcer.set_rules(policy.Rules.from_dict(texts), overwrite=True, use_conf=False)
        return _Rules(enforcer, frozenset(name for name in texts if _mentions_own(texts, name)), stamp, {})


def _mentions_own(texts: Mapping[str, str], name: str) -> bool:
    return any(one == OWN or "own" in texts.get(one, "") for one in {name, *_reached(texts, name)})


_LARGEST = 1024 * 1024
_ANOTHER = f"name a file of at most {_LARGEST} bytes that the service may read"
_RULE = re.compile(r"rule:([^\s()]+)")
_REMOTE = re.compile(r"\bhttps?:", re.IGNORECASE)
_TARGET = re.compile(r"%\(([^)]*)\)")
_FILLED = re.compile(r"%\(own\)s|%%")
_DEEPEST = 50
"""Parentheses in a rule, and rules that it refers to: each is a level of recursion at every decision."""


def stamp(found: os.stat_result) -> tuple[int, ...]:
    """Return values that change with a file."""
    return (found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode, found.st_uid)


def named(text: str) -> list[str]:
    """Return the rules that a rule refers to."""
    return _RULE.findall(text)


def read(path: Path, defaults: Mapping[str, str]) -> tuple[dict[str, str], tuple[int, ...]]:
    """Return the rules of a policy file (YAML) and its stamp. ``defaults``: the rules that the calls need.

    Raises ``SettingsError`` with the line: for text that isn't YAML or no mapping of texts, and for a rule that stands
    twice, can't be read, is empty (which would allow everyone), would ask over the network, names an unknown call or
    attribute of the target, refers to an unknown rule or to itself, or is nested too deeply.
    """
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            _check_owner(path, found)
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise SettingsError(f"the policy file {path} can't be read: {error.strerror}", way_out=_ANOTHER) from None
    if len(content) > _LARGEST:
        raise SettingsError(f"the policy file {path} is larger than {_LARGEST} bytes", way_out=_ANOTHER)
    try:
        node = yaml.compose(content, Loader=yaml.SafeLoader)
    except RecursionError:
        raise _fault(path, 1, "it is nested too deeply") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise _fault(path, 1 if mark is None else mark.line + 1, "it isn't YAML") from None
    return _checked(path, node, defaults), stamp(found)


def _check_owner(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise SettingsError(f"the policy file {path} is no file", way_out=_ANOTHER)
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SettingsError(f"the policy file {path} can be changed by others", way_out=f"chmod go-w {path}")
    if found.st_uid not in {0, os.geteuid()}:
        raise SettingsError(
            f"the policy file {path} belongs to user {found.st_uid}", way_out="make it root's, or this user's"
        )


def _checked(path: Path, node: yaml.Node | None, defaults: Mapping[str, str]) -> dict[str, str]:
    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise _fault(path, node.start_mark.line + 1, "it is no mapping of rules")
    found: dict[str, str] = {}
    lines: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if key.tag != "tag:yaml.org,2002:str" or value.tag != "tag:yaml.org,2002:str":
            raise _fault(path, line, "a rule's name and the rule must be texts")
        name, text = str(key.value), str(value.value)
        if name in found:
            raise _fault(path, line, f"rule {name!r} stands twice, first in line {lines[name]}")
        fault = _fault_of(name, text, defaults)
        if fault is not None:
            raise _fault(path, line, fault)
        found[name], lines[name] = text, line
    everything = {**defaults, **found}
    for name, text in found.items():
        for other in named(text):
            if other not in everything:
                raise _fault(path, lines[name], f"rule {name!r} refers to {other!r}, which doesn't exist")
        reached = _reached(everything, name)
        if name in reached:
            raise _fault(path, lines[name], f"rule {name!r} refers to itself")
        if len(reached) > _DEEPEST:
            raise _fault(path, lines[name], f"rule {name!r} leads to more than {_DEEPEST} others")
    return found


def _fault_of(name: str, text: str, defaults: Mapping[str, str]) -> str | None:
    if ":" in name and name not in defaults:
        return f"no call needs a rule {name!r}; a rule of your own has no colon in its name"
    if not text.strip():
        return f"rule {name!r} is empty; write @ to allow everyone, ! to allow no one"
    fault = _fault_of_text(text)
    if fault is not None:
        return f"rule {name!r} {fault}"
    # oslo.policy treats a rule that it can't read as "deny" and reports that only in its log.
    logging.getLogger("oslo_policy").setLevel(logging.CRITICAL)
    if str(policy.Rules.from_dict({"rule": text})["rule"]).count("!") != text.count("!"):
        return f"rule {name!r} can't be read: {text[:80]!r}"
    return None


def _fault_of_text(text: str) -> str | None:
    """Return what would make a rule fail or misbehave later, when it is evaluated."""
    if _REMOTE.search(text):
        return "would ask over the network"
    strange = [one for one in _TARGET.findall(text) if one != "own"]
    if strange:
        return f"compares with {strange[0]!r}; of the tenant only %(own)s is known"
    rest = _FILLED.sub("", text)
    if "%" in rest:
        return "has a % that is neither %(own)s nor %%"
    if rest.count("(") > _DEEPEST:
        return f"has more than {_DEEPEST} parentheses; give parts of it names of their own"
    return None


def _reached(texts: Mapping[str, str], name: str) -> set[str]:
    """Return the rules that a rule refers to, directly or not."""
    reached, ahead = set[str](), [name]
    while ahead:
        for other in named(texts.get(ahead.pop(), "")):
            if other not in reached:
                reached.add(other)
                ahead.append(other)
    return reached


def _fault(path: Path, line: int, what: str) -> SettingsError:
    return SettingsError(
        f"the policy file {path}, line {line}: {what}",
        way_out="`configdb-sync tenants policy` prints all rules with their defaults",
    )


@dataclass(frozen=True)
class TenantTokenAccess:
    """Whoever has a tenant's own token may read that tenant; tokens follow from one key and the tenant's ID."""

    key: bytes = field(repr=False)

    def token(self, tenant: str) -> str:
        """Return a tenant's token."""
        return hmac.new(self.key, tenant.encode("utf-8"), "sha256").hexdigest()

    def caller(self, environ: Environ, place: ResourcePath | None = None) -> Caller:
        """Return the tenant's user."""
        if place is None:
            raise refuse(401, "a token is for one tenant's URLs", ("WWW-Authenticate", 'Bearer realm="tenants"'))
        check_token(environ, self.token(place.tenant))
        return Caller("token", admin=False, tenant=place.tenant)


@dataclass(frozen=True)
class MetricsAccess:
    """As ``others``, and whoever has the metrics' token is let in to read these alone."""

    others: Access
    token: str = field(repr=False)

    def caller(self, environ: Environ, place: ResourcePath | None = None) -> Caller:
        """Return who calls."""
        if place is None and has_token(environ, self.token):
            return Caller("metrics", admin=False, roles=frozenset({METRICS_ROLE}))
        return self.others.caller(environ, place)
