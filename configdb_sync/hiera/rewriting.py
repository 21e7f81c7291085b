"""New content for a file: only what must change does, and all of it can be taken back to the byte (U10, U18).

Rules:

* The file *as the node wrote it* is the file with every kept text put back. What is written differs from it in those
  top-level keys whose value is to be another one, in keys that it doesn't have (they are appended), and in keys with an
  alias into one of these, which are written out. Their own texts are ``kept``; "" stands for a key that wasn't there.
* Where that can't be done key by key (a root in flow style, ``? `` keys, a key that stands twice, merge keys at the
  top, a key that is taken out), the whole of the node's text is kept under the key ``""`` (``WHOLE``), alone. A
  top-level key that is itself empty is never kept any other way, so the two can't be confused.
* Types that JSON lacks come from the node's own text at the same place, then from the file's present text, then from
  the given marks; the rule is in ``marks``.
* What comes out is read again and must hold the target, type for type; so kept texts that no longer fit a file that
  the node wrote anew can cost its layout, never a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from configdb_sync.errors import DocumentError
from configdb_sync.hiera.dumper import Style, block, check
from configdb_sync.hiera.faults import fault
from configdb_sync.hiera.layout import Layout, Place
from configdb_sync.hiera.marks import CollisionError, to_json, typed, typed_key
from configdb_sync.jsonvalues import Json, same

WHOLE = ""
"""The key of ``kept`` under which a file's whole text stands."""


@dataclass(frozen=True)
class Rewrite:
    """A file's new content and the node's own texts of what it replaced: by top-level key, or all under ``WHOLE``."""

    raw: bytes = field(repr=False)
    kept: Mapping[str, str] = field(repr=False)


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

    def layout_of(self, raw: bytes) -> Layout | None:
        """Return the layout, None for a file that can only be written as a whole."""


@dataclass(frozen=True, slots=True)
class _Task:
    """What a file is to hold, and what tells its types: the node's own document, the present one, marks."""

    files: Files
    target: Mapping[str, Json]
    marks: Mapping[str, Json]
    own: Document | None = None
    present: Document | None = None

    def marks_of(self, key: str) -> Mapping[str, Json]:
        for document in (self.own, self.present):
            if document is not None and key in document.values:
                found = document.type_marks().get(key)
                if document is self.own or found:
                    return found or {}
        found = self.marks.get(key)
        return found if isinstance(found, Mapping) else {}

    def render(self, key: str, style: Style, column: int) -> str:
        marks = self.marks_of(key)
        return block(typed_key(key, marks.get("key")), typed(self.target[key], marks.get("value")), style, column)

    def expected_marks(self, key: str) -> Json:
        marks = self.marks_of(key)
        name = typed_key(key, marks.get("key"))
        try:
            below = to_json(typed(self.target[key], marks.get("value")))[1]
        except CollisionError:
            return None
        found = {} if isinstance(name, str) else {"key": name.kind}
        return found if below is None else {**found, "value": below}


def created(files: Files, target: Mapping[str, Json], marks: Mapping[str, Json]) -> bytes:
    """Return the bytes of a new file. Raises ``DocumentError``."""
    check(dict(target))
    return _written_whole(_Task(files, target, marks), Style())


def rewritten(
    files: Files, raw: bytes, target: Mapping[str, Json], kept: Mapping[str, str], marks: Mapping[str, Json]
) -> Rewrite:
    """Return the new content of the file ``raw`` and what is kept of it. Raises ``DocumentError``."""
    present = files.read(raw)
    check(
        {key: value for key, value in target.items() if key not in present.values or present.values[key] is not value}
    )
    own = _own(files, raw, kept)
    if own is None:
        own, kept = present, {}
    if _holds(own, target):
        return Rewrite(own.raw, {})
    if kept and _holds(present, target):
        return Rewrite(raw, dict(kept))
    task = _Task(files, target, marks, own, present)
    present_layout = files.layout_of(raw)
    base = present if WHOLE in kept else own
    layout = present_layout if WHOLE in kept else files.layout_of(own.raw)
    found = _by_key(task, base, layout, present_layout) if layout is not None else None
    if found is None:
        style = layout.style if layout is not None else Style()
        return Rewrite(_written_whole(task, replace(style, newline="\n")), {WHOLE: _text(own.raw)})
    if WHOLE in kept or WHOLE in found.kept or not _goes_back(files, found, own.raw):
        return Rewrite(found.raw, {WHOLE: _text(own.raw)})
    return found


def _own(files: Files, raw: bytes, kept: Mapping[str, str]) -> Document | None:
    """Return the document as the node wrote it, None where the kept texts don't give one."""
    try:
        text = kept[WHOLE] if WHOLE in kept else _restored(files, raw, kept)
        return None if text is None else files.read(text.encode("utf-8"))
    except (DocumentError, UnicodeEncodeError):
        return None


