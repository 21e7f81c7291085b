"""New content for a file: only what must change does, and all of it can be taken back to the byte (U10, U18).

Rules:

* The file *as the node wrote it* is the file with every kept text put back. What is written differs from it in those
  top-level keys that get another value, in keys that it doesn't have (they are appended), and in keys with an
  alias into one of these, which are written out. Their own texts are ``kept``; "" stands for a key that wasn't there.
* Where that can't be done key by key (a root in flow style, ``? `` keys, a key that stands twice, merge keys at the
  top, a key that is taken out), the whole of the node's text is kept under the key ``""`` (``WHOLE``), alone. A
  top-level key that is itself empty is never kept any other way, so the two can't be confused.
* A kept text belongs to its key and to what was written then: it counts as long as just that text stands there,
  wherever the key is by now and whatever the node did to others. Else the node wrote the key anew (or the file, for a
  whole text), and what stands there now is its own.
* Types that JSON lacks come from the node's own text at the same place, then from the file's present text, then from
  the given marks; the rule is in ``marks``.
* The new content is read again and must hold the target, type for type.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from configdb_sync.errors import DocumentError
from configdb_sync.hiera.dumper import Style, block, check
from configdb_sync.hiera.errors import fault
from configdb_sync.hiera.file_text import FileText
from configdb_sync.hiera.marks import to_json, typed, typed_key
from configdb_sync.jsonvalues import Json, same

WHOLE = ""
"""The key of ``Rewrite.kept`` under which a file's whole text stands."""


@dataclass(frozen=True)
class KeptText:
    """The node's own text of what a write replaced ("" for a key that wasn't there).

    ``written`` are the sha256 (hex) of the texts that we wrote in its place: one, or two while a write is unconfirmed.
    """

    text: str = field(repr=False)
    written: tuple[str, ...]

    def covered_by(self, text: str) -> bool:
        """Tell whether ``text``, which stands in its place now, is one that we wrote there."""
        return _sha256(text) in self.written


def either(one: Mapping[str, KeptText], other: Mapping[str, KeptText]) -> dict[str, KeptText]:
    """Return the texts kept for a file that may be in either of two states; ``other`` is the later one."""
    both = {
        key: KeptText(other[key].text, (*kept.written, *other[key].written))
        for key, kept in one.items()
        if key in other
    }
    return {**one, **other, **both}


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@dataclass(frozen=True)
class Rewrite:
    """A file's new content and the node's own texts of what it replaced: by top-level key, or all under ``WHOLE``."""

    raw: bytes = field(repr=False)
    kept: Mapping[str, KeptText] = field(repr=False)


class Document(Protocol):
    """What is needed of a document here."""

    @property
    def raw(self) -> bytes:
        """The file's bytes."""

    @property
    def values(self) -> Mapping[str, Json]:
        """The JSON form."""

    def type_marks(self) -> Mapping[str, Json]:
        """The types that JSON lacks, by top-level key."""


class Files(Protocol):
    """Reads files and finds their layouts."""

    def read(self, raw: bytes) -> Document:
        """Return the document; raises ``DocumentError``."""

    def file_text(self, raw: bytes) -> FileText | None:
        """Return the layout, None for a file that can only be written as a whole."""


@dataclass(frozen=True, slots=True)
class Task:
    """What a file is to hold, and what tells its types: the first of ``typing`` that has the key, or that marks it."""

    files: Files
    target: Mapping[str, Json]
    own: Document | None
    typing: tuple[Mapping[str, Json], ...]

    def marks_of(self, key: str) -> Mapping[str, Json]:
        """Return ``{"key": KIND, "value": MARKS}`` for a top-level key."""
        if self.own is not None and key in self.own.values:
            found = self.own.type_marks().get(key)
        else:
            found = next((marks[key] for marks in self.typing if key in marks), None)
        return found if isinstance(found, Mapping) else {}

    def render(self, key: str, style: Style, column: int = 0) -> str:
        """Return the lines of a top-level key."""
        return rendered(key, self.target[key], self.marks_of(key), style, column)


def rendered(key: str, value: Json, marks: Mapping[str, Json], style: Style, column: int) -> str:
    """Return the lines of a top-level key, the last line end left out."""
    return block(typed_key(key, marks.get("key")), typed(value, marks.get("value")), style, column)


def holds(document: Document, target: Mapping[str, Json]) -> bool:
    """Tell whether a document's values are ``target``, order aside."""
    return same(dict(document.values), dict(target))


def exchanged(task: Task, own: Document) -> Rewrite:
    """Return the node's own file with the target in it, and what was replaced. Raises ``DocumentError``."""
    if holds(own, task.target):
        return Rewrite(own.raw, {})
    layout = task.files.file_text(own.raw)
    found = None if layout is None else _by_key(task, own, layout)
    if found is not None:
        texts = {key: kept.text for key, kept in found.kept.items()}
        whole = WHOLE in found.kept or put_back(task.files, found.raw, texts) != own.raw.decode("utf-8")
        return _kept_whole(own, found.raw) if whole else found
    style = Style() if layout is None else replace(layout.style, newline="\n")
    return _kept_whole(own, written_whole(task, style))


