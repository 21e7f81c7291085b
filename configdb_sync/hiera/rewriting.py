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
from typing import TYPE_CHECKING

from configdb_sync.errors import DocumentError
from configdb_sync.hiera.dumper import Style, block, check
from configdb_sync.hiera.errors import fault
from configdb_sync.hiera.file_text import FileText
from configdb_sync.hiera.marks import to_json, typed, typed_key
from configdb_sync.jsonvalues import Json, same

if TYPE_CHECKING:
    from configdb_sync.hiera.documents import HieraDocument, Reader

WHOLE = ""
"""The key of ``Rewrite.kept`` under which a file's whole text stands."""


@dataclass(frozen=True)
class KeptText:
    """The node's own text of what a write replaced ("" for a key that wasn't there).

    ``written`` are the sha256 (hex) of the texts that we wrote in its place: one, or two while a write is unconfirmed.
    """

    text: str = field(repr=False)
    written: tuple[str, ...]

    @classmethod
    def of(cls, text: str, written: str) -> KeptText:
        """Return the node's ``text``, in whose place ``written`` is written."""
        return cls(text, (_sha256(written),))

    def covered_by(self, text: str) -> bool:
        """Tell whether ``text``, which stands in its place now, is one that we wrote there."""
        return _sha256(text) in self.written


def either(one: Mapping[str, KeptText], other: Mapping[str, KeptText]) -> dict[str, KeptText]:
    """Return the texts kept for a file that may be in either of two states; ``other`` is the later one."""
    both = {key: replace(other[key], written=one[key].written + other[key].written) for key in one.keys() & other}
    return {**one, **other, **both}


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


@dataclass(frozen=True)
class Rewrite:
    """A file's new content and the node's own texts of what it replaced: by top-level key, or all under ``WHOLE``."""

    raw: bytes = field(repr=False)
    kept: Mapping[str, KeptText] = field(repr=False)


def created(reader: Reader, target: Mapping[str, Json], marks: Mapping[str, Json]) -> bytes:
    """Return the bytes of a new file. Raises ``DocumentError``."""
    check(dict(target))
    return _written_whole(_Task(reader, target, None, (marks,)), Style())


def rewritten(
    reader: Reader,
    present: HieraDocument,
    target: Mapping[str, Json],
    kept: Mapping[str, KeptText],
    marks: Mapping[str, Json],
) -> Rewrite:
    """Return the new content of a file and what is kept of it. Raises ``DocumentError``."""
    known = present.values
    check({key: value for key, value in target.items() if key not in known or known[key] is not value})
    own = _own(reader, present, kept)
    if _holds(own, target):
        return Rewrite(own.raw, {})
    task = _Task(reader, target, own, (present.type_marks(), marks))
    file = reader.file_text(own.raw)
    found = None if file is None else _by_key(task, own, file)
    whole = own.raw.decode("utf-8")
    if found is not None and WHOLE not in found.kept:
        texts = {key: one.text for key, one in found.kept.items()}
        if _put_back(reader.file_text(found.raw), texts) == whole:
            return found
    if found is None:
        raw = _written_whole(task, Style() if file is None else replace(file.style, newline="\n"))
    else:
        raw = found.raw
    return Rewrite(raw, {WHOLE: KeptText.of(whole, raw.decode("utf-8"))})


def _own(reader: Reader, present: HieraDocument, kept: Mapping[str, KeptText]) -> HieraDocument:
    """Return the document as the node wrote it: the present one, with what we know that we replaced put back."""
    if WHOLE in kept and kept[WHOLE].covered_by(present.raw.decode("utf-8")):
        whole = _read(reader, kept[WHOLE].text)
        if whole is not None:
            return whole
    file = reader.file_text(present.raw)
    if file is None:
        return present
    ours = {
        place.key: kept[place.key].text
        for place in file.places
        if place.key and place.key in kept and kept[place.key].covered_by(place.text)
    }
    own = _read(reader, _put_back(file, ours))
    if own is not None:
        return own
    # One of them means nothing any more, such as an alias to what the node took out.
    fitting: dict[str, str] = {}
    for key, text in ours.items():
        found = _read(reader, _put_back(file, {**fitting, key: text}))
        if found is not None:
            own, fitting = found, {**fitting, key: text}
    return own or present


