"""Answers of the services: Werkzeug's responses, without the headers that these APIs don't have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from werkzeug.datastructures import Headers
from werkzeug.wrappers import Response

from configdb_sync import jsonvalues

HeaderLines = tuple[tuple[str, str], ...]


class ApiResponse(Response):
    """One answer; ``kind`` is the media type of a body, if there is one."""

    default_mimetype = None

    def __init__(
        self,
        status: int = 200,
        body: bytes = b"",
        headers: Iterable[tuple[str, str]] = (),
        kind: str = "application/json",
    ) -> None:
        super().__init__(body, status, list(headers), content_type=kind if body else None)

    def get_wsgi_headers(self, environ: Mapping[str, Any]) -> Headers:
        """Return the headers as WSGI has them. A 304 keeps Last-Modified, which Werkzeug would drop."""
        headers = super().get_wsgi_headers(dict(environ))
        if self.status_code == 304 and "Last-Modified" in self.headers:
            headers["Last-Modified"] = self.headers["Last-Modified"]
        return headers


def json_body(value: jsonvalues.Json) -> bytes:
    """Return a value as the body of an answer: compact JSON with a line end."""
    return jsonvalues.dumps(value).encode("ascii") + b"\n"


def json_response(value: jsonvalues.Json, status: int = 200, headers: HeaderLines = ()) -> ApiResponse:
    """Return an answer with a value as JSON."""
    return ApiResponse(status, json_body(value), headers)