def _restored(files: Files, raw: bytes, kept: Mapping[str, str]) -> str | None:
    """Return the file's text with the kept ones put back, None where its keys can't be told apart."""
    if not kept:
        return _text(raw)
    layout = files.layout_of(raw)
    if layout is None:
        return None
    for key, text in kept.items():
        layout = _put_back(layout, key, text)
    return layout.text()


def _goes_back(files: Files, result: Rewrite, own: bytes) -> bool:
    restored = _restored(files, result.raw, result.kept)
    return restored is not None and restored.encode("utf-8", "replace") == own


def _put_back(layout: Layout, key: str, text: str) -> Layout:
    places = layout.indexes(key)
    if text:
        return layout.exchanged({places[-1]: text}) if places else layout.appended(key, text)
    return layout.removed(places[-1]) if places else layout


def _by_key(task: _Task, base: Document, layout: Layout, present: Layout | None) -> Rewrite | None:
    """Return the file with single keys exchanged, None where that doesn't give the target."""
    changed = [key for key in task.target if key not in base.values or not same(base.values[key], task.target[key])]
    texts: dict[int, str] = {}
    appended: dict[str, str] = {}
    kept: dict[str, str] = {}
    for key in changed:
        places = layout.indexes(key)
        if len(places) > 1:
            return None
        kept[key] = layout.places[places[0]].text if places else ""
        text = _present_text(task, key, layout, present) or task.render(key, layout.style, layout.column)
        if places:
            texts[places[0]] = text
        else:
            appended[key] = text
    gone = [
        index for index, place in enumerate(layout.places) if place.key is not None and place.key not in task.target
    ]
    for index in _users(layout, {*texts, *gone}):
        key_of_user = layout.places[index].key
        if key_of_user is None or len(layout.indexes(key_of_user)) > 1:
            return None
        kept[key_of_user] = layout.places[index].text
        texts[index] = _present_text(task, key_of_user, layout, present) or task.render(
            key_of_user, layout.style, layout.column
        )
    result = layout.exchanged(texts)
    for index in reversed(gone):
        result = result.removed(index)
    for key in _in_order(appended, task.present):
        result = result.appended(key, appended[key])
    raw = result.text().encode("utf-8")
    return Rewrite(raw, kept) if result.places and _reads_as(task, raw, base, {*changed, *kept}) else None


def _present_text(task: _Task, key: str, layout: Layout, present: Layout | None) -> str | None:
    """Return the text that the file has for ``key`` now, if that means the target and can stand where it would go."""
    if present is None or task.present is None or present.column != layout.column:
        return None
    places = [present.places[index] for index in present.indexes(key)]
    if len(places) != 1 or places[0].anchored or not same(task.present.values.get(key), task.target[key]):
        return None
    if (task.present.type_marks().get(key) or {}) != (task.expected_marks(key) or {}):
        return None
    return places[0].text


def _users(layout: Layout, changed: set[int]) -> list[int]:
    """Return the places, in order, that have an alias into a changed one, and into these, and so on."""
    found: set[int] = set()
    while True:
        touched = changed | found
        more = {index for index, place in enumerate(layout.places) if index not in touched and place.uses & touched}
        if not more:
            return sorted(found)
        found |= more


def _in_order(appended: dict[str, str], present: Document | None) -> list[str]:
    before = [key for key in present.values if key in appended] if present is not None else []
    return before + [key for key in appended if key not in before]


def _written_whole(task: _Task, style: Style) -> bytes:
    blocks = [task.render(key, style, 0) for key in task.target]
    text = "\n".join(["---", *blocks, ""]) if blocks else "--- {}\n"
    raw = text.encode("utf-8")
    if not _reads_as(task, raw, None, set(task.target)):
        raise fault("Ruby would read other data from the text that would be written")
    return raw


def _reads_as(task: _Task, raw: bytes, base: Document | None, rendered: set[str]) -> bool:
    """Tell whether ``raw`` holds the target: rendered keys with the types meant, the others with those of ``base``."""
    try:
        found = task.files.read(raw)
    except DocumentError:
        if base is None:
            raise
        return False
    if not _holds(found, task.target):
        return False
    marks = found.type_marks()
    before = base.type_marks() if base is not None else {}
    return all(
        (marks.get(key) or {}) == ((task.expected_marks(key) if key in rendered else before.get(key)) or {})
        for key in task.target
    )


def _holds(document: Document, target: Mapping[str, Json]) -> bool:
    return same(dict(document.values), dict(target))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8")


__all__ = ["WHOLE", "Place", "Rewrite", "created", "rewritten"]
