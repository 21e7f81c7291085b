"""The safety gate: which change of a document is too large to be believed (F5, S01). Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

from configdb_sync.jsonvalues import Document, combine_digests


@dataclass(frozen=True)
class UnsafeChange:
    """One document's withheld change: which, why, and the digests of it before and after."""

    node: str
    data_source: str
    path: str
    lost: tuple[str, ...]
    of: int
    before: str
    after: str

    @property
    def reason(self) -> str:
        """Why it was withheld, in words."""
        return f"would remove {len(self.lost)} of {self.of} keys"


def lost_keys(before: Document, after: Document, share: float) -> tuple[str, ...]:
    """Return the keys that ``after`` lacks if they are too many: all of them, or more than ``share`` of ``before``."""
    lost = tuple(key for key in before if key not in after)
    if lost and (not after or len(lost) > share * len(before)):
        return lost
    return ()


def unsafe_digest(unsafe: Iterable[UnsafeChange]) -> str:
    """Return the digest (12 hex digits) that names exactly these changes, whatever their order."""
    whole = combine_digests(
        (
            f"{change.node}\n{change.data_source}",
            hashlib.sha256(f"{change.path}\n{change.before}\n{change.after}".encode()).hexdigest(),
        )
        for change in unsafe
    )
    return whole[:12]