def _kept_whole(own: Document, raw: bytes) -> Rewrite:
    return Rewrite(raw, {WHOLE: KeptText(own.raw.decode("utf-8"), (_sha256(raw.decode("utf-8")),))})


def written_whole(task: Task, style: Style) -> bytes:
    """Return the bytes of a file that holds the target and nothing else. Raises ``DocumentError``."""
    blocks = [task.render(key, style) for key in task.target]
    text = "\n".join(["---", *blocks, ""]) if blocks else "--- {}\n"
    raw = text.encode("utf-8")
    if not _reads_as(task, task.files.read(raw), {}, set(task.target)):
        raise fault("Ruby would read other data from the text that would be written")
    return raw


def put_back(files: Files, raw: bytes, kept: Mapping[str, str]) -> str | None:
    """Return a file's text with the kept texts of single keys put back, None where its keys can't be told apart."""
    layout = files.file_text(raw)
    if layout is None:
        return None
    places = {key: layout.indexes(key) for key in kept}
    if any(len(indexes) != 1 for indexes in places.values()):
        return None
    layout = layout.exchanged({places[key][0]: text for key, text in kept.items() if text})
    for index in sorted((places[key][0] for key, text in kept.items() if not text), reverse=True):
        layout = layout.removed(index)
    return layout.text()


def _by_key(task: Task, own: Document, layout: FileText) -> Rewrite | None:
    """Return the file with single keys exchanged, None where that doesn't give the target."""
    changed = {key for key in task.target if key not in own.values or not same(own.values[key], task.target[key])}
    places = {index for index, place in enumerate(layout.places) if place.key in changed}
    gone = {index for index, place in enumerate(layout.places) if place.key not in task.target} - {
        index for index, place in enumerate(layout.places) if place.key is None
    }
    texts: dict[int, str] = {}
    kept: dict[str, KeptText] = {}
    for index in sorted(places | _users(layout, places | gone)):
        key = layout.places[index].key
        if key is None or len(layout.indexes(key)) > 1:
            return None
        texts[index] = task.render(key, layout.style, layout.column)
        kept[key] = KeptText(layout.places[index].text, (_sha256(texts[index]),))
    result = layout.exchanged(texts)
    for index in sorted(gone, reverse=True):
        result = result.removed(index)
    for key in task.target:
        if key in changed and not layout.indexes(key):
            text = task.render(key, layout.style, layout.column)
            kept[key] = KeptText("", (_sha256(text),))
            result = result.appended(key, text)
    raw = result.text().encode("utf-8")
    return Rewrite(raw, kept) if result.places and _becomes(task, raw, own, set(kept)) else None


def _users(layout: FileText, changed: set[int]) -> set[int]:
    """Return the places that have an alias into a changed one, and into these, and so on."""
    found: set[int] = set()
    while True:
        touched = changed | found
        more = {index for index, place in enumerate(layout.places) if index not in touched and place.uses & touched}
        if not more:
            return found
        found |= more


def _becomes(task: Task, raw: bytes, own: Document, written: set[str]) -> bool:
    try:
        return _reads_as(task, task.files.read(raw), own.type_marks(), written)
    except DocumentError:
        return False


def _reads_as(task: Task, found: Document, before: Mapping[str, Json], written: set[str]) -> bool:
    """Tell whether a document holds the target: written keys with the types meant, the others with those before."""
    if not holds(found, task.target):
        return False
    marks = found.type_marks()
    return all(
        (marks.get(key) or {}) == (_meant(task, key) if key in written else before.get(key) or {})
        for key in task.target
    )


def _meant(task: Task, key: str) -> Json:
    marks = task.marks_of(key)
    name = typed_key(key, marks.get("key"))
    below = to_json(typed(task.target[key], marks.get("value")))[1]
    found = {} if isinstance(name, str) else {"key": name.kind}
    return found if below is None else {**found, "value": below}


__all__ = ["WHOLE", "KeptText", "Rewrite", "created", "either", "rewritten"]


def created(files: Files, target: Mapping[str, Json], marks: Mapping[str, Json]) -> bytes:
    """Return the bytes of a new file. Raises ``DocumentError``."""
    check(dict(target))
    return written_whole(Task(files, target, None, (marks,)), Style())


def rewritten(
    files: Files, raw: bytes, target: Mapping[str, Json], kept: Mapping[str, KeptText], marks: Mapping[str, Json]
) -> Rewrite:
    """Return the new content of the file ``raw`` and what is kept of it. Raises ``DocumentError``."""
    present = files.read(raw)
    known = present.values
    check({key: value for key, value in target.items() if key not in known or known[key] is not value})
    own = _own(files, present, kept)
    return exchanged(Task(files, target, own, (present.type_marks(), marks)), own)


def _own(files: Files, present: Document, kept: Mapping[str, KeptText]) -> Document:
    """Return the document as the node wrote it: the present one, with what we know that we replaced put back."""
    if WHOLE in kept and kept[WHOLE].covered_by(present.raw.decode("utf-8")):
        whole = _read(files, kept[WHOLE].text)
        if whole is not None:
            return whole
    layout = files.file_text(present.raw)
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
