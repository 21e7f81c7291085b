"""A tenant's metadata and the body of a PUT (T4): the representation that GET gives. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from configdb_sync.web.refusals import refuse, shown

LONGEST_KEY = 255
LONGEST_VALUE = 1024
MOST = 64

IGNORED = frozenset(
    {"created_at", "updated_at", "resources", "resources_next", "resource_count", "links", "updatable", "project_id"}
)
"""Fields of a representation that a PUT may hold and that change nothing."""

_KNOWN = IGNORED | {"id", "metadata", "status", "status_details"}


@dataclass(frozen=True)
class TenantBody:
    """What a PUT says: the metadata, and the status fields that it repeats."""

    metadata: dict[str, str]
    told: dict[str, Any]


def read_body(body: Any, tenant: str) -> TenantBody:
    """Return what the JSON body of a PUT says. Raises ``RefusalError`` 400 that names the field."""
    fields = body.get("tenant", body) if isinstance(body, dict) else body
    if not isinstance(fields, dict) or (fields is not body and len(body) != 1):
        raise refuse(400, "the body must be an object: a tenant's representation")
    unknown = sorted(str(name) for name in fields if name not in _KNOWN)
    if unknown:
        raise refuse(400, f"a tenant has no field {shown(unknown[0])}")
    if "id" in fields and fields["id"] != tenant:
        raise refuse(400, f"the body's id is not that of the URL: {shown(fields['id'])}")
    told = {name: fields[name] for name in ("status", "status_details") if name in fields}
    return TenantBody(_metadata(fields.get("metadata", {})), told)


def _metadata(value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise refuse(400, "metadata must be an object of texts")
    if len(value) > MOST:
        raise refuse(400, f"metadata has {len(value)} keys, {MOST} are allowed")
    for key, text in value.items():
        if not isinstance(text, str):
            raise refuse(400, f"metadata {shown(key)} must be a text")
        for what, each, longest in (("key", key, LONGEST_KEY), ("value", text, LONGEST_VALUE)):
            if len(each) > longest:
                raise refuse(400, f"a metadata {what} has {len(each)} characters, {longest} are allowed")
            if "\0" in each or any("\ud800" <= one <= "\udfff" for one in each):
                raise refuse(400, f"the metadata {what} {shown(each)} holds NUL or half a surrogate pair")
        if not key:
            raise refuse(400, "a metadata key is empty")
    return dict(sorted(value.items()))
