"""Log lines as JSON, one object a line: when, how bad, what, and of which request and tenant (T14)."""

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
    """Have the lines on standard error made by this one."""
    for handler in logging.getLogger().handlers:
        if type(handler) is logging.StreamHandler:
            handler.setFormatter(formatter)
