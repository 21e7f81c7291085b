"""Answers of the tenant API: bytes, a status and headers; one error shape with a request id."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from configdb_sync.web.refusals import RefusalError

REQUEST_ID = "X-Openstack-Request-Id"
Headers = tuple[tuple[str, str], ...]
_encoded = json.JSONEncoder(separators=(",", ":")).encode
_REASONS = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


@dataclass(frozen=True)
class Answer:
    """One answer; ``kind`` is the body's media type."""

    status: int
    body: bytes = b""
    headers: Headers = field(default=())
    kind: str = "application/json"

    @property
    def reason(self) -> str:
        """Status and phrase, as WSGI has them."""
        return _REASONS[self.status]

    def started(self, request_id: str, *, head: bool) -> tuple[list[tuple[str, str]], Iterable[bytes]]:
        """Return headers and body as WSGI has them; neither 204, 304 nor HEAD has a body, whatever the server does."""
        headers = [*self.headers, (REQUEST_ID, request_id)]
        if self.status in {204, 304}:
            return headers, ()
        headers.append(("Content-Length", str(len(self.body))))
        if self.body:
            headers.append(("Content-Type", self.kind))
        return headers, () if head else (self.body,)


def as_json(value: Any) -> bytes:
    """Return a value as an answer's body."""
    return _encoded(value).encode("ascii") + b"\n"


def json_answer(value: Any, status: int = 200, headers: Headers = ()) -> Answer:
    """Return a value as JSON."""
    return Answer(status, as_json(value), headers)


def refused(refusal: RefusalError, request_id: str) -> Answer:
    """Return a refusal in the one shape."""
    phrase = HTTPStatus(refusal.status).phrase
    error = {"code": refusal.status, "title": phrase, "message": str(refusal), "request_id": request_id}
    return json_answer({"error": error}, refusal.status, refusal.headers)
