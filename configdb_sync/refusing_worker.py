"""gunicorn's worker with threads, whose own refusals (a broken request, one too long) have the service's shape."""

from __future__ import annotations

from typing import Any

from gunicorn import util
from gunicorn.workers.gthread import ThreadWorker


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn has no types
    """Asks the application (``serving.Gunicorn``) what to answer with where gunicorn refuses a request by itself."""

    def handle_error(self, req: Any, client: Any, addr: Any, exc: BaseException) -> None:
        """Log the error as gunicorn does, and answer in the service's shape."""
        refusal = self.app.refusal
        if refusal is None:
            super().handle_error(req, client, addr, exc)
            return
        told = _Told()
        super().handle_error(req, told, addr, exc)
        status = told.status
        if status is None:
            return
        head, body = refusal(status)
        try:
            util.write_nonblock(client, head + body)
        except OSError:
            self.log.debug("a client left before it was refused")


class _Told:
    """Stands for the client's socket: what gunicorn would have answered with."""

    def __init__(self) -> None:
        self.status: int | None = None

    def gettimeout(self) -> float:
        return 0.0

    def setblocking(self, _flag: object) -> None:
        pass

    def send(self, data: bytes) -> int:
        self.sendall(data)
        return len(data)

    def sendall(self, data: bytes) -> None:
        if self.status is None:
            self.status = int(data.split(b" ", 2)[1])
