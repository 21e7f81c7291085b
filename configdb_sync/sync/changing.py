"""How the decision on one document shows in the plan: changed keys, digests, no values (U20)."""

from __future__ import annotations

from configdb_sync.jsonvalues import EMPTY_DIGEST
from configdb_sync.masking import Masker
from configdb_sync.sync.decide import Decision, Write
from configdb_sync.sync.diff import Change, changes
from configdb_sync.sync.plan import Digests, DocumentChange
from configdb_sync.sync.stored import StoredNode
from configdb_sync.sync.work import Subject


def change_of(
    subject: Subject, stored: StoredNode, before_digest: str, decision: Decision, masker: Masker
) -> DocumentChange:
    """Return what the plan says of a document; ``before_digest`` is the one of its stored values."""
    name, meant = subject.data_source, decision.meant
    upload: tuple[Change, ...] = ()
    written: tuple[Change, ...] = ()
    if before_digest != meant.digest:
        upload = changes(stored.raw_values(name), meant.values, masker)
    if decision.write is not Write.NONE:
        found = {} if subject.document is None else subject.document.values
        written = changes(found, decision.target, masker)
    return DocumentChange(
        data_source=name,
        path=subject.path,
        first=before_digest == EMPTY_DIGEST,
        upload=upload,
        write=decision.write,
        written=written,
        digests=Digests(
            file=None if subject.file is None else subject.file.sha256,
            stored=before_digest,
            effective_before=stored.effective_digest(name),
            values=meant.digest,
            target=decision.effective_digest,
        ),
    )
