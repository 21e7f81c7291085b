"""The WSGI application of an endpoint: reads the raw target, lets the caller in, answers in one shape."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from configdb_sync.clock import Clock, new_call_id
from configdb_sync.tenants import api_calls, openapi
from configdb_sync.tenants.paths import Route, RouteKind, route
from configdb_sync.tenants.policy import OPERATOR, Policy, rule_of
from configdb_sync.tenants.representations import moment
from configdb_sync.tenants.requests import Context, PageHandler, TenantRequest
from configdb_sync.tenants.rows import Tenant, find_tenant
from configdb_sync.web.access import Access, Caller, TokenBuckets
from configdb_sync.web.refusals import FAILED, RefusalError, refuse
from configdb_sync.web.requests import client_address, drain, target_of
from configdb_sync.web.responses import ApiResponse, json_response
from configdb_sync.web.service import CURRENT, LoggedRequest

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment


log = logging.getLogger(__name__)
REQUEST_ID = "X-Openstack-Request-Id"
usage = logging.getLogger("configdb_sync.tenants.metrics")

Handler = Callable[[Context, TenantRequest], ApiResponse]


def _of_tenant(handler: Callable[[Context, TenantRequest, Tenant], ApiResponse]) -> Handler:
    def handle(context: Context, request: TenantRequest) -> ApiResponse:
        return handler(context, request, context.registry.tenant(request.place.tenant))

    return handle


def _status(context: Context, request: TenantRequest) -> ApiResponse:
    if context.status_calls is None:
        raise refuse(404, "there is nothing at this URL")
    return context.status_calls(request)


def _show_data_source(context: Context, request: TenantRequest) -> ApiResponse:
    """GET, HEAD of a data source; with ``show=layers`` or ``show=history`` its documents, masked."""
    return (_status if "show=" in (request.query or "") else api_calls.show_place)(context, request)


_TENANT: dict[str, Handler] = {
    "GET": api_calls.show_tenant,
    "PUT": api_calls.put_tenant,
    "DELETE": api_calls.delete_tenant,
}

_ENVIRONMENT: dict[str, Handler] = {"GET": api_calls.show_place}

_TABLE: dict[RouteKind, dict[str, Handler]] = {
    RouteKind.TENANTS: {"GET": api_calls.list_tenants},
    RouteKind.PLACE: {"GET": _show_data_source, "PUT": api_calls.put_overrides},
    RouteKind.MOVE: {"GET": api_calls.show_move, "POST": api_calls.move},
    RouteKind.RECOVER: {"POST": api_calls.recover_tenant},
    RouteKind.ENVIRONMENTS: {"GET": _of_tenant(api_calls.list_environments)},
    RouteKind.RESOURCES: {"GET": _of_tenant(api_calls.list_resources)},
    RouteKind.AUDIT: {"GET": api_calls.show_audit},
    RouteKind.ALL_ENVIRONMENTS: {"GET": _status},
    RouteKind.MATRIX: {"GET": _status},
    RouteKind.RUNS: {"GET": _status},
    RouteKind.RUN: {"GET": _status},
    RouteKind.OVERRIDES: {"GET": _status},
    RouteKind.FINDINGS: {"GET": _status},
    RouteKind.LOOKUP: {"GET": _status},
}

_PUBLIC = frozenset(
    {
        *(
            RouteKind.PLACE,
            RouteKind.ENVIRONMENTS,
            RouteKind.RESOURCES,
            RouteKind.MATRIX,
            RouteKind.RUNS,
            RouteKind.RUN,
        ),
        *(RouteKind.OVERRIDES, RouteKind.FINDINGS),
    }
)
"""What the public endpoint has, for reading; everything that spans tenants is an operator's (T12)."""

_OPEN = frozenset({"healthz", "openapi.json", "application.wadl"})
_NOBODY = Caller("nobody", admin=False)

