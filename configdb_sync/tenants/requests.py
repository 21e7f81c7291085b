"""One request as the handlers see it: what WSGI gives, checked where servers differ or get it wrong."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from configdb_sync.clock import Clock
from configdb_sync.tenants.lifecycle import Conditions
from configdb_sync.tenants.paths import Kind, Place, Route
from configdb_sync.web.refusals import RefusalError, refuse
from configdb_sync.web.requests import KEYS, Tags, Target, parameters, read_tags, read_target

Environ = Mapping[str, Any]


@dataclass(frozen=True)
class Caller:
    """Who calls. ``admin``: is told of other tenants (what it may do, the policy says). ``project``: of its token,
    None without one; ``tenant``: the one whose own token it has."""

    name: str
    admin: bool
    project: str | None = None
    tenant: str | None = None
    roles: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Request:
    """A request that was let in."""

    environ: Environ
    method: str
    route: Route
    query: str | None
    caller: Caller
    identity: str
    clock: Clock

    @property
    def time(self) -> int:
        """Now, as the clock has it: microseconds since 1970, UTC."""
        now = self.clock.now()
        return int(now.timestamp()) * 1_000_000 + now.microsecond

    @property
    def place(self) -> Place:
        """The tenant, environment or data source that the URL names."""
        assert self.route.place is not None
        return self.route.place

    @property
    def kind(self) -> Kind:
        """What the URL stands for."""
        return self.route.kind

    def parameters(self, *known: str) -> dict[str, str]:
        """Return the query's parameters. Raises ``RefusalError`` 400 for others, and for one given twice."""
        return parameters(self.query, frozenset(known))

    @property
    def conditional(self) -> bool:
        """Whether it has If-Match or If-None-Match."""
        return "HTTP_IF_MATCH" in self.environ or "HTTP_IF_NONE_MATCH" in self.environ

    def conditions(self) -> Conditions:
        """Return If-Match and If-None-Match. Raises ``RefusalError`` 400 for malformed ones."""
        return Conditions(
            _tags(self.environ, "If-Match", "HTTP_IF_MATCH"), _tags(self.environ, "If-None-Match", "HTTP_IF_NONE_MATCH")
        )


def target_of(environ: Environ) -> Target:
    """Return the request's target. Raises ``RefusalError``: 500 if the server doesn't give it raw, 400."""
    for key in KEYS:
        if key in environ:
            return read_target(environ[key])
    raise refuse(500, "this server gives no raw request target; see the documentation for those that do")


def address_of(environ: Environ, *, behind_proxy: bool) -> str:
    """Return the client's address; behind a proxy the one that the proxy itself added last to X-Forwarded-For."""
    told = str(environ.get("HTTP_X_FORWARDED_FOR", "")).rpartition(",")[2].strip() if behind_proxy else ""
    return told[:64] or str(environ.get("REMOTE_ADDR") or "")


def _tags(environ: Environ, name: str, key: str) -> Tags | None:
    # Asked by presence: an empty header is malformed, not absent.
    if key not in environ:
        return None
    try:
        return read_tags(name, environ[key])
    except ValueError as error:
        raise refuse(400, str(error)) from None


def read_body(environ: Environ, limit: int) -> bytes:
    """Return the body's bytes, empty if there is none. Raises ``RefusalError`` 400, 411, 413."""
    told = environ.get("CONTENT_LENGTH") or ""
    chunked = "HTTP_TRANSFER_ENCODING" in environ
    if chunked and not environ.get("wsgi.input_terminated"):
        raise refuse(411, "this server needs a Content-Length")
    if told and not (told.isascii() and told.isdigit()):
        raise refuse(400, "Content-Length is no number, or given twice")
    length = int(told) if told else 0
    if length > limit:
        raise refuse(413, f"the body is larger than {limit} bytes")
    content = _read(environ, limit + 1 if chunked else length)
    if len(content) > limit:
        raise refuse(413, f"the body is larger than {limit} bytes")
    if not chunked and len(content) < length:
        raise refuse(400, f"the body was cut: {len(content)} of {length} bytes came")
    return content


def _read(environ: Environ, wanted: int) -> bytes:
    parts = []
    try:
        while wanted > 0 and (part := environ["wsgi.input"].read(wanted)):
            parts.append(part)
            wanted -= len(part)
    except (OSError, ValueError):
        raise refuse(400, "the body was cut") from None
    return b"".join(parts)


def drain(environ: Environ, limit: int) -> None:
    """Read what is left of a refused request's body, up to a limit: a connection that is closed on it would be reset,
    and the client might never see the answer."""
    told = environ.get("CONTENT_LENGTH") or ""
    if told.isascii() and told.isdigit() and 0 < int(told) <= limit:
        with contextlib.suppress(RefusalError):
            _read(environ, int(told))


def read_json(environ: Environ, limit: int) -> Any:
    """Return the body's JSON value, ``...`` if there is no body. Raises ``RefusalError`` 400, 411, 413, 415."""
    content = read_body(environ, limit)
    if not content:
        return ...
    kind = environ.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
    if kind and kind != "application/json":
        raise refuse(415, "a body must be of type application/json")
    if environ.get("HTTP_CONTENT_ENCODING", "identity").strip().lower() not in {"", "identity"}:
        raise refuse(415, "a body must come without Content-Encoding")
    try:
        return json.loads(content.decode("utf-8"), object_pairs_hook=_once, parse_constant=_constant)
    except (ValueError, RecursionError) as error:
        raise refuse(400, f"the body isn't JSON as it is taken here: {str(error)[:100]}") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice")
    return found


def _constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")


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
