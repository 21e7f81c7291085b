"""A file as text around its top-level keys: what may be exchanged and taken back to the byte."""

from __future__ import annotations

from dataclasses import dataclass, replace

from configdb_sync.hiera.dumper import Style


@dataclass(frozen=True, slots=True)
class Place:
    """One top-level key in a file.

    ``text`` goes from its line's start to its last character, ``gap`` from there (its line end) to the next key.
    ``key`` is the key as JSON has it, None for a merge key. ``anchored``: the text holds an anchor or an alias;
    ``uses``: the places (by index) whose anchors it has aliases to.
    """

    key: str | None
    text: str
    gap: str
    anchored: bool = False
    uses: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Layout:
    """``head``, the places and ``tail`` (from ``...`` on) make the file's text; keys stand at ``column``."""

    head: str
    places: tuple[Place, ...]
    tail: str
    column: int
    style: Style

    def text(self) -> str:
        """Return the file's text."""
        return self.head + "".join(place.text + place.gap for place in self.places) + self.tail

    def indexes(self, key: str) -> list[int]:
        """Return where ``key`` stands: nowhere, at one place, or at several (the last counts)."""
        return [index for index, place in enumerate(self.places) if place.key == key]

    def exchanged(self, texts: dict[int, str]) -> Layout:
        """Return the layout with other texts at some places."""
        places = [replace(place, text=texts.get(index, place.text)) for index, place in enumerate(self.places)]
        return replace(self, places=tuple(places))

    def appended(self, key: str, text: str) -> Layout:
        """Return the layout with one more place at its end. A file that lacks the last line end goes on lacking it."""
        before = self._last()
        whole = before.endswith("\n") or not (before or self.places)
        added = Place(key, text, self.style.newline if whole else "")
        return _ended(self, before if whole else before + self.style.newline, (added,))

    def removed(self, index: int) -> Layout:
        """Return the layout without one place: undoes ``appended`` to the byte; comments after the place stay."""
        gone = self.places[index]
        following = self.places[index + 1 :]
        shorter = replace(self, places=self.places[:index])
        before = self.places[index - 1].gap if index else self.head
        return _ended(shorter, before + gone.gap.partition("\n")[2] if gone.gap else _unended(before), following)

    def _last(self) -> str:
        return self.places[-1].gap if self.places else self.head


def _ended(layout: Layout, end: str, following: tuple[Place, ...]) -> Layout:
    """Return the layout with another text after its last place (or as its head), then the places ``following``."""
    if not layout.places:
        return replace(layout, head=end, places=following)
    *others, last = layout.places
    return replace(layout, places=(*others, replace(last, gap=end), *following))


def _unended(text: str) -> str:
    return text.removesuffix("\n").removesuffix("\r") if text.endswith("\n") else text
