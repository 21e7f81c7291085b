"""The pages over HTTP: who may see which, what is asked for them, and how they go out (T12, S1-S8 as people see them).

A page shows what the API gives and nothing else: each is made of the same values (``asking``).
"""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from markupsafe import Markup

from configdb_sync.clock import Clock
from configdb_sync.tenants.access import Access
from configdb_sync.tenants.answers import Answer, Headers
from configdb_sync.tenants.context import Context
from configdb_sync.tenants.locating import Live, Moved
from configdb_sync.tenants.page import asking, html, routes
from configdb_sync.tenants.page.asking import Seen
from configdb_sync.tenants.page.ended import EndedSessions
from configdb_sync.tenants.page.failures import MOST, Failures
from configdb_sync.tenants.page.kept import Kept
from configdb_sync.tenants.page.links import Links, ServedLinks, level_text
from configdb_sync.tenants.page.sessions import Sessions, no_session
from configdb_sync.tenants.paths import Kind, Place, Route
from configdb_sync.tenants.requests import Caller, Environ, read_body
from configdb_sync.web.refusals import RefusalError, refuse
from configdb_sync.web.requests import Target, encoded, parameters, read_target

Admit = Callable[[Caller, Route, "str | None"], Caller]
"""Says who may see what a route of the API gives, by the query; raises ``RefusalError`` 403, 429."""
_FORM = 16 * 1024
_LAYERS = ("level", "show", "kind", "key", "limit", "marker")


@dataclass(frozen=True)
class _Visit:
    """One request for a page."""

    environ: Environ
    route: Route
    query: str | None
    identity: str
    now: Any

    def parameters(self, *known: str) -> dict[str, str]:
        # A form sends its empty fields too; a level may be empty, which is the root.
        found = _form_query(self.query)
        return {key: value for key, value in parameters(found, frozenset(known)).items() if value or key == "level"}