_DOCUMENTS: dict[str, dict[str, Handler]] = {
    "audit": {"GET": api_calls.show_audit},
    "healthz": {"GET": openapi.show_health},
    "metrics": {"GET": openapi.show_metrics},
    "openapi.json": {"GET": openapi.show_openapi},
    "application.wadl": {"GET": openapi.show_wadl},
}


def methods_of(asked: Route) -> dict[str, Handler]:
    """Return the handlers of a URL by method. Raises ``RefusalError`` 404."""
    if asked.kind is RouteKind.DOCUMENT:
        found = _DOCUMENTS.get(asked.document)
        if found is None:
            raise refuse(404, "there is nothing at this URL")
        return found
    if asked.kind is RouteKind.PLACE and asked.place is not None and asked.place.environment is None:
        return _TENANT
    if asked.kind is RouteKind.PLACE and asked.place is not None and asked.place.data_source is None:
        return _ENVIRONMENT
    return _TABLE[asked.kind]


def public_methods_of(asked: Route) -> dict[str, Handler]:
    """Return the handlers of the public endpoint by method. Raises ``RefusalError`` 404."""
    own = asked.kind in _PUBLIC and asked.place is not None
    if not own and not (asked.kind is RouteKind.DOCUMENT and asked.document in _OPEN):
        raise refuse(404, "there is nothing at this URL")
    if asked.document in openapi.PUBLIC_DOCUMENTS:
        return {"GET": openapi.PUBLIC_DOCUMENTS[asked.document]}
    return {"GET": methods_of(asked)["GET"]}


def refused(refusal: RefusalError, request_id: str) -> ApiResponse:
    """Return a refusal in the one shape."""
    error = {
        "code": refusal.status,
        "title": HTTPStatus(refusal.status).phrase,
        "message": str(refusal),
        "request_id": request_id,
    }
    return _signed(json_response({"error": error}, refusal.status, refusal.headers), request_id)


def _signed(answer: ApiResponse, request_id: str) -> ApiResponse:
    """Return an answer with its request's id, and its status in RFC 9110's spelling, not in Werkzeug's capitals."""
    answer.headers[REQUEST_ID] = request_id
    answer.status = f"{answer.status_code} {HTTPStatus(answer.status_code).phrase}"
    return answer


