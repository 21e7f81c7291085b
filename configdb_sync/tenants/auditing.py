"""The audit trail (T15): every change, in the transaction that makes it."""

from __future__ import annotations

import json
from typing import Any

import sqlalchemy as sa

from configdb_sync.store import schema
from configdb_sync.tenants.rows import Work


def note(work: Work, tenant: str, path: str, action: str, **details: Any) -> None:
    """Add an entry; ``path`` is that below the tenant, ``details`` what can be shown of the change."""
    work.connection.execute(
        sa.insert(schema.AUDIT).values(
            time=work.time,
            tenant=tenant,
            path=path,
            action=action,
            actor=work.change.actor,
            origin=work.change.origin,
            request=work.change.request,
            details=json.dumps(details, sort_keys=True),
        )
    )


def post(work: Work, kind: str, environment: int, body: Any = None) -> None:
    """Note work on an environment in ConfigDB that is to follow this transaction."""
    work.connection.execute(
        sa.insert(schema.OUTBOX).values(
            kind=kind, environment=environment, body=json.dumps(body), noted=work.time, tries=0
        )
    )
