"""Tenant IDs, names of data sources, and the paths of the API (T1, T2, T7). Pure.

Nothing is normalised, folded or trimmed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from configdb_sync.names import NAME_LIMIT
from configdb_sync.web.refusals import refuse, shown
from configdb_sync.web.requests import encoded

LONGEST_ID = 255
"""Characters (code points) of a tenant ID."""

ENVIRONMENT_LIMIT = 2**63

MOVE = ("action", "move")

_SURROGATE = re.compile("[\ud800-\udfff]")

ID_RULES = (
    "A tenant ID is 1 to 255 Unicode characters (code points, not bytes) without '/' and without NUL; the operator"
    " chooses it. It is compared by code point: neither case nor composed accents are folded. In a URL it is"
    " percent-encoded UTF-8 in one path segment; an encoded slash (%2F) is refused."
)
"""The rules as the API's documents state them (T13)."""


def tenant_id(text: str) -> str:
    """Return the text if it can be a tenant ID. Raises ``RefusalError`` 400."""
    fault = _fault(text, LONGEST_ID)
    if fault is None and "/" in text:
        fault = "holds a slash"
    if fault is not None:
        raise refuse(400, f"the tenant ID {shown(text)} {fault}")
    return text


def data_source(text: str) -> str:
    """Return the text if it can be a data source's name under a tenant. Raises ``RefusalError`` 400.

    Refused are names that would mean a move action in a path, or that a path can't contain.
    """
    fault = _fault(text, NAME_LIMIT)
    segments = tuple(text.split("/"))
    if fault is None and "" in segments:
        fault = "holds an empty part"
    if fault is None and segments[-2:] == MOVE:
        fault = "ends in action/move, which stands for moving it"
    if fault is not None:
        raise refuse(400, f"the data source name {shown(text)} {fault}")
    return text


def environment(text: str) -> int | None:
    """Return the environment that a path segment names: a canonical decimal number; else None."""
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or str(int(text)) != text:
        return None
    number = int(text)
    return number if number < ENVIRONMENT_LIMIT else None


def _fault(text: str, longest: int) -> str | None:
    if not text:
        return "is empty"
    if len(text) > longest:
        return f"has {len(text)} characters, {longest} are allowed"
    if "\0" in text:
        return "holds the character NUL"
    if _SURROGATE.search(text):
        return "holds half a surrogate pair"
    return None


VERSION = "v1.0"


class RouteKind(Enum):
    """What a URL names. ``PAGE`` is a page for people; its own route is in ``status_page``."""

    TENANTS = "tenants"
    PLACE = "place"
    MOVE = "move"
    RECOVER = "recover"
    ENVIRONMENTS = "environments"
    RESOURCES = "resources"
    AUDIT = "audit"
    ALL_ENVIRONMENTS = "all environments"
    MATRIX = "matrix"
    RUNS = "runs"
    RUN = "run"
    OVERRIDES = "overrides"
    FINDINGS = "findings"
    LOOKUP = "lookup"
    PAGE = "page"
    DOCUMENT = "document"


@dataclass(frozen=True)
class ResourcePath:
    """The path of a tenant, an environment of it, or a data source in there: what can be shown and moved."""

    tenant: str
    environment: int | None = None
    data_source: str | None = None

    @property
    def path(self) -> str:
        """The path below the tenant, decoded: ``environments/16/resources/astute``; empty for the tenant itself."""
        if self.environment is None:
            return ""
        path = f"environments/{self.environment}"
        return path if self.data_source is None else f"{path}/resources/{self.data_source}"

    @property
    def url(self) -> str:
        """The absolute path, percent-encoded."""
        url = f"/{VERSION}/{encoded(self.tenant)}"
        if self.environment is None:
            return url
        url += f"/environments/{self.environment}"
        if self.data_source is None:
            return url
        return f"{url}/resources/{'/'.join(encoded(part) for part in self.data_source.split('/'))}"

    def move_url(self, destination: str) -> str:
        """Return the URL of the action that moves it to another tenant."""
        return f"{self.url}/action/move?dest={encoded(destination)}"

    def under(self, tenant: str) -> ResourcePath:
        """Return the same path of another tenant."""
        return ResourcePath(tenant, self.environment, self.data_source)


@dataclass(frozen=True)
class Route:
    """What a URL requests; ``place`` is None if it is no tenant's, ``document`` names a served document.

    ``environment``: requested by an operator, whoever owns it; ``run``: the identity of a run.
    """

    kind: RouteKind
    place: ResourcePath | None = None
    document: str = ""
    environment: int | None = None
    run: str = ""

    @property
    def number(self) -> int:
        """The requested environment, a tenant's or an operator's."""
        found = self.environment if self.place is None else self.place.environment
        assert found is not None
        return found


DOCUMENTS = ("healthz", "metrics", "openapi.json", "application.wadl", "audit")


@lru_cache(maxsize=1024)  # the same few are asked for again and again
def route(segments: tuple[str, ...]) -> Route:
    """Return what decoded path segments name.

    Raises ``RefusalError``: 400 for an impossible tenant ID or data source name, 404 for an unknown URL.
    """
    match segments:
        case ("v1.0",):
            return Route(RouteKind.TENANTS)
        case ("v1.0", tenant, *rest):
            return _below(tenant_id(tenant), rest)
        case (name,) if name in DOCUMENTS:
            return Route(RouteKind.DOCUMENT, document=name)
        case ("environments", *rest):
            return _of_all(rest)
    raise _nothing()


_OF_TENANT: dict[tuple[str, ...], RouteKind] = {
    (): RouteKind.PLACE,
    MOVE: RouteKind.MOVE,
    ("action", "recover"): RouteKind.RECOVER,
    ("environments",): RouteKind.ENVIRONMENTS,
    ("resources",): RouteKind.RESOURCES,
    ("audit",): RouteKind.AUDIT,
}


def _below(tenant: str, rest: list[str]) -> Route:
    kind = _OF_TENANT.get(tuple(rest))
    if kind is not None:
        return Route(kind, ResourcePath(tenant))
    number = environment(rest[1]) if rest[0] == "environments" else None
    if number is None:
        raise _nothing()
    return _environment(tenant, number, rest[2:])


def _environment(tenant: str, number: int, rest: list[str]) -> Route:
    match rest:
        case []:
            return Route(RouteKind.PLACE, ResourcePath(tenant, number))
        case ["action", "move"]:
            return Route(RouteKind.MOVE, ResourcePath(tenant, number))
        case [("resources" | "matrix" | "runs" | "overrides" | "findings") as kind]:
            return Route(RouteKind(kind), ResourcePath(tenant, number))
        case ["runs", run] if run:
            return Route(RouteKind.RUN, ResourcePath(tenant, number), run=run)
        case ["resources", *name] if "" not in name:
            move = tuple(name[-2:]) == MOVE
            source = data_source("/".join(name[:-2] if move else name))
            return Route(RouteKind.MOVE if move else RouteKind.PLACE, ResourcePath(tenant, number, source))
    raise _nothing()


def _of_all(rest: list[str]) -> Route:
    """Return an operator's route to environments, whoever owns them."""
    if not rest:
        return Route(RouteKind.ALL_ENVIRONMENTS)
    number = environment(rest[0])
    match rest[1:]:
        case [("matrix" | "runs" | "overrides" | "findings" | "lookup") as kind] if number is not None:
            return Route(RouteKind(kind), environment=number)
        case ["runs", run] if number is not None and run:
            return Route(RouteKind.RUN, environment=number, run=run)
    raise _nothing()


def _nothing() -> Exception:
    return refuse(404, "there is nothing at this URL")
