"""What GET shows of a tenant (T2), made of the rows that say all of it.

The rows are read anew for each request, so whatever another process wrote is seen; the same rows give the same answer,
and making it takes longer than reading them. The answers of the tenants asked for last are kept, few enough to need
little memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from configdb_sync.tenants import views
from configdb_sync.tenants.answers import Headers, as_json
from configdb_sync.tenants.listing import Page, Values, metadata_of, tenant_and_environments
from configdb_sync.tenants.rows import Holding, Tenant, there

_KEPT = 256
_MOST_ROWS = 10
_LONGEST_METADATA = 8192


@dataclass(frozen=True)
class Shown:
    """A tenant with a page of its environments, and its whole representation: entity tag, headers, body."""

    tenant: Tenant
    page: Page[Holding]
    etag: str
    headers: Headers
    body: bytes


def shown(rows: Values, tenant: str, limit: int) -> Shown:
    """Return what the rows of a tenant show (``listing.tenant_rows``). Raises ``RefusalError`` 404, 410."""
    if not rows:
        there(None, tenant)
    small = len(rows) <= _MOST_ROWS and len(metadata_of(rows)) <= _LONGEST_METADATA
    found = _kept(rows, limit) if small else _made(rows, limit)
    there(found.tenant, tenant)
    return found


def _made(rows: Values, limit: int) -> Shown:
    tenant, page = tenant_and_environments(rows, limit)
    etag = tenant.etag
    headers = views.state_headers(tenant.id, tenant, etag, tenant.counts.size)
    return Shown(tenant, page, etag, headers, as_json(views.tenant_view(tenant, page, limit)))


_kept = lru_cache(maxsize=_KEPT)(_made)
