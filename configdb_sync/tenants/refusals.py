"""What the tenant API says no with: one class, one JSON shape, texts that name what is missing or wrong."""

from __future__ import annotations

from dataclasses import dataclass, field

from configdb_sync.errors import ProductError


@dataclass(eq=False)
class TenantRefusal(ProductError):  # noqa: N818  # a refusal is an answer, not a fault
    """An answer of 3xx, 4xx or 5xx that ends a request. ``headers`` go with it."""

    status: int = 500
    headers: tuple[tuple[str, str], ...] = field(default=())


def refuse(status: int, what: str, *headers: tuple[str, str]) -> TenantRefusal:
    """Return the refusal to raise."""
    return TenantRefusal(what, status=status, headers=headers)


def shown(value: object, limit: int = 80) -> str:
    """Return a name from a request as it may stand in an error: quoted and cut."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= limit else f"{text[:limit]}..."
