"""What there is under ``/v1.0``: paths to places and back (T1, T2, T7). Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from configdb_sync.tenants import names
from configdb_sync.web.refusals import refuse
from configdb_sync.web.requests import encoded

VERSION = "v1.0"


class Kind(Enum):
    """What a URL stands for."""

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
    PAGE = "page"
    DOCUMENT = "document"


@dataclass(frozen=True)
class Place:
    """A tenant, an environment of it, or a data source there: whatever can be shown and moved."""

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

    def under(self, tenant: str) -> Place:
        """Return the same place of another tenant."""
        return Place(tenant, self.environment, self.data_source)


@dataclass(frozen=True)
class Route:
    """What a URL asks for; ``place`` is None where it is no tenant's, ``document`` names a served document.

    ``environment``: of which an operator asks, whoever owns it; ``run``: the identity of a run.
    """

    kind: Kind
    place: Place | None = None
    document: str = ""
    environment: int | None = None
    run: str = ""

    @property
    def number(self) -> int:
        """The environment that is asked of, a tenant's or an operator's."""
        found = self.environment if self.place is None else self.place.environment
        assert found is not None
        return found


DOCUMENTS = ("healthz", "metrics", "openapi.json", "application.wadl", "audit")


@lru_cache(maxsize=1024)  # the same few are asked for again and again
def route(segments: tuple[str, ...]) -> Route:
    """Return what decoded path segments name.

    Raises ``RefusalError``: 400 for an impossible tenant ID or data source name, 404 for what there isn't.
    """
    match segments:
        case ("v1.0",):
            return Route(Kind.TENANTS)
        case ("v1.0", tenant, *rest):
            return _below(names.tenant_id(tenant), rest)
        case (name,) if name in DOCUMENTS:
            return Route(Kind.DOCUMENT, document=name)
        case ("environments", *rest):
            return _of_all(rest)
    raise _nothing()


_OF_TENANT: dict[tuple[str, ...], Kind] = {
    (): Kind.PLACE,
    names.MOVE: Kind.MOVE,
    ("action", "recover"): Kind.RECOVER,
    ("environments",): Kind.ENVIRONMENTS,
    ("resources",): Kind.RESOURCES,
    ("audit",): Kind.AUDIT,
}


def _below(tenant: str, rest: list[str]) -> Route:
    kind = _OF_TENANT.get(tuple(rest))
    if kind is not None:
        return Route(kind, Place(tenant))
    number = names.environment(rest[1]) if rest[0] == "environments" else None
    if number is None:
        raise _nothing()
    return _environment(tenant, number, rest[2:])


def _environment(tenant: str, number: int, rest: list[str]) -> Route:
    match rest:
        case []:
            return Route(Kind.PLACE, Place(tenant, number))
        case ["action", "move"]:
            return Route(Kind.MOVE, Place(tenant, number))
        case [("resources" | "matrix" | "runs") as kind]:
            return Route(Kind(kind), Place(tenant, number))
        case ["runs", run] if run:
            return Route(Kind.RUN, Place(tenant, number), run=run)
        case ["resources", *name] if "" not in name:
            move = tuple(name[-2:]) == names.MOVE
            source = names.data_source("/".join(name[:-2] if move else name))
            return Route(Kind.MOVE if move else Kind.PLACE, Place(tenant, number, source))
    raise _nothing()


def _of_all(rest: list[str]) -> Route:
    """Return what an operator asks of environments, whoever owns what is in them."""
    if not rest:
        return Route(Kind.ALL_ENVIRONMENTS)
    number = names.environment(rest[0])
    match rest[1:]:
        case [("matrix" | "runs") as kind] if number is not None:
            return Route(Kind(kind), environment=number)
        case ["runs", run] if number is not None and run:
            return Route(Kind.RUN, environment=number, run=run)
    raise _nothing()


def _nothing() -> Exception:
    return refuse(404, "there is nothing at this URL")
