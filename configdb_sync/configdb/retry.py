"""When a request is sent again, and after how long: a pure decision (U13)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


@dataclass(frozen=True)
class RetryPolicy:
    """``attempts`` counts the first one. The wait doubles from ``base`` to ``cap`` seconds, half of it left to chance.

    A server that asks for more than ``patience`` seconds isn't waited for, and no attempt begins later than ``whole``
    seconds after the first.
    """

    attempts: int = 6
    base: float = 0.2
    cap: float = 5.0
    patience: float = 60.0
    whole: float = 150.0


@dataclass(frozen=True)
class Failure:
    """How one attempt ended: its status (None: the connection was lost) and the wait the server asked for (seconds)."""

    status: int | None
    retry_after: float | None = None


def pause(
    policy: RetryPolicy,
    failure: Failure,
    *,
    tried: int,
    elapsed: float,
    repeatable: bool,
    conflict: bool,
    draw: float,
) -> float | None:
    """Return the seconds to wait before the next attempt, or None where there is none.

    ``tried`` counts attempts made, from 1; ``elapsed`` are the seconds since the first began. ``repeatable``: the
    request may be carried out twice. ``conflict``: a 409 says that another writer was there at the same time
    (documents), not that the thing exists. ``draw`` is a random number of [0, 1).
    """
    if not repeatable or tried >= policy.attempts or not _passing(failure.status, conflict=conflict):
        return None
    asked = failure.retry_after or 0.0
    grown = min(policy.cap, policy.base * 2.0 ** (tried - 1))
    wait = max(grown * (0.5 + draw / 2), asked)
    return wait if asked <= policy.patience and elapsed + wait <= policy.whole else None


def _passing(status: int | None, *, conflict: bool) -> bool:
    if status is None or status == 429:
        return True
    return conflict if status == 409 else 500 <= status <= 599 and status not in {501, 505}


def ambiguous(status: int | None) -> bool:
    """Tell whether a change may have been made although the attempt failed so (S07): lost, or a gateway spoke."""
    return status in {None, 502, 504}


def retry_after(header: str | None, now: datetime) -> float | None:
    """Return the seconds that a ``Retry-After`` header asks for, from a number or an HTTP date; None if it asks
    nothing."""
    text = (header or "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())
