"""URLs of the pages, and links between them (T1). Pure.

A page shows what a route of the tenant API gives, and has the same path below ``/status``:
``/status/tenants/<tenantId>/environments/...`` for a tenant, ``/status/environments/...`` for operators. In a single
file the links lead to anchors instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from configdb_sync.tenants import paths
from configdb_sync.tenants.paths import ResourcePath, Route, RouteKind, route
from configdb_sync.web.refusals import refuse
from configdb_sync.web.requests import encoded

ROOT = "status"
SIGN_IN, SIGN_OUT = "sign-in", "sign-out"
TENANTS, AUDIT = Route(RouteKind.TENANTS), Route(RouteKind.DOCUMENT, document="audit")
"""The pages of all tenants and of the audit trail."""
_SHOWN = frozenset(
    {RouteKind.MATRIX, RouteKind.RUNS, RouteKind.RUN, RouteKind.OVERRIDES, RouteKind.FINDINGS, RouteKind.LOOKUP}
)


def page_route(segments: Sequence[str]) -> Route:
    """Return the API's route that a page shows, or a document ``sign-in``, ``sign-out`` or ``audit``.

    Raises ``RefusalError``: 400 for an impossible tenant ID or name, 404 for a page that doesn't exist.
    """
    match segments[1:]:
        case [] | [""]:
            return environments_page(None)
        case [name] if name in {SIGN_IN, SIGN_OUT}:
            return Route(RouteKind.DOCUMENT, document=name)
        case ["tenants"]:
            return TENANTS
        case ["audit"]:
            return AUDIT
        case ["tenants", tenant]:
            return environments_page(paths.tenant_id(tenant))
        case ["tenants", tenant, "environments", number, *rest]:
            shown = route(("v1.0", tenant, "environments", number, *(rest or ["matrix"])))
        case ["environments", number, *rest]:
            shown = route(("environments", number, *(rest or ["matrix"])))
        case _:
            raise refuse(404, "there is nothing at this URL")
    document = shown.kind is RouteKind.PLACE and shown.place is not None and shown.place.data_source is not None
    if shown.kind not in _SHOWN and not document:
        raise refuse(404, "there is nothing at this URL")
    return shown


def page_url(shown: Route) -> str:
    """Return the absolute path of a page, percent-encoded: the inverse of ``page_route``."""
    if shown.document:
        return f"/{ROOT}/{shown.document}"
    if shown == TENANTS:
        return f"/{ROOT}/tenants"
    base = f"/{ROOT}" if shown.place is None else f"/{ROOT}/tenants/{encoded(shown.place.tenant)}"
    if shown.kind in {RouteKind.ALL_ENVIRONMENTS, RouteKind.ENVIRONMENTS}:
        return base
    base += f"/environments/{shown.number}"
    if shown.place is not None and shown.place.data_source is not None:
        return f"{base}/resources/{'/'.join(encoded(part) for part in shown.place.data_source.split('/'))}"
    if shown.kind is RouteKind.RUN:
        return f"{base}/runs/{encoded(shown.run)}"
    return base if shown.kind is RouteKind.MATRIX else f"{base}/{shown.kind.value}"


def environments_page(scope: str | None) -> Route:
    """Return the page of all environments, or of a tenant's."""
    return Route(RouteKind.ALL_ENVIRONMENTS) if scope is None else Route(RouteKind.ENVIRONMENTS, ResourcePath(scope))


def environment_page(scope: str | None, environment: int, kind: RouteKind = RouteKind.MATRIX, run: str = "") -> Route:
    """Return a page of an environment: its matrix, its runs, or one of them."""
    if scope is None:
        return Route(kind, environment=environment, run=run)
    return Route(kind, ResourcePath(scope, environment), run=run)


@dataclass(frozen=True)
class Links:
    """Addresses of what a page shows, over HTTP; None for what has none.

    ``scope``: the tenant that the pages are for, None for operators. ``joint``: the text between the address of a data
    source and its level.
    """

    scope: str | None
    joint: str = "?level="

    def environment(self, environment: int) -> str:
        """Return the address of an environment's matrix."""
        return page_url(environment_page(self.scope, environment))

    def runs(self, environment: int) -> str:
        """Return the address of its runs."""
        return page_url(environment_page(self.scope, environment, RouteKind.RUNS))

    def overrides(self, environment: int) -> str:
        """Return the address of its overrides."""
        return page_url(environment_page(self.scope, environment, RouteKind.OVERRIDES))

    def lookup(self, environment: int) -> str | None:
        """Return the address of lookups; only operators have it, since a key may be in anyone's data source."""
        return page_url(environment_page(None, environment, RouteKind.LOOKUP)) if self.scope is None else None

    def findings(self, environment: int) -> str:
        """Return the address of what the watch found."""
        return page_url(environment_page(self.scope, environment, RouteKind.FINDINGS))

    def run(self, environment: int, run: str) -> str | None:
        """Return the address of a run."""
        return page_url(environment_page(self.scope, environment, RouteKind.RUN, run))

    def source(self, tenant: str, environment: int, name: str) -> str | None:
        """Return the address of a data source, to which ``joint`` and a level are added."""
        return page_url(Route(RouteKind.PLACE, ResourcePath(tenant, environment, name)))


def level_name(level: Mapping[str, str]) -> str:
    """Return a level path for people, ``nodes=46``."""
    return ",".join(f"{name}={value}" for name, value in level.items())


def level_text(level: Mapping[str, str] | None) -> str | None:
    """Return a level path as a percent-encoded query value, ``nodes%3D46``; None if the level is unknown."""
    if level is None:
        return None
    text = level_name(level)
    name, _, value = text.partition("=")
    # Usually one level and a number, many times.
    return f"{name}%3D{value}" if (name + value).isalnum() and text.isascii() else encoded(text)
