"""Which record holds for a document: our own, or the one that ConfigDB's digests tell (U18)."""

from __future__ import annotations

from dataclasses import replace

from configdb_sync.jsonvalues import EMPTY_DIGEST, same
from configdb_sync.sync.digests import FROM_NAILGUN, from_json, reconciled, recovered, to_json
from configdb_sync.sync.records import Record
from configdb_sync.sync.stored import StoredNode
from configdb_sync.sync.work import Subject


def recall(own: Record | None, subject: Subject, stored: StoredNode) -> Record | None:
    """Return the record to go on with, where our own ones and ConfigDB's of the node aren't the same."""
    kept = stored.records().get(subject.data_source)
    digests = from_json(kept)
    if digests is None or (own is not None and (kept == FROM_NAILGUN or same(to_json(own), kept))):
        return own
    file = None if subject.document is None else subject.document.values
    values = stored.values(subject.data_source) if digests.hidden else {}
    found = recovered(digests, file, values, None if subject.file is None else subject.file.sha256)
    return found if own is None else reconciled(own, digests, found, file)


def doubted(subject: Subject, stored: StoredNode, *, restored: bool) -> Subject:
    """Return the subject of a node whose records a backup brought back (``restored``).

    In a file that isn't as its record says, what is new may be the node's word or an override that was written after
    the backup: all its keys are left to be settled by their leaves. So they are where there is no record.
    """
    record, document = subject.record, subject.document
    if not restored or document is None or subject.file is None:
        return subject
    if record is None:
        return replace(subject, strange=True)
    if not record.restored or subject.file.sha256 in record.files:
        return subject
    keys = dict.fromkeys([*document.values, *stored.values(subject.data_source)])
    return replace(subject, record=replace(record, unsettled=tuple(keys)))


def written_over(subject: Subject) -> Subject:
    """Return the subject, whose file is the node's if we made it and the node wrote it since (U23)."""
    record, file = subject.record, subject.file
    if record is None or not record.created or (file is not None and file.sha256 in record.files):
        return subject
    return replace(subject, record=replace(record, created=False))


def changed_by_others(stored: str, meant: str, record: Record) -> bool:
    """Tell by its digest whether the stored document is neither what we sent last nor what we are to send."""
    return bool(record.values) and stored not in {record.values, meant, EMPTY_DIGEST}
