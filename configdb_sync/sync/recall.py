"""Which record holds for a document: our own, the one that ConfigDB's digests tell, or another environment's (U18)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace

from configdb_sync.jsonvalues import EMPTY_DIGEST, Document, same
from configdb_sync.sync.digests import FROM_NAILGUN, from_json, reconciled, recovered, to_json
from configdb_sync.sync.merge import HiddenKey, equal, key_value
from configdb_sync.sync.records import Record
from configdb_sync.sync.stored import StoredNode
from configdb_sync.sync.work import Subject


@dataclass(frozen=True)
class NodeRecords:
    """What is remembered of one node, by data source.

    ``own`` are our records of it in this environment, ``elsewhere`` those of other environments that are newer,
    ``stored`` what ConfigDB has.
    """

    own: Mapping[str, Record]
    elsewhere: Mapping[str, Record]
    stored: StoredNode

    @functools.cached_property
    def unknown(self) -> bool:
        """Whether nothing is remembered of the node in this environment."""
        return not self.own and not self.stored.records()

    @functools.cached_property
    def _agreed(self) -> bool:
        return self.stored.agrees({name: to_json(record) for name, record in self.own.items()})

    @functools.cached_property
    def _restored(self) -> bool:
        return any(record.restored for record in self.own.values())

    def told(self, subject: Subject) -> Subject:
        """Return the subject with the record to go on with."""
        own, elsewhere = self.own.get(subject.data_source), self.elsewhere.get(subject.data_source)
        subject = replace(subject, record=own if self._agreed else recall(own, subject, self.stored))
        subject = doubted(subject, self.stored, restored=self._restored)
        file = subject.file
        if elsewhere is not None and file is not None and (own is None or file.sha256 not in own.files):
            subject = moved(subject, elsewhere, file.sha256)
        return written_over(subject)


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


def moved(subject: Subject, former: Record, sha256: str) -> Subject:
    """Return the subject of a file (with this digest) that lay in another environment before, with that one's record.

    If the file is as that environment left it, it is what the record says. Else the keys that still show its
    writing are ambiguous: the node may have taken its files along, or have been installed anew with such values.
    """
    record, found = subject.record, {} if subject.document is None else subject.document.values
    if sha256 in former.files:
        return replace(subject, record=replace(former, values="" if record is None else record.values))
    known = record or Record(values="", files=(sha256,))
    doubtful = {
        key: HiddenKey(hidden.values, ())
        for key, hidden in former.hidden.items()
        if _shows(hidden, found, key) and not (key in known.hidden and _shows(known.hidden[key], found, key))
    }
    if not doubtful:
        return subject
    keys = dict.fromkeys([*(found if subject.strange else ()), *known.unsettled, *doubtful])
    kept, hidden = {**known.kept, **former.kept}, {**known.hidden, **doubtful}
    return replace(subject, record=replace(known, hidden=hidden, kept=kept, unsettled=tuple(keys)))


def _shows(hidden: HiddenKey, found: Document, key: str) -> bool:
    return key in found and not equal(key_value(hidden, found[key]), found[key])


def written_over(subject: Subject) -> Subject:
    """Return the subject, whose file is the node's if we made it and the node wrote it since (U23)."""
    record, file = subject.record, subject.file
    if record is None or not record.created or (file is not None and file.sha256 in record.files):
        return subject
    return replace(subject, record=replace(record, created=False))


def changed_by_others(stored: str, meant: str, record: Record) -> bool:
    """Tell by its digest whether the stored document is neither what we sent last nor what we are to send."""
    return bool(record.values) and stored not in {record.values, meant, EMPTY_DIGEST}
