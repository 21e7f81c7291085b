"""How a service refuses a request: one error, which the service answers in its own JSON shape."""

from __future__ import annotations

from dataclasses import dataclass, field

from configdb_sync.errors import ProductError

FAILED = "the service failed; its log tells more"
"""What a client is told of a fault of the service's own."""


@dataclass(eq=False)
class RefusalError(ProductError):
    """An answer of 3xx, 4xx or 5xx that ends a request. ``what`` is its text; ``headers`` go with it."""

    status: int = 500
    headers: tuple[tuple[str, str], ...] = field(default=())


def refuse(status: int, what: str, *headers: tuple[str, str]) -> RefusalError:
    """Return the refusal to raise."""
    return RefusalError(what, status=status, headers=headers)


def shown(value: object, limit: int = 80) -> str:
    """Return a name or a number from a request as it may stand in an error: quoted and cut."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= limit else f"{text[:limit]}..."
