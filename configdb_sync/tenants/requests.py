"""A request to the tenant API as its handlers see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from configdb_sync import jsonvalues
from configdb_sync.clock import Clock
from configdb_sync.tenants.paths import ResourcePath, Route
from configdb_sync.web.access import Caller
from configdb_sync.web.refusals import refuse
from configdb_sync.web.requests import (
    Environ,
    Preconditions,
    content_coding,
    is_conditional,
    json_fault,
    media_type,
    parameters,
    read_body,
    read_preconditions,
)


@dataclass(frozen=True)
class TenantRequest:
    """A request that was let in."""

    environ: Environ
    method: str
    route: Route
    query: str | None
    caller: Caller
    identity: str
    clock: Clock

    @property
    def place(self) -> ResourcePath:
        """The tenant, environment or data source that the URL names."""
        assert self.route.place is not None
        return self.route.place

    def parameters(self, *known: str) -> dict[str, str]:
        """Return the query's parameters. Raises ``RefusalError`` 400 for others, and for one given twice."""
        return parameters(self.query, frozenset(known))

    @property
    def conditional(self) -> bool:
        """Whether it has If-Match or If-None-Match."""
        return is_conditional(self.environ)

    def conditions(self) -> Preconditions:
        """Return If-Match and If-None-Match. Raises ``RefusalError`` 400 for malformed ones."""
        return read_preconditions(self.environ)


def read_json(environ: Environ, limit: int) -> Any:
    """Return the body's JSON value, ``...`` if there is no body. Raises ``RefusalError`` 400, 411, 413, 415."""
    content = read_body(environ, limit)
    if not content:
        return ...
    if media_type(environ) not in {"", "application/json"}:
        raise refuse(415, "a body must be of type application/json")
    if content_coding(environ):
        raise refuse(415, "a body must come without Content-Encoding")
    try:
        return jsonvalues.loads(content.decode("utf-8"), once=True)
    except ValueError as error:
        raise refuse(400, f"the body isn't JSON as it is taken here: {json_fault(error)}") from None


def refuse_body(environ: Environ) -> None:
    """Raise ``RefusalError`` 400 if the request has a body; a Content-Type with an empty one is fine."""
    if read_body(environ, 1024 * 1024):
        raise refuse(400, "this request has no body")


def wants_xml(environ: Environ) -> bool:
    """Tell whether Accept prefers XML to JSON; without a word JSON is given."""
    best = {"xml": 0.0, "json": 0.0}
    accept = environ.get("HTTP_ACCEPT") or "*/*"
    for part in accept.split(","):
        kind, *options = (one.strip().lower() for one in part.split(";"))
        quality = 1.0
        for option in options:
            name, _, value = option.partition("=")
            if name.strip() == "q":
                try:
                    quality = min(max(float(value), 0.0), 1.0)
                except ValueError:
                    quality = 0.0
        if kind in {"application/xml", "text/xml"}:
            best["xml"] = max(best["xml"], quality)
        elif kind in {"application/json", "application/*", "*/*"}:
            best["json"] = max(best["json"], quality)
    return best["xml"] > best["json"] or (
        best["xml"] == best["json"] > 0 and accept.strip().startswith("application/xml")
    )