@dataclass(frozen=True)
class TenantsApplication:
    """One endpoint as a WSGI callable; thread-safe; all its state is in the database.

    ``public``: only reading, and no word of other tenants (T12). ``buckets``: how much one client may ask.
    ``behind_proxy``: the client's address is what the proxy says. ``pages``: for people to look at.
    """

    context: Context
    access: Access
    clock: Clock
    policy: Policy
    public: bool = False
    buckets: TokenBuckets | None = None
    behind_proxy: bool = False
    pages: PageHandler | None = None

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        identity, method = new_call_id(), environ["REQUEST_METHOD"]
        began = self.clock.monotonic()
        asked: list[Route] = []
        current = CURRENT.set(LoggedRequest(identity))
        try:
            if self.behind_proxy:
                environ["REMOTE_ADDR"] = client_address(environ, behind_proxy=True)
            answer = _signed(self._answer(environ, method, identity, asked), identity)
            if answer.status_code >= 400 and method != "GET":
                drain(environ, 2 * self.context.limits.body)
            body = answer(environ, start_response)
            self._note(asked, method, identity, answer, self.clock.monotonic() - began)
            return body
        finally:
            # The thread's next lines are about no request, or about another one.
            CURRENT.reset(current)

    def close(self) -> None:
        """Give the database's connections back."""
        self.context.registry.close()

    def _answer(self, environ: WSGIEnvironment, method: str, identity: str, asked: list[Route]) -> ApiResponse:
        try:
            target = target_of(environ)
            if self.pages is not None and target.segments[0] == self.pages.root:
                return self.pages.answer(environ, method, target, identity, asked=asked, admit=self._seen)
            found = route(target.segments)
            asked.append(found)
            if found.place is not None:
                _name_tenant(found.place.tenant)
            caller = _NOBODY
            if not (is_open := found.kind is RouteKind.DOCUMENT and found.document in _OPEN):
                caller = self.access.caller(environ, found.place)
                if self.buckets is not None:
                    self.buckets.take(self._client(caller))
            methods = public_methods_of(found) if self.public else methods_of(found)
            handler = methods.get("GET" if method == "HEAD" else method)
            if handler is None:
                allowed = ", ".join(sorted({*methods, "HEAD"} if "GET" in methods else methods))
                raise refuse(405, f"{method[:20]} isn't possible here, but {allowed}", ("Allow", allowed))
            if not is_open:
                caller = self._admitted(caller, found, method, target.query)
            request = TenantRequest(environ, method, found, target.query, caller, identity, self.clock)
            return handler(self.context, request)
        except RefusalError as refusal:
            if refusal.status >= 500:
                log.warning("%s", refusal.what, exc_info=refusal.__cause__)
            return refused(refusal, identity)
        except Exception:
            log.exception("a fault of the service's own")
            return refused(refuse(500, FAILED), identity)

    def _client(self, caller: Caller) -> str:
        """Return who shares a bucket: on the public endpoint a tenant's users, on the admin one a user."""
        if not self.public:
            return caller.name
        return f"tenant {caller.tenant}" if caller.tenant is not None else f"project {caller.project}"

    def _admitted(self, caller: Caller, asked: Route, method: str = "GET", query: str | None = None) -> Caller:
        """Return the caller as this endpoint takes it. Raises ``RefusalError`` 403, alike for all others'."""
        rule = rule_of(asked, method, query, public=self.public)
        own = False
        if asked.place is not None:
            if caller.tenant is not None:
                own = caller.tenant == asked.place.tenant
            elif self.policy.asks_for_own(rule):
                own = self._owns(caller, asked.place.tenant)
        if not self.policy.allows(rule, caller, own=own):
            if self.public:
                raise refuse(403, "this is not a tenant of the token's project, or isn't allowed to it")
            raise refuse(403, f"this endpoint is for operators: the policy's rule {rule} doesn't let this user in")
        admin = not self.public and self.policy.allows(OPERATOR, caller, own=own)
        return caller if caller.admin is admin else replace(caller, admin=admin)

    def _seen(self, caller: Caller, shown: Route, query: str | None) -> Caller:
        """Return the caller of a page: who may ask the API for what it shows. Raises ``RefusalError`` 403, 429."""
        if shown.place is not None:
            _name_tenant(shown.place.tenant)
        if self.buckets is not None:
            self.buckets.take(self._client(caller))
        return self._admitted(caller, shown, "GET", query)

    def _owns(self, caller: Caller, tenant: str) -> bool:
        # Compared here, not by the policy's text comparison: there no project would be the project called None.
        if caller.project is None:
            return False
        found = self.context.registry.read(lambda connection: find_tenant(connection, tenant))
        return caller.project == (tenant if found is None else found.project)

    def _note(self, asked: list[Route], method: str, identity: str, answer: ApiResponse, seconds: float) -> None:
        """Count a request and write its usage record (T14): it always names the tenant that the URL names."""
        place = asked[0].place if asked else None
        endpoint, tenant = "public" if self.public else "admin", None if place is None else place.tenant
        size = len(answer.data)
        if (meter := self.context.meter) is not None:
            meter.request(endpoint, method, status=answer.status_code, tenant=tenant, size=size, seconds=seconds)
        if not usage.isEnabledFor(logging.INFO):
            return
        record: dict[str, Any] = {
            "time": moment(int(self.clock.now().timestamp() * 1_000_000)),
            "request_id": identity,
            "endpoint": endpoint,
            "tenant": tenant,
            "path": None if place is None else place.path,
            "kind": asked[0].kind.value if asked else None,
            "method": method[:20],
            "status": answer.status_code,
            "bytes": size,
            "seconds": round(seconds, 6),
        }
        usage.info("%s", json.dumps(record))


def _name_tenant(tenant: str) -> None:
    line = CURRENT.get()
    if line is not None:
        line.tenant = tenant