def _put_back(file: FileText | None, kept: Mapping[str, str]) -> str | None:
    """Return a file's text with the kept texts of single keys put back, None where its keys can't be told apart."""
    if file is None:
        return None
    places = {key: file.indexes(key) for key in kept}
    if any(len(indexes) != 1 for indexes in places.values()):
        return None
    file = file.exchanged({places[key][0]: text for key, text in kept.items() if text})
    for index in sorted((places[key][0] for key, text in kept.items() if not text), reverse=True):
        file = file.removed(index)
    return file.text()


def _read(reader: Reader, text: str | None) -> HieraDocument | None:
    try:
        return None if text is None else reader.read(text.encode("utf-8"))
    except (DocumentError, UnicodeEncodeError):
        return None


@dataclass(frozen=True, slots=True)
class _Task:
    """What a file is to hold. ``typing`` gives its types: the first that has a key, unless the node's own has it."""

    reader: Reader
    target: Mapping[str, Json]
    own: HieraDocument | None
    typing: tuple[Mapping[str, Json], ...]

    def marks_of(self, key: str) -> Mapping[str, Json]:
        if self.own is not None and key in self.own.values:
            found = self.own.type_marks().get(key)
        else:
            found = next((marks[key] for marks in self.typing if key in marks), None)
        return found if isinstance(found, Mapping) else {}

    def render(self, key: str, style: Style, column: int = 0) -> str:
        """Return the lines of a top-level key, the last line end left out."""
        marks = self.marks_of(key)
        return block(typed_key(key, marks.get("key")), typed(self.target[key], marks.get("value")), style, column)

    def met(self, found: HieraDocument, before: Mapping[str, Json], written: set[str]) -> bool:
        """Tell whether a document holds the target: written keys with the types meant, others with those before."""
        if not _holds(found, self.target):
            return False
        marks = found.type_marks()
        return all(
            (marks.get(key) or {}) == (self._meant(key) if key in written else before.get(key) or {})
            for key in self.target
        )

    def _meant(self, key: str) -> Json:
        marks = self.marks_of(key)
        name = typed_key(key, marks.get("key"))
        below = to_json(typed(self.target[key], marks.get("value")))[1]
        found = {} if isinstance(name, str) else {"key": name.kind}
        return found if below is None else {**found, "value": below}


def _holds(document: HieraDocument, target: Mapping[str, Json]) -> bool:
    return same(dict(document.values), dict(target))


def _written_whole(task: _Task, style: Style) -> bytes:
    """Return the bytes of a file that holds the target and nothing else. Raises ``DocumentError``."""
    blocks = [task.render(key, style) for key in task.target]
    text = "\n".join(["---", *blocks, ""]) if blocks else "--- {}\n"
    raw = text.encode("utf-8")
    if not task.met(task.reader.read(raw), {}, set(task.target)):
        raise fault("Ruby would read other data from the text that would be written")
    return raw


def _by_key(task: _Task, own: HieraDocument, file: FileText) -> Rewrite | None:
    """Return the file with single keys exchanged, None where that doesn't give the target."""
    changed = {key for key in task.target if key not in own.values or not same(own.values[key], task.target[key])}
    places = {index for index, place in enumerate(file.places) if place.key in changed}
    gone = {index for index, place in enumerate(file.places) if place.key is not None and place.key not in task.target}
    texts: dict[int, str] = {}
    kept: dict[str, KeptText] = {}
    for index in sorted(places | _users(file, places | gone)):
        key = file.places[index].key
        if key is None or len(file.indexes(key)) > 1:
            return None
        texts[index] = task.render(key, file.style, file.column)
        kept[key] = KeptText.of(file.places[index].text, texts[index])
    result = file.exchanged(texts)
    for index in sorted(gone, reverse=True):
        result = result.removed(index)
    for key in task.target:
        if key in changed and not file.indexes(key):
            text = task.render(key, file.style, file.column)
            kept[key] = KeptText.of("", text)
            result = result.appended(key, text)
    found = _read(task.reader, result.text()) if result.places else None
    return Rewrite(found.raw, kept) if found is not None and task.met(found, own.type_marks(), set(kept)) else None


def _users(file: FileText, changed: set[int]) -> set[int]:
    """Return the places that have an alias into a changed one, and into these, and so on."""
    found: set[int] = set()
    while True:
        touched = changed | found
        more = {index for index, place in enumerate(file.places) if index not in touched and place.uses & touched}
        if not more:
            return found
        found |= more
