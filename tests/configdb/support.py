"""Parts that the client's tests share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from configdb_sync.errors import ConfigDBError
from configdb_sync.http.session import Timing
from configdb_sync.http.transport import HttpAnswer, HttpRequest

Scripted = HttpAnswer | ConfigDBError | Callable[[HttpRequest], HttpAnswer]

NODE = (("nodes", "46"),)


def timing(waits: list[float] | None = None) -> Timing:
    """Return surroundings that note waits in place of waiting, and draw the middle."""
    noted: list[float] = [] if waits is None else waits
    return Timing(sleep=noted.append, draw=lambda: 0.5, now=lambda: datetime(2026, 1, 1, tzinfo=UTC))


@dataclass
class FakeExchange:
    """Answers from a script; the last item is used for all that follow."""

    script: list[Scripted]
    base: str = "http://configdb.example"
    requests: list[HttpRequest] = field(default_factory=list)

    def send(self, request: HttpRequest) -> HttpAnswer:
        self.requests.append(request)
        item = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(item, ConfigDBError):
            raise item
        return item if isinstance(item, HttpAnswer) else item(request)

    def close(self) -> None:
        self.script = []

    @property
    def lines(self) -> list[str]:
        return [f"{request.method} {request.path}" for request in self.requests]


def json(status: int, body: str, **headers: str) -> HttpAnswer:
    """Return an answer with a JSON body; underscores in header names stand for hyphens."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return HttpAnswer(status, {"content-type": "application/json", **named}, body.encode())


def html(status: int) -> HttpAnswer:
    return HttpAnswer(status, {"content-type": "text/html"}, b"<html>no</html>")
