"""The pages over HTTP (T12, S1-S8 for people): who may see which, and how they are sent.

A page shows exactly what the API answers: it is made of the same values (``StatusApi``).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from configdb_sync.clock import Clock, SystemClock
from configdb_sync.status_page import html, page_urls
from configdb_sync.status_page.api import (
    DOCUMENT_QUERY,
    FINDINGS_QUERY,
    LOOKUP_QUERY,
    MATRIX_QUERY,
    OVERRIDES_QUERY,
    RUNS_QUERY,
    StatusApi,
    StatusView,
)
from configdb_sync.status_page.page_urls import Links, environments_page, page_url
from configdb_sync.status_page.queries import History, StampedCache
from configdb_sync.status_page.sessions import Sessions
from configdb_sync.status_page.sign_in import SAFE, SignIn, form_parameters, page_answer
from configdb_sync.tenants.api_calls import audit_view, tenants_view
from configdb_sync.tenants.paths import ResourcePath, Route, RouteKind
from configdb_sync.tenants.queries import Located, Moved
from configdb_sync.tenants.requests import Admit, Context, StatusCalls
from configdb_sync.web.access import Access, Caller
from configdb_sync.web.refusals import RefusalError, refuse
from configdb_sync.web.requests import Environ, Target, encoded
from configdb_sync.web.responses import ApiResponse

NODES_OF_A_PAGE = "100"


@dataclass(frozen=True)
class StatusPage:
    """The status page of a service's process: what each endpoint gets of it.

    ``sessions`` and ``public_sessions`` make the ways to sign in at the two endpoints; the public one has no pages
    if it is None. ``secure``: browsers connect over TLS.
    """

    history: History
    sessions: Callable[[Access], Sessions | None]
    public_sessions: Callable[[Access], Sessions | None] | None = None
    secure: bool = False

    def endpoint(
        self, context: Context, access: Access, *, public: bool, workers: int
    ) -> tuple[StatusCalls | None, Pages | None]:
        """Return an endpoint's API calls and pages, None if it has none; ``workers``: processes that have the same."""
        sessions = self.public_sessions if public else self.sessions
        if sessions is None:
            return None, None
        api, clock, way, sign_in = StatusApi(context, self.history), SystemClock(), sessions(access), None
        if way is not None:
            sign_in = SignIn(way, context.registry, clock, public=public, secure=self.secure, workers=workers)
        return api.answer, Pages(api, access, sign_in, clock)


