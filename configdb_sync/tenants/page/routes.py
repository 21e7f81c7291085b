"""The pages' URLs: ``/status`` and below it the API's own paths, of a tenant or of all (T1). Pure.

A tenant's are ``/status/tenants/<tenantId>/environments/...``, an operator's of all ``/status/environments/...``.
"""

from __future__ import annotations

from collections.abc import Sequence

from configdb_sync.tenants import names
from configdb_sync.tenants.paths import Kind, Place, Route, route
from configdb_sync.web.refusals import refuse
from configdb_sync.web.requests import encoded

ROOT = "status"
SIGN_IN, SIGN_OUT = "sign-in", "sign-out"
_SHOWN = frozenset({Kind.MATRIX, Kind.RUNS, Kind.RUN})


def page_route(segments: Sequence[str]) -> Route:
    """Return which page decoded path segments name: ``page`` is the kind of the API that it shows.

    Raises ``RefusalError``: 400 for an impossible tenant ID or name, 404 for what there isn't.
    """
    match segments[1:]:
        case [] | [""]:
            return Route(Kind.PAGE, page=Kind.ALL_ENVIRONMENTS)
        case [name] if name in {SIGN_IN, SIGN_OUT}:
            return Route(Kind.PAGE, document=name)
        case ["tenants", tenant]:
            return Route(Kind.PAGE, Place(names.tenant_id(tenant)), page=Kind.ENVIRONMENTS)
        case ["tenants", tenant, "environments", number, *rest]:
            shown = route(("v1.0", tenant, "environments", number, *(rest or ["matrix"])))
        case ["environments", number, *rest]:
            shown = route(("environments", number, *(rest or ["matrix"])))
        case _:
            raise refuse(404, "there is nothing at this URL")
    document = shown.kind is Kind.PLACE and shown.place is not None and shown.place.data_source is not None
    if shown.kind not in _SHOWN and not document:
        raise refuse(404, "there is nothing at this URL")
    return Route(Kind.PAGE, shown.place, environment=shown.environment, run=shown.run, page=shown.kind)


def page_url(shown: Route) -> str:
    """Return the absolute path of a page, percent-encoded: what ``page_route`` reads back."""
    if shown.document:
        return f"/{ROOT}/{shown.document}"
    base = f"/{ROOT}" if shown.place is None else f"/{ROOT}/tenants/{encoded(shown.place.tenant)}"
    if shown.page in {Kind.ALL_ENVIRONMENTS, Kind.ENVIRONMENTS}:
        return base
    base += f"/environments/{shown.number}"
    if shown.place is not None and shown.place.data_source is not None:
        return f"{base}/resources/{'/'.join(encoded(part) for part in shown.place.data_source.split('/'))}"
    below = {Kind.RUNS: "/runs", Kind.RUN: f"/runs/{encoded(shown.run)}"}
    return base + below.get(shown.page or Kind.MATRIX, "")


def environments_page(scope: str | None) -> Route:
    """Return the page of all environments, or of a tenant's."""
    if scope is None:
        return Route(Kind.PAGE, page=Kind.ALL_ENVIRONMENTS)
    return Route(Kind.PAGE, Place(scope), page=Kind.ENVIRONMENTS)


def environment_page(scope: str | None, environment: int, kind: Kind = Kind.MATRIX, run: str = "") -> Route:
    """Return a page of an environment: its matrix, its runs, or one of them."""
    if scope is None:
        return Route(Kind.PAGE, environment=environment, run=run, page=kind)
    return Route(Kind.PAGE, Place(scope, environment), run=run, page=kind)


def source_page(tenant: str, environment: int, data_source: str) -> Route:
    """Return the page of a data source."""
    return Route(Kind.PAGE, Place(tenant, environment, data_source), page=Kind.PLACE)
