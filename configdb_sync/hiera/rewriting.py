"""New content for a file: only what must change does, and all of it can be taken back to the byte (U10, U18).

Rules:

* The file *as the node wrote it* is the file with every kept text put back. What is written differs from it in those
  top-level keys whose value is to be another one, in keys that it doesn't have (they are appended), and in keys with an
  alias into one of these, which are written out. Their own texts are ``kept``; "" stands for a key that wasn't there.
* Where that can't be done key by key (a root in flow style, ``? `` keys, a key that stands twice, merge keys at the
  top, a key that is taken out), the whole of the node's text is kept under the key ``""`` (``WHOLE``), alone. A
  top-level key that is itself empty is never kept any other way, so the two can't be confused.
* A kept text counts as long as what stands in its place is what we would have written there. Where it isn't, the node
  wrote the key anew (or the file, for a whole text), and what stands there now is its own.
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
    Rewrite,
    Task,
    exchanged,
    put_back,
    rendered,
    written_whole,
)
from configdb_sync.jsonvalues import Json

__all__ = ["WHOLE", "Rewrite", "created", "rewritten"]


def created(files: Files, target: Mapping[str, Json], marks: Mapping[str, Json]) -> bytes:
    """Return the bytes of a new file. Raises ``DocumentError``."""
    check(dict(target))
    return written_whole(Task(files, target, None, (marks,)), Style())


def rewritten(
    files: Files, raw: bytes, target: Mapping[str, Json], kept: Mapping[str, str], marks: Mapping[str, Json]
) -> Rewrite:
    """Return the new content of the file ``raw`` and what is kept of it. Raises ``DocumentError``."""
    present = files.read(raw)
    known = present.values
    check({key: value for key, value in target.items() if key not in known or known[key] is not value})
    own = _own(files, present, kept)
    return exchanged(Task(files, target, own, (present.type_marks(), marks)), own)


def _own(files: Files, present: Document, kept: Mapping[str, str]) -> Document:
    """Return the document as the node wrote it: the present one, with what we know that we replaced put back."""
    if WHOLE in kept:
        whole = _read(files, kept[WHOLE])
        if whole is not None and _is_ours(files, present, whole):
            return whole
    layout = files.layout_of(present.raw)
    if layout is None:
        return present
    keys = {key: text for key, text in kept.items() if key != WHOLE and len(layout.indexes(key)) == 1}
    guess = _read(files, put_back(files, present.raw, keys))
    keys = _still_ours(files, present, guess or present, keys)
    return (_read(files, put_back(files, present.raw, keys)) if keys else None) or present


def _read(files: Files, text: str | None) -> Document | None:
    try:
        return None if text is None else files.read(text.encode("utf-8"))
    except (DocumentError, UnicodeEncodeError):
        return None


def _is_ours(files: Files, present: Document, own: Document) -> bool:
    """Tell whether the present file is what we make of the node's own one for the data that it holds."""
    try:
        return exchanged(Task(files, present.values, own, (present.type_marks(),)), own).raw == present.raw
    except DocumentError:
        return False


def _still_ours(files: Files, present: Document, guess: Document, kept: Mapping[str, str]) -> dict[str, str]:
    """Return the kept texts of those keys that stand in the file as we write them, where we write them.

    The indentation may be that of the present file or of the one with the texts put back (``guess``).
    """
    layout, other = files.layout_of(present.raw), files.layout_of(guess.raw)
    if layout is None or other is None:
        return {}
    marks = present.type_marks()
    found = {}
    at_end = True
    for place in reversed(layout.places):
        key = place.key
        text = None if key is None else kept.get(key)
        ours = False
        if key is not None and text is not None:
            texts = {
                rendered(key, present.values[key], marks.get(key) or {}, each.style, layout.column)
                for each in (layout, other)
            }
            ours = place.text in texts and (at_end or bool(text))
            if ours:
                found[key] = text
        # Keys that the node doesn't have are appended: before one of its own there is none of them.
        at_end = at_end and ours and not text
    return found
