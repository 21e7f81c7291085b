"""Log lines, as text or as JSON, one object a line: when, how bad, what, and of which request and tenant (T14).

Whoever logs while a request is answered, a library too, is at work on it: the request is looked up when the line is
made, in the thread that logs. Threads that work for a request run in a copy of its context.
"""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass
class Asked:
    """The request that this thread is at work on; the tenant is known once the URL has been read."""

    request_id: str
    tenant: str | None = None


CURRENT: ContextVar[Asked | None] = ContextVar("configdb_sync_tenants_request", default=None)


class TextFormatter(logging.Formatter):
    """Makes a line of text: level, the request and its tenant, or the service where there is no request; logger."""

    def __init__(self, service: str) -> None:
        super().__init__()
        self._service = service

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  logging's own name
        """Return the line, without what is told of an exception."""
        asked = CURRENT.get()
        about = self._service
        if asked is not None:
            tenant = "no tenant" if asked.tenant is None else f"tenant {asked.tenant!a}"
            about = f"{asked.request_id} {tenant}"
        return f"{record.levelname} {about} {record.name}: {record.message}"


class JsonFormatter(logging.Formatter):
    """Makes one line of ASCII of a record, whatever it holds. ``more`` stands in every line."""

    def __init__(self, **more: str) -> None:
        super().__init__()
        self._more = more

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        time = datetime.fromtimestamp(record.created, UTC).replace(tzinfo=None)
        line: dict[str, Any] = {
            "time": f"{time.isoformat(timespec='microseconds')}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
            **self._more,
        }
        asked = CURRENT.get()
        if asked is not None:
            line |= {"request_id": asked.request_id, "tenant": asked.tenant}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def use(formatter: logging.Formatter) -> None:
    """Have the lines on standard error made by this one, warnings of libraries among them."""
    logging.captureWarnings(True)
    for handler in logging.getLogger().handlers:
        if type(handler) is logging.StreamHandler:
            handler.setFormatter(formatter)