class Pages:
    """All pages of one endpoint. ``sessions``: None where anyone may look (``--auth none``, on loopback).

    ``secure``: browsers reach the service over TLS, here or at a proxy in front. ``workers``: processes among which
    wrong tries to sign in are spread. Safe for several threads.
    """

    def __init__(
        self,
        context: Context,
        access: Access,
        sessions: Sessions | None,
        clock: Clock,
        *,
        public: bool,
        secure: bool,
        workers: int = 1,
    ) -> None:
        self._context = context
        self._access = access
        self._sessions = sessions
        self._clock = clock
        self._public = public
        self._secure = secure
        self._failures = Failures(clock, max(1, MOST // workers))
        self._ended = EndedSessions(context.registry)
        self._kept = Kept(8)
        self._cookie = f"{'__Host-' if secure else ''}configdb-sync-{'tenant' if public else 'admin'}"

    def answer(
        self, environ: Environ, method: str, target: Target, identity: str, *, asked: list[Route], admit: Admit
    ) -> Answer:
        """Answer a request for a page; ``asked`` gets its route, ``admit`` says whether a caller may see it."""
        now = self._clock.now()
        try:
            found = routes.page_route(target.segments)
            asked.append(found)
            visit = _Visit(environ, found, target.query, identity, now)
            if found.document:
                return self._sign(visit, method)
            if method not in {"GET", "HEAD"}:
                raise refuse(405, "a page can only be read", ("Allow", "GET, HEAD"))
            try:
                caller = admit(self._caller(visit), *_of_api(found, target.query))
            except RefusalError as refusal:
                if refusal.status == 401 and self._sessions is not None:
                    return self._to_sign_in(visit)
                raise
            return self._page(visit, caller)
        except RefusalError as refusal:
            return self._refused(refusal, identity, now)

    def _caller(self, visit: _Visit) -> Caller:
        environ = visit.environ
        if self._sessions is None:
            _check_host(environ)
            return self._access.caller(environ, visit.route.place)
        if "HTTP_X_AUTH_TOKEN" in environ or "HTTP_AUTHORIZATION" in environ:
            return self._access.caller(environ, visit.route.place)
        cookie = _cookie(environ, self._cookie)
        if cookie is None:
            raise no_session()
        address = str(environ.get("REMOTE_ADDR") or "")
        caller = self._sessions.caller(cookie, visit.route.place, visit.now.timestamp(), address)
        if self._ended.holds(cookie):
            raise no_session("the session is over; sign in again")
        return caller

    def _to_sign_in(self, visit: _Visit) -> Answer:
        asked = routes.page_url(visit.route) + ("" if visit.query is None else f"?{visit.query}")
        return _see(f"/status/sign-in?next={encoded(asked)}")

    def _sign(self, visit: _Visit, method: str) -> Answer:
        sessions = self._sessions
        if sessions is None:
            raise refuse(404, "nobody needs to sign in here")
        if visit.route.document == routes.SIGN_OUT:
            if method != "POST":
                raise refuse(405, "signing out is a POST", ("Allow", "POST"))
            _check_origin(visit.environ)
            self._end(sessions, visit)
            return _see("/status/sign-in", self._set_cookie("", over=True))
        if method in {"GET", "HEAD"}:
            asked = visit.parameters("next").get("next", "")
            return self._form(sessions, asked, visit.now)
        if method != "POST":
            raise refuse(405, "signing in is a GET and a POST", ("Allow", "GET, HEAD, POST"))
        _check_origin(visit.environ)
        address = str(visit.environ.get("REMOTE_ADDR") or "")
        form = _read_form(visit.environ)
        try:
            self._failures.check(address)
            cookie = sessions.begin(form, visit.now.timestamp())
            home = sessions.home(form)
        except RefusalError as refusal:
            if refusal.status == 401:
                self._failures.note(address)
            if refusal.status not in {401, 429, 503}:
                raise
            return self._form(sessions, form.get("next", ""), visit.now, refusal)
        first = routes.environments_page(None if home is None else home.tenant)
        return _see(_next_page(form.get("next", "")) or routes.page_url(first), self._set_cookie(cookie))

    def _end(self, sessions: Sessions, visit: _Visit) -> None:
        """End the session for whoever has its cookie. Raises ``RefusalError`` 503: the cookie is good still then."""
        cookie = _cookie(visit.environ, self._cookie)
        if cookie is None:
            return
        now = visit.now.timestamp()
        try:
            until = sessions.end(cookie, now, str(visit.environ.get("REMOTE_ADDR") or ""))
        except RefusalError as refusal:
            # What is no good cookie is kept nowhere: anyone could fill the database with such.
            if refusal.status == 401:
                return
            raise
        self._ended.add(cookie, now, until)

    def _form(self, sessions: Sessions, asked: str, now: Any, wrong: RefusalError | None = None) -> Answer:
        told = sessions.fields
        hint = "The service says at its start in which file its token is." if told[-1].name == "token" else ""
        if self._public and hint:
            hint = "Whoever runs the service gives you the token of your tenant."
        body = html.render(
            "sign_in.html",
            **self._frame(now),
            fields=told,
            next=_next_page(asked) or "",
            wrong=None if wrong is None else wrong.what,
            hint=hint,
        )
        return _answer(body, 200 if wrong is None else wrong.status, () if wrong is None else wrong.headers)

    def _set_cookie(self, value: str, *, over: bool = False) -> tuple[str, str]:
        parts = [f"{self._cookie}={value}", "HttpOnly", "SameSite=Strict", f"Path={'/' if self._secure else '/status'}"]
        parts += ["Secure"] if self._secure else []
        parts += ["Max-Age=0"] if over else []
        return "Set-Cookie", "; ".join(parts)

    def _frame(self, now: Any, caller: Caller | None = None) -> dict[str, Any]:
        return {
            "policy": None,
            "now": now,
            "trail": [],
            "sign_out": caller is not None and self._sessions is not None,
            "user": "" if caller is None or caller.name == "token" else caller.name,
        }

    def _refused(self, refusal: RefusalError, identity: str, now: Any) -> Answer:
        if refusal.status in {301, 303}:
            return Answer(refusal.status, headers=(*refusal.headers, *SAFE))
        title = HTTPStatus(refusal.status).phrase
        body = html.render("error.html", **self._frame(now), title=title, what=refusal.what, request=identity)
        return _answer(body, refusal.status, refusal.headers)

    def _page(self, visit: _Visit, caller: Caller) -> Answer:
        frame = self._frame(visit.now, caller)
        place = visit.route.place
        scope = None if place is None else place.tenant
        links = ServedLinks(scope)
        if visit.route.page in {Kind.ALL_ENVIRONMENTS, Kind.ENVIRONMENTS}:
            return self._environments(visit, frame, scope, links)
        if visit.route.page is Kind.PLACE:
            return self._document(visit, frame, links, admin=caller.admin)
        if place is not None:
            self._live(place, visit, admin=caller.admin)
        if visit.route.page is Kind.RUN:
            visit.parameters()
            seen = asking.run(self._context, scope, visit.route.number, visit.route.run)
            return self._shown("run.html", visit, frame, links, seen, kind=Kind.RUN)
        if visit.route.page is Kind.RUNS:
            query = visit.parameters(*asking.RUNS_QUERY)
            seen = asking.runs(self._context, scope, visit.route.number, query)
            more = _more(visit.route, query, seen.view["runs_next"])
            return self._shown("runs.html", visit, frame, links, seen, kind=Kind.RUNS, more=more)
        query = visit.parameters(*asking.MATRIX_QUERY)
        seen = asking.matrix(self._context, scope, visit.route.number, query)
        more = _more(visit.route, query, seen.view["nodes_next"])
        return self._shown(
            "environment.html",
            visit,
            frame,
            links,
            seen,
            kind=Kind.MATRIX,
            more=more,
            query={"node": "", "status": "", **query},
            sums=sums_of(seen.view),
            table=self._kept(
                (scope, visit.route.number, *sorted(query.items())),
                (seen.stamp, seen.view["data_sources"]),
                lambda: matrix_table(seen.view, links),
            ),
        )

    def _environments(self, visit: _Visit, frame: dict[str, Any], scope: str | None, links: Links) -> Answer:
        query = visit.parameters("limit", "marker")
        if scope is not None:
            self._context.registry.tenant(scope)
        seen = asking.environments(self._context, query, scope)
        more = _more(visit.route, query, seen.view["environments_next"])
        frame["trail"] = [("Environments", None)]
        body = html.render("environments.html", **frame, view=seen.view, scope=scope, links=links, more=more)
        return _answer(body)

    def _shown(
        self,
        template: str,
        visit: _Visit,
        frame: dict[str, Any],
        links: ServedLinks,
        seen: Seen,
        *,
        kind: Kind,
        **more: Any,
    ) -> Answer:
        number = visit.route.number
        here = routes.page_url(visit.route)
        trail: list[tuple[str, str | None]] = [("Environments", routes.page_url(routes.environments_page(links.scope)))]
        trail.append((f"Environment {number}", None if kind is Kind.MATRIX else links.environment(number)))
        if kind in {Kind.RUNS, Kind.RUN}:
            trail.append(("Runs", None if kind is Kind.RUNS else links.runs(number)))
        if kind is Kind.RUN:
            trail.append((seen.view["run"][:12], None))
        frame["trail"] = trail
        values = {"view": seen.view, "fresh": seen.fresh, "links": links, "here": here, "environment": number}
        return _answer(html.render(template, **frame, **values, **more))

    def _document(self, visit: _Visit, frame: dict[str, Any], links: ServedLinks, *, admin: bool) -> Answer:
        place = visit.route.place
        assert place is not None
        assert place.data_source is not None
        assert place.environment is not None
        live = self._live(place, visit, admin=admin)
        assert live.resource is not None
        given = visit.parameters(*_LAYERS)
        query = {"show": "layers", "level": "", **given}
        seen = asking.document(self._context, place, live.resource, query)
        # An operator comes from all environments, not from a tenant's.
        links = ServedLinks(None if admin else place.tenant)
        here = routes.page_url(visit.route)
        frame["trail"] = [
            ("Environments", routes.page_url(routes.environments_page(links.scope))),
            (f"Environment {place.environment}", links.environment(place.environment)),
            (place.data_source, None),
        ]
        at = f"{here}?level={encoded(query['level'])}"
        tabs = [
            ("layers", "Side by side", at),
            ("overrides", "History of the override", f"{at}&show=history&kind=overrides"),
            ("values", "History of the values", f"{at}&show=history&kind=values"),
        ]
        shown = query["show"]
        following = seen.view["leaves_next" if shown == "layers" else "versions_next"]
        body = html.render(
            "document.html",
            **frame,
            view=seen.view,
            links=links,
            here=here,
            tabs=tabs,
            shown=shown if shown == "layers" else seen.view["kind"],
            query={"key": "", **query},
            more=_more(visit.route, query, following),
        )
        return _answer(body)

    def _live(self, place: Place, visit: _Visit, *, admin: bool) -> Live:
        _, found = self._context.registry.locate(place)
        if isinstance(found, Moved):
            if not admin:
                raise refuse(404, "there is nothing at this URL")
            route = visit.route
            moved = Route(Kind.PAGE, place.under(found.owner.id), run=route.run, page=route.page)
            query = "" if visit.query is None else f"?{visit.query}"
            raise refuse(301, "it has been moved", ("Location", routes.page_url(moved) + query))
        return found


def _of_api(shown: Route, query: str | None) -> tuple[Route, str | None]:
    """Return what the API would be asked for a page: who may ask for that may see it."""
    assert shown.page is not None
    asked = Route(shown.page, shown.place, environment=shown.environment, run=shown.run)
    # A data source's page always shows its documents, those of the root without a word.
    return asked, f"level=&{query or ''}" if shown.page is Kind.PLACE else query


SAFE: Headers = (
    ("Content-Security-Policy", html.policy()),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    # A form's origin is told to the service itself, which looks at it; nobody else learns an address.
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), geolocation=(), microphone=()"),
    ("Cache-Control", "no-store"),
)


def sums_of(view: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return how many documents have which status, those with any word."""
    sums: Counter[str | None] = Counter()
    for look, number in Counter(tuple(row["statuses"]) for row in view["nodes"]).items():
        for status in look:
            sums[status] += number
    return [(word, sums[word]) for word in ("ERROR", "BUILD", "ACTIVE")]


def matrix_table(view: Mapping[str, Any], links: Links) -> Markup:
    """Return the matrix as a table."""
    environment = view["environment"]
    columns: list[html.Column] = [
        (source, None if source["tenant"] is None else links.source(source["tenant"], environment, source["name"]))
        for source in view["data_sources"]
    ]
    cells = html.Cells(columns, {tuple(row["statuses"]) for row in view["nodes"]}, links.joint)
    rows = [
        (row["node"], row["fqdn"], cells(row["statuses"], level_text(row["level"])), row["problems"])
        for row in view["nodes"]
    ]
    return html.part("matrix", view, cells, rows, links.joint)


def _answer(body: str, status: int = 200, headers: Headers = ()) -> Answer:
    return Answer(status, body.encode("utf-8", "backslashreplace"), (*headers, *SAFE), "text/html; charset=utf-8")


def _see(url: str, *headers: tuple[str, str]) -> Answer:
    return Answer(303, headers=(("Location", url), *headers, *SAFE))


def _more(route: Route, query: Mapping[str, str], following: str | None) -> str | None:
    """Return the address of the page that follows, from the API's own."""
    if following is None:
        return None
    marker = urlsplit(following).query.rpartition("marker=")[2]
    kept = "".join(f"{name}={encoded(value)}&" for name, value in query.items() if name != "marker")
    return f"{routes.page_url(route)}?{kept}marker={marker}"


def _next_page(text: str) -> str | None:
    """Return the address to go to after signing in: a page of ours, made anew from what it names, else None."""
    try:
        target = read_target(text)
        route = routes.page_route(target.segments)
        if not text.startswith(f"/{routes.ROOT}") or route.document or target.segments[0] != routes.ROOT:
            return None
        return routes.page_url(route) + ("" if target.query is None else f"?{target.query}")
    except RefusalError:
        return None


def _form_query(query: str | None) -> str | None:
    # A browser's form writes a space as a plus; the API takes a plus for a plus.
    return None if query is None else query.replace("+", "%20")


def _read_form(environ: Environ) -> dict[str, str]:
    if environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower() != "application/x-www-form-urlencoded":
        raise refuse(415, "a form must be of type application/x-www-form-urlencoded")
    try:
        text = read_body(environ, _FORM).decode("ascii")
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=bool(text), errors="strict", max_num_fields=20)
    except ValueError:
        raise refuse(400, "the form can't be read") from None
    return dict(pairs)


def _cookie(environ: Environ, name: str) -> str | None:
    # By hand: the standard library's reader stops at the first cookie that it doesn't like, and other services on other
    # ports of this host set cookies too. It also undoes escapes, and none of ours has any.
    for pair in str(environ.get("HTTP_COOKIE", "")).split(";"):
        key, _, value = pair.strip(" \t").partition("=")
        if key == name:
            return value if value and value.isascii() and value.isprintable() else None
    return None


def _check_origin(environ: Environ) -> None:
    """Raise ``RefusalError`` 403 if another site's page sends this form."""
    site, origin = environ.get("HTTP_SEC_FETCH_SITE"), environ.get("HTTP_ORIGIN")
    try:
        same = origin is None or urlsplit(str(origin)).netloc.lower() == str(environ.get("HTTP_HOST", "")).lower()
    except ValueError:
        same = False
    if not same or site not in {None, "same-origin", "none"}:
        raise refuse(403, "this form comes from another site")


_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::[0-9]+)?")


def _check_host(environ: Environ) -> None:
    """Raise ``RefusalError`` 403 if a browser was led here under a name that isn't this machine's own."""
    found = _HOST.fullmatch(str(environ.get("HTTP_HOST", "")))
    name = "" if found is None else found["name"].strip("[]").lower()
    try:
        own = ipaddress.ip_address(name).is_loopback
    except ValueError:
        own = name == "localhost" or name.endswith(".localhost")
    if not own:
        raise refuse(403, "without sign-in, pages are shown on this machine's own names alone")
