"""Which changes are withheld: those that are too large (F5, S01), and those of unknown origin. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from configdb_sync.errors import AmbiguousError, UnsafeError
from configdb_sync.jsonvalues import ABSENT, Document, Json
from configdb_sync.store.approvals import UnsafeChange
from configdb_sync.sync.decide import Decision
from configdb_sync.sync.node_work import ExaminedDocument
from configdb_sync.sync.plan import DocumentChange


def lost_keys(before: Document, after: Document, share: float) -> tuple[str, ...]:
    """Return the keys that ``after`` lacks if they are too many: all of them, or more than ``share`` of ``before``."""
    lost = tuple(key for key in before if key not in after)
    if lost and (not after or len(lost) > share * len(before)):
        return lost
    return ()


def unsafe_change(
    node: str,
    change: DocumentChange,
    decision: Decision,
    *,
    found: Document,
    stored: Mapping[str, Json],
    share: float,
) -> UnsafeChange | None:
    """Return what would take too much away, from ConfigDB or from the file; None if nothing does.

    ``found`` is the file's data, ``stored`` what ConfigDB holds (empty if nothing is sent), ``share`` what a document
    may lose of its keys. Keys that only an override had put there aren't lost.
    """
    lost, of = lost_keys(stored, decision.meant.values, share), len(stored)
    if not lost:
        own = {
            key: value
            for key, value in found.items()
            if key not in decision.hidden or decision.hidden[key].values is not ABSENT
        }
        lost, of = lost_keys(own, decision.target, share), len(own)
    if not lost:
        return None
    return UnsafeChange(
        node,
        change.data_source,
        change.path,
        lost,
        of,
        f"{change.digests.file} {change.digests.stored}",
        f"{change.digests.values} {change.digests.target}",
    )


def withheld(unsafe: UnsafeChange) -> UnsafeError:
    """Return the error of a change that the safety gate withholds."""
    return UnsafeError(
        f"{unsafe.reason} ({', '.join(unsafe.lost[:5])}{', ...' if len(unsafe.lost) > 5 else ''}); withheld",
        way_out="look at it with `configdb-sync plan`; to allow it, use `configdb-sync approve` with the digest shown",
    )


def ambiguous(subject: ExaminedDocument, key: str, node: str) -> AmbiguousError:
    """Return the error of a key for which it is unknown whose value is the newer one."""
    return AmbiguousError(
        f"the file and ConfigDB disagree on {key!r}, and it is unknown who changed it; neither was changed",
        way_out="run again with --accept-node or --accept-configdb",
        node=node,
        file=subject.path,
        data_source=subject.data_source,
    )
