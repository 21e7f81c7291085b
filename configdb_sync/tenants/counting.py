"""Counters: how many data sources a tenant has, and an environment of it; the status of the whole follows (S1)."""

from __future__ import annotations

import sqlalchemy as sa

from configdb_sync.store import schema
from configdb_sync.tenants.rows import Holding, Tenant, Work
from configdb_sync.tenants.status import Counts


def count(work: Work, whole: Tenant | Holding, change: Counts, *, shown: bool = True, **more: object) -> None:
    """Add to the counters of a locked tenant, or of a holding of one; ``more`` are other columns.

    ``shown``: something changes that a move action holds. The row must be as it is stored.
    """
    table = schema.TENANTS if isinstance(whole, Tenant) else schema.HOLDINGS
    counts = whole.counts + change
    values: dict[str, object] = {
        "size": counts.size,
        "active": counts.active,
        "build": counts.build,
        "error": counts.error,
        "status": None if counts.status is None else counts.status.value,
        "status_details": counts.details,
        "version": table.c.version + 1,
        "tag": table.c.tag + int(shown),
        "updated": work.time,
        **more,
    }
    work.connection.execute(sa.update(table).where(table.c.number == whole.number).values(values))
