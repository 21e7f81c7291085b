"""Signing in and out of the pages over HTTP: form, cookie, protection from guessing and from other sites (T12)."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.clock import Clock
from configdb_sync.status_page import html, page_urls
from configdb_sync.status_page.sessions import Sessions, no_session
from configdb_sync.store import tenant_schema
from configdb_sync.tenants.paths import ResourcePath, Route
from configdb_sync.tenants.registry import Registry
from configdb_sync.web.access import Caller
from configdb_sync.web.refusals import RefusalError, refuse
from configdb_sync.web.requests import Environ, Target, encoded, parameters, read_body, read_target
from configdb_sync.web.responses import ApiResponse, HeaderLines

_FORM = 16 * 1024
"""Bytes of a form at most."""
ATTEMPTS, WITHIN = 10, 60.0
"""Wrong attempts to sign in that one address has in so many seconds: guessing must be slow."""
_REMEMBERED = 10_000
SESSIONS = tenant_schema.ENDED_SESSIONS

SAFE: HeaderLines = (
    ("Content-Security-Policy", html.policy()),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    # The service checks a form's origin itself; other sites get no address.
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), geolocation=(), microphone=()"),
    ("Cache-Control", "no-store"),
)


def page_answer(body: str, status: int = 200, headers: HeaderLines = ()) -> ApiResponse:
    """Return a page as an answer."""
    return ApiResponse(status, body.encode("utf-8", "backslashreplace"), (*headers, *SAFE), "text/html; charset=utf-8")


class SignIn:
    """Signing in to the pages of one endpoint. Thread-safe.

    ``secure``: browsers reach the service over TLS, here or at a proxy in front. ``workers``: processes that share the
    allowed wrong attempts.
    """

    def __init__(
        self, sessions: Sessions, registry: Registry, clock: Clock, *, public: bool, secure: bool, workers: int
    ) -> None:
        self._sessions = sessions
        self._public = public
        self._secure = secure
        self._clock = clock
        self._failures = SignInFailures(clock, max(1, ATTEMPTS // workers))
        self._ended = EndedSessions(registry)
        self._name = f"{'__Host-' if secure else ''}configdb-sync-{'tenant' if public else 'admin'}"

    def caller(self, environ: Environ, place: ResourcePath | None) -> Caller:
        """Return who sends the cookie. Raises ``RefusalError`` 401, 503."""
        cookie = _cookie(environ, self._name)
        if cookie is None:
            raise no_session()
        caller = self._sessions.caller(cookie, place, self._clock.now().timestamp(), _address(environ))
        if self._ended.holds(cookie):
            raise no_session("the session is over; sign in again")
        return caller

    def redirect(self, page: Route, query: str | None) -> ApiResponse:
        """Send the browser to the form, which leads back to the page."""
        asked = page_urls.page_url(page) + ("" if query is None else f"?{query}")
        return _redirect(f"/status/sign-in?next={encoded(asked)}")

    def answer(self, environ: Environ, method: str, document: str, target: Target) -> ApiResponse:
        """Answer a request to sign in or out. Raises ``RefusalError``."""
        if document == page_urls.SIGN_OUT:
            if method != "POST":
                raise refuse(405, "signing out is a POST", ("Allow", "POST"))
            _check_origin(environ)
            self._end(environ)
            return _redirect("/status/sign-in", self._set_cookie("", over=True))
        if method in {"GET", "HEAD"}:
            return self._form(form_parameters(target.query, "next").get("next", ""))
        if method != "POST":
            raise refuse(405, "signing in is a GET and a POST", ("Allow", "GET, HEAD, POST"))
        _check_origin(environ)
        form = _read_form(environ)
        try:
            self._failures.check(_address(environ))
            cookie = self._sessions.begin(form, self._clock.now().timestamp())
            tenant = self._sessions.tenant(form)
        except RefusalError as refusal:
            if refusal.status == 401:
                self._failures.note(_address(environ))
            if refusal.status not in {401, 429, 503}:
                raise
            return self._form(form.get("next", ""), refusal)
        first = page_urls.environments_page(tenant)
        return _redirect(next_page(form.get("next", "")) or page_urls.page_url(first), self._set_cookie(cookie))

    def _end(self, environ: Environ) -> None:
        """End the session of this cookie. Raises ``RefusalError`` 503: the cookie is still valid then."""
        cookie = _cookie(environ, self._name)
        if cookie is None:
            return
        now = self._clock.now().timestamp()
        try:
            until = self._sessions.end(cookie, now, _address(environ))
        except RefusalError as refusal:
            # An invalid cookie isn't stored: anyone could fill the database with such.
            if refusal.status == 401:
                return
            raise
        self._ended.add(cookie, now, until)

    def _form(self, following: str, wrong: RefusalError | None = None) -> ApiResponse:
        fields = self._sessions.fields
        hint = "The service says at its start in which file its token is." if fields[-1].name == "token" else ""
        if self._public and hint:
            hint = "Whoever runs the service gives you the token of your tenant."
        body = html.render(
            "sign_in.html",
            **html.frame(self._clock.now()),
            fields=fields,
            next=next_page(following) or "",
            wrong=None if wrong is None else wrong.what,
            hint=hint,
        )
        return page_answer(body) if wrong is None else page_answer(body, wrong.status, wrong.headers)

    def _set_cookie(self, value: str, *, over: bool = False) -> tuple[str, str]:
        parts = [f"{self._name}={value}", "HttpOnly", "SameSite=Strict", f"Path={'/' if self._secure else '/status'}"]
        parts += ["Secure"] if self._secure else []
        parts += ["Max-Age=0"] if over else []
        return "Set-Cookie", "; ".join(parts)


@dataclass(frozen=True)
class EndedSessions:
    """Cookies that were signed out of, for all processes: the registry's database stores their digests (T12).

    Raises ``RefusalError`` 503 while the database is unavailable: then no cookie is accepted.
    """

    registry: Registry

    def holds(self, cookie: str) -> bool:
        """Tell whether someone signed out with a cookie."""
        query = sa.select(SESSIONS.c.until).where(SESSIONS.c.digest == _digest(cookie))
        return self.registry.read(lambda connection: connection.execute(query).first()) is not None

    def add(self, cookie: str, now: float, until: float) -> None:
        """End a cookie. ``until``: when it ends by itself; cookies past that time are deleted here."""

        def work(connection: Connection) -> None:
            connection.execute(sa.delete(SESSIONS).where(SESSIONS.c.until < int(now)))
            row = self.registry.database.insert(SESSIONS).values(digest=_digest(cookie), until=int(until) + 1)
            connection.execute(row.on_conflict_do_nothing())

        self.registry.database.write(work)


def _digest(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("ascii")).hexdigest()


class SignInFailures:
    """Wrong attempts by address. Each process counts its own, and allows its share of them. Thread-safe."""

    def __init__(self, clock: Clock, most: int = ATTEMPTS, within: float = WITHIN) -> None:
        self._clock = clock
        self._most = most
        self._within = within
        self._lock = threading.Lock()
        self._times: OrderedDict[str, list[float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Raise ``RefusalError`` 429 if there were too many recently."""
        now = self._clock.monotonic()
        with self._lock:
            times = [time for time in self._times.get(address, ()) if now - time < self._within]
        if len(times) >= self._most:
            wait = max(1, round(self._within - (now - times[0])))
            raise refuse(429, f"too many tries; wait {wait} seconds", ("Retry-After", str(wait)))

    def note(self, address: str) -> None:
        """Record a wrong attempt."""
        now = self._clock.monotonic()
        with self._lock:
            times = [time for time in self._times.pop(address, ()) if now - time < self._within]
            self._times[address] = [*times, now]
            while len(self._times) > _REMEMBERED:
                self._times.popitem(last=False)


def form_parameters(query: str | None, *known: str) -> dict[str, str]:
    """Return the parameters of a page's query. Raises ``RefusalError`` 400."""
    # A browser's form writes a space as a plus, which the API takes literally, and sends empty fields too. An empty
    # level is the root.
    found = parameters(None if query is None else query.replace("+", "%20"), frozenset(known))
    return {key: value for key, value in found.items() if value or key == "level"}


def next_page(text: str) -> str | None:
    """Return the address to open after signing in: a page of ours, built anew from what the text names, else None."""
    try:
        target = read_target(text)
        shown = page_urls.page_route(target.segments)
        if not text.startswith(f"/{page_urls.ROOT}") or shown.document or target.segments[0] != page_urls.ROOT:
            return None
        return page_urls.page_url(shown) + ("" if target.query is None else f"?{target.query}")
    except RefusalError:
        return None


def _redirect(url: str, *headers: tuple[str, str]) -> ApiResponse:
    return ApiResponse(303, headers=(("Location", url), *headers, *SAFE))


def _address(environ: Environ) -> str:
    return str(environ.get("REMOTE_ADDR") or "")


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
