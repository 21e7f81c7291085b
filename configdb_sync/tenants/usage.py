"""Usage records (T14) summed for charge-back: by tenant and over a period. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

_READING = frozenset({"GET", "HEAD"})


@dataclass
class Sum:
    """What one tenant used. ``refused``: answers of 4xx and 5xx among the requests; ``bytes``: of answers."""

    requests: int = 0
    changes: int = 0
    refused: int = 0
    bytes: int = 0
    seconds: float = 0.0

    def add(self, record: dict[str, object]) -> None:
        """Count a record. Raises ``KeyError``, ``TypeError``, ``ValueError`` for one that is none."""
        status, size, seconds = int(str(record["status"])), int(str(record["bytes"])), float(str(record["seconds"]))
        self.requests += 1
        self.changes += record["method"] not in _READING
        self.refused += status >= 400
        self.bytes += size
        self.seconds += seconds

    def json(self) -> dict[str, int | float]:
        """Return it as JSON has it."""
        return {
            "requests": self.requests,
            "changes": self.changes,
            "refused": self.refused,
            "bytes": self.bytes,
            "seconds": round(self.seconds, 6),
        }


@dataclass
class Usage:
    """Sums by tenant; None is for requests that name no tenant. ``unreadable``: lines that are no records."""

    tenants: dict[str | None, Sum] = field(default_factory=dict)
    unreadable: int = 0

    def add(self, lines: Iterable[bytes], since: str | None = None, until: str | None = None) -> None:
        """Count the records of ``since <= time < until`` (ISO 8601 in UTC, or the beginning of one)."""
        for line in lines:
            try:
                record = json.loads(line)
                time, tenant = record["time"], record["tenant"]
                if not (isinstance(time, str) and (tenant is None or isinstance(tenant, str))):
                    raise TypeError
                if (since is not None and time < since) or (until is not None and time >= until):
                    continue
                found = Sum()
                found.add(record)
            except (ValueError, KeyError, TypeError, RecursionError):
                self.unreadable += 1
                continue
            self.tenants.setdefault(tenant, Sum()).add(record)

    def ordered(self) -> list[tuple[str | None, Sum]]:
        """Return tenants and sums, most requests first."""
        return sorted(self.tenants.items(), key=lambda item: (-item[1].requests, item[0] is None, item[0] or ""))
