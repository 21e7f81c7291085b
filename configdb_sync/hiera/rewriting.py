"""New content for a file: only what must change does, and all of it can be taken back to the byte (U10, U18).

Rules:

* The file *as the node wrote it* is the file with every kept text put back. What is written differs from it in those
  top-level keys whose value is to be another one, in keys that it doesn't have (they are appended), and in keys with an
  alias into one of these, which are written out. Their own texts are ``kept``; "" stands for a key that wasn't there.
* Where that can't be done key by key (a root in flow style, ``? `` keys, a key that stands twice, merge keys at the
  top, a key that is taken out), the whole of the node's text is kept under the key ``""`` (``WHOLE``), alone. A
  top-level key that is itself empty is never kept any other way, so the two can't be confused.
* A kept text belongs to its key and to what was written then: it counts as long as just that text stands there,
  wherever the key is by now and whatever the node did to others. Else the node wrote the key anew (or the file, for a
  whole text), and what stands there now is its own.
* Types that JSON lacks come from the node's own text at the same place, then from the file's present text, then from
  the given marks; the rule is in ``marks``.
* What comes out is read again and must hold the target, type for type.
"""

from __future__ import annotations

from collections.abc import Mapping

from configdb_sync.errors import DocumentError
from configdb_sync.hiera.dumper import Style, check
from configdb_sync.hiera.exchanging import (
    WHOLE,
    Document,
    Files,
    Kept,
    Rewrite,
    Task,
    either,
    exchanged,
    put_back,
    written_whole,
)
from configdb_sync.jsonvalues import Json

__all__ = ["WHOLE", "Kept", "Rewrite", "created", "either", "rewritten"]


def created(files: Files, target: Mapping[str, Json], marks: Mapping[str, Json]) -> bytes:
    """Return the bytes of a new file. Raises ``DocumentError``."""
    check(dict(target))
    return written_whole(Task(files, target, None, (marks,)), Style())


def rewritten(
    files: Files, raw: bytes, target: Mapping[str, Json], kept: Mapping[str, Kept], marks: Mapping[str, Json]
) -> Rewrite:
    """Return the new content of the file ``raw`` and what is kept of it. Raises ``DocumentError``."""
    present = files.read(raw)
    known = present.values
    check({key: value for key, value in target.items() if key not in known or known[key] is not value})
    own = _own(files, present, kept)
    return exchanged(Task(files, target, own, (present.type_marks(), marks)), own)


def _own(files: Files, present: Document, kept: Mapping[str, Kept]) -> Document:
    """Return the document as the node wrote it: the present one, with what we know that we replaced put back."""
    if WHOLE in kept and kept[WHOLE].covered_by(present.raw.decode("utf-8")):
        whole = _read(files, kept[WHOLE].text)
        if whole is not None:
            return whole
    layout = files.layout_of(present.raw)
    if layout is None:
        return present
    ours = {
        place.key: kept[place.key].text
        for place in layout.places
        if place.key and place.key in kept and kept[place.key].covered_by(place.text)
    }
    own = _read(files, put_back(files, present.raw, ours))
    if own is not None:
        return own
    # One of them means nothing any more, such as an alias to what the node took out.
    fitting: dict[str, str] = {}
    for key, text in ours.items():
        found = _read(files, put_back(files, present.raw, {**fitting, key: text}))
        if found is not None:
            own, fitting = found, {**fitting, key: text}
    return own or present


def _read(files: Files, text: str | None) -> Document | None:
    try:
        return None if text is None else files.read(text.encode("utf-8"))
    except (DocumentError, UnicodeEncodeError):
        return None
