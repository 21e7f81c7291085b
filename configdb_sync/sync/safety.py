"""The safety gate: which change of a document is too large to be believed (F5, S01). Pure."""

from __future__ import annotations

from configdb_sync.jsonvalues import Document


def lost_keys(before: Document, after: Document, share: float) -> tuple[str, ...]:
    """Return the keys that ``after`` lacks if they are too many: all of them, or more than ``share`` of ``before``."""
    lost = tuple(key for key in before if key not in after)
    if lost and (not after or len(lost) > share * len(before)):
        return lost
    return ()