@dataclass(frozen=True)
class Pages:
    """All pages of one endpoint. ``sign_in``: None if nobody needs to (``--auth none``, on loopback). Thread-safe."""

    api: StatusApi
    access: Access
    sign_in: SignIn | None
    clock: Clock
    _tables: StampedCache = field(default_factory=lambda: StampedCache(8), init=False, repr=False)
    root = page_urls.ROOT

    def answer(
        self, environ: Environ, method: str, target: Target, identity: str, *, asked: list[Route], admit: Admit
    ) -> ApiResponse:
        """Answer a request for a page; its route is added to ``asked``, and ``admit`` checks the caller."""
        try:
            shown = page_urls.page_route(target.segments)
            asked.append(Route(RouteKind.PAGE, shown.place))
            if shown.document and shown != page_urls.AUDIT:
                if self.sign_in is None:
                    raise refuse(404, "nobody needs to sign in here")
                return self.sign_in.answer(environ, method, shown.document, target)
            if method not in {"GET", "HEAD"}:
                raise refuse(405, "a page can only be read", ("Allow", "GET, HEAD"))
            # A data source's page always shows documents: those of the root by default.
            query = f"level=&{target.query or ''}" if shown.kind is RouteKind.PLACE else target.query
            try:
                caller = admit(self._caller(environ, shown.place), shown, query)
            except RefusalError as refusal:
                if refusal.status == 401 and self.sign_in is not None:
                    return self.sign_in.redirect(shown, target.query)
                raise
            if shown.place is None and not caller.admin:
                raise refuse(404, "there is nothing at this URL")
            return self._page(shown, target.query, caller)
        except RefusalError as refusal:
            if refusal.status in {301, 303}:
                return ApiResponse(refusal.status, headers=(*refusal.headers, *SAFE))
            title = HTTPStatus(refusal.status).phrase
            values = {"title": title, "what": refusal.what, "request": identity}
            body = html.render("error.html", **html.frame(self.clock.now()), **values)
            return page_answer(body, refusal.status, refusal.headers)

    def _caller(self, environ: Environ, place: ResourcePath | None) -> Caller:
        if self.sign_in is None:
            _check_host(environ)
        elif "HTTP_X_AUTH_TOKEN" not in environ and "HTTP_AUTHORIZATION" not in environ:
            return self.sign_in.caller(environ, place)
        return self.access.caller(environ, place)

    def _page(self, shown: Route, query: str | None, caller: Caller) -> ApiResponse:
        place = shown.place
        scope = None if place is None else place.tenant
        if shown.kind is RouteKind.PLACE:
            return self._document(shown, query, caller)
        if place is not None and place.environment is not None:
            self._live(shown, query, caller)
        links = Links(scope)
        if shown in {page_urls.TENANTS, page_urls.AUDIT}:
            return self._registry(shown, query, caller)
        if shown.kind in {RouteKind.ALL_ENVIRONMENTS, RouteKind.ENVIRONMENTS}:
            given = form_parameters(query, "limit", "marker")
            if scope is not None:
                self.api.context.registry.tenant(scope)
            seen = self.api.environments(given, scope)
            more = _more(shown, given, seen.view["environments_next"])
            page = self._frame(caller, [("Environments", None)])
            shown_values = {"view": seen.view, "scope": scope, "links": links, "more": more}
            return page_answer(html.render("environments.html", **page, **shown_values))
        template, seen, values, trail = self._of_environment(shown, query, scope, links)
        environment = (f"Environment {shown.number}", links.environment(shown.number) if trail else None)
        page = self._frame(caller, [("Environments", page_url(environments_page(scope))), environment, *trail])
        values |= {"view": seen.view, "fresh": seen.fresh, "links": links, "here": page_url(shown)}
        return page_answer(html.render(template, **page, **values, environment=shown.number))

    def _registry(self, shown: Route, query: str | None, caller: Caller) -> ApiResponse:
        """Answer with all tenants, those that can be recovered, or the audit trail."""
        context, links = self.api.context, Links(None)
        if shown == page_urls.AUDIT:
            given = form_parameters(query, "limit", "marker")
            title, template, view = "Audit trail", "audit.html", audit_view(context, given, None)
            more = _more(shown, given, view["entries_next"])
        else:
            given = form_parameters(query, "limit", "marker", "recoverable")
            title, template, view = "Tenants", "tenants.html", tenants_view(context, given)
            more = _more(shown, given, view["tenants_next"])
        page = self._frame(caller, [("Environments", page_url(environments_page(None))), (title, None)])
        recoverable = given.get("recoverable") == "true"
        values = {"view": view, "links": links, "more": more, "here": page_url(shown), "recoverable": recoverable}
        return page_answer(html.render(template, **page, **values))

    def _of_environment(
        self, shown: Route, query: str | None, scope: str | None, links: Links
    ) -> tuple[str, StatusView, dict[str, Any], list[tuple[str, str | None]]]:
        """Return the template of an environment's page, what the API answers, what else it shows, and its trail."""
        values: dict[str, Any] = {}
        trail: list[tuple[str, str | None]] = []
        match shown.kind:
            case RouteKind.RUN:
                form_parameters(query)
                template, seen = "run.html", self.api.run(scope, shown.number, shown.run)
                values["names"] = {one["node"]: one["fqdn"] for one in seen.view["done"]}
                trail = [("Runs", links.runs(shown.number)), (seen.view["run"][:12], None)]
            case RouteKind.RUNS:
                given = form_parameters(query, *RUNS_QUERY)
                template, seen = "runs.html", self.api.runs(scope, shown.number, given)
                values["more"] = _more(shown, given, seen.view["runs_next"])
                trail = [("Runs", None)]
            case RouteKind.OVERRIDES:
                given = form_parameters(query, *OVERRIDES_QUERY)
                template, seen = "overrides.html", self.api.overrides(scope, shown.number, given)
                values["more"] = _more(shown, given, seen.view["overrides_next"])
                values["query"] = {"text": "", "only": "", "expiring": "", **given}
                trail = [("Overrides", None)]
            case RouteKind.LOOKUP:
                given = form_parameters(query, *LOOKUP_QUERY)
                asked_for = all(given.get(name) for name in ("node", "key"))
                template, seen = "lookup.html", self.api.lookup(shown.number, given) if asked_for else StatusView({})
                values["query"] = {"node": "", "key": "", "merge": "first", **given}
                trail = [("Lookup", None)]
            case RouteKind.FINDINGS:
                given = form_parameters(query, *FINDINGS_QUERY)
                template, seen = "findings.html", self.api.findings(scope, shown.number, given)
                values["more"] = _more(shown, given, seen.view["findings_next"])
                values["query"] = {"text": "", **given}
                trail = [("Findings", None)]
            case _:
                given = {"limit": NODES_OF_A_PAGE, **form_parameters(query, *MATRIX_QUERY)}
                template, seen = "environment.html", self.api.matrix(scope, shown.number, given)
                values["more"] = _more(shown, given, seen.view["nodes_next"])
                values["query"] = {"node": "", "status": "", **given}
                values["table"] = self._tables(
                    (scope, shown.number, *sorted(given.items())),
                    (seen.stamp, seen.view["data_sources"]),
                    lambda: html.matrix_table(seen.view, links),
                )
        return template, seen, values, trail

    def _document(self, shown: Route, query: str | None, caller: Caller) -> ApiResponse:
        place, here = shown.place, page_url(shown)
        assert place is not None
        assert place.data_source is not None
        live = self._live(shown, query, caller)
        assert live.resource is not None
        given = {"show": "layers", "level": "", **form_parameters(query, *DOCUMENT_QUERY)}
        seen = self.api.document(place, live.resource, given)
        # An operator comes from the list of all environments, not from a tenant's.
        links = Links(None if caller.admin else place.tenant)
        trail = [
            ("Environments", page_url(environments_page(links.scope))),
            (f"Environment {shown.number}", links.environment(shown.number)),
            (place.data_source, None),
        ]
        at = f"{here}?level={encoded(given['level'])}"
        layers = given["show"] == "layers"
        body = html.render(
            "document.html",
            **self._frame(caller, trail),
            view=seen.view,
            links=links,
            here=here,
            tabs=[
                ("layers", "Side by side", at),
                ("overrides", "History of the override", f"{at}&show=history&kind=overrides"),
                ("values", "History of the values", f"{at}&show=history&kind=values"),
            ],
            shown="layers" if layers else seen.view["kind"],
            query={"key": "", **given},
            more=_more(shown, given, seen.view["leaves_next" if layers else "versions_next"]),
        )
        return page_answer(body)

    def _frame(self, caller: Caller, trail: list[tuple[str, str | None]]) -> dict[str, Any]:
        user = "" if caller.name == "token" else caller.name
        return {**html.frame(self.clock.now(), user=user, sign_out=self.sign_in is not None), "trail": trail}

    def _live(self, shown: Route, query: str | None, caller: Caller) -> Located:
        assert shown.place is not None
        _, found = self.api.context.registry.locate(shown.place)
        if isinstance(found, Moved):
            if not caller.admin:
                raise refuse(404, "there is nothing at this URL")
            moved = replace(shown, place=shown.place.under(found.owner.id))
            location = page_url(moved) + ("" if query is None else f"?{query}")
            raise refuse(301, "it has been moved", ("Location", location))
        return found


def _more(shown: Route, query: Mapping[str, str], following: str | None) -> str | None:
    """Return the address of the next page, from the API's own."""
    if following is None:
        return None
    marker = urlsplit(following).query.rpartition("marker=")[2]
    kept = "".join(f"{name}={encoded(value)}&" for name, value in query.items() if name != "marker")
    return f"{page_url(shown)}?{kept}marker={marker}"


_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::[0-9]+)?")


def _check_host(environ: Environ) -> None:
    """Raise ``RefusalError`` 403 if a browser addresses this machine by a name that isn't its own."""
    found = _HOST.fullmatch(str(environ.get("HTTP_HOST", "")))
    name = "" if found is None else found["name"].strip("[]").lower()
    try:
        own = ipaddress.ip_address(name).is_loopback
    except ValueError:
        own = name == "localhost" or name.endswith(".localhost")
    if not own:
        raise refuse(403, "without sign-in, pages are shown on this machine's own names alone")
