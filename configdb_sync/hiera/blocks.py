"""A file's bytes as text, and the text cut into pieces that have the same meaning alone; nothing is parsed here.

A *border* is a line that starts, at exactly the column of its siblings, with a plain key of simple characters (or,
within a list, with ``- ``). A caller that parses the pieces must fall back to the whole text wherever a piece doesn't
parse alone: that is how an open quote or flow collection shows. The reasons are in
``docs/decisions/parsing-by-blocks.md``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from configdb_sync.hiera.errors import UnreadableDocumentError, fault

MAX_BYTES = 1 << 24
"""Largest file that is read; ``astute.yaml`` of an environment of a thousand nodes has 2.3 MB."""

BOM = "\ufeff"

_PATH = re.compile(r"[A-Za-z0-9_.@+-]*(?:/[A-Za-z0-9_.@+-]+)+|[A-Za-z0-9_@+-][A-Za-z0-9_.@+-]*\.yaml")


def decode(raw: bytes) -> str:
    """Return the text without its byte order mark. Raises ``DocumentError`` that names the wrong byte."""
    if len(raw) > MAX_BYTES:
        raise fault(f"it has {len(raw)} bytes; at most {MAX_BYTES} are read")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise fault(
            f"the byte at offset {error.start} is not UTF-8",
            line=raw.count(b"\n", 0, error.start) + 1,
            way_out="Ruby reads settings as UTF-8",
        ) from None
    text = text.removeprefix(BOM)
    if text.startswith(BOM):
        raise fault("it begins with two byte order marks", line=1)
    return text


def link_hint(error: UnreadableDocumentError, text: str) -> UnreadableDocumentError:
    """Return ``error``, with a hint if the text is a path as a flattened symbolic link holds it."""
    if error.way_out is None and len(text) < 4096 and _PATH.fullmatch(text):
        error.way_out = "it holds just a path: a symbolic link that was copied as a regular file?"
    return error


_KEY = r"[A-Za-z0-9_][A-Za-z0-9_./@+-]*:(?=[ \n]|\Z)"
_ITEM = r"-(?=[ \n]|\Z)"
_BLANK = r"(?:[ ]*(?:#[^\n]*)?\n)*"
_HEADER = re.compile(rf"{_BLANK}(?:---[ ]*\n{_BLANK})?")
_INDENT = re.compile(r"[ ]*")
_FIRST_KEY = re.compile(_KEY)
_FIRST_ITEM = re.compile(_ITEM)
_BODY_START = re.compile(_BLANK)
_OPENER = re.compile(r"[ ]*([A-Za-z0-9_][A-Za-z0-9_./@+-]*):[ ]*\n")

# Line ends of YAML 1.1 that the patterns don't know, and characters that end a text early or not at all.
_ODD_ASCII = ("\r", "\0")
_ODD_OTHER = ("\x85", "\u2028", "\u2029", "\ufeff")
_ODD_START = r"(?P<odd>---|\.\.\.|[%?])"


@dataclass(frozen=True, slots=True)
class Body:
    """The pieces of the mapping or list below one key."""

    key: str
    mapping: bool
    pieces: list[str]


def split(text: str) -> list[str] | None:
    """Return the top-level pieces of a whole text, its header (comments, one bare ``---``) left out.

    None where it can't be cut: no plain key to begin with, odd line ends, document or directive markers, ``?`` keys.
    """
    if any(character in text for character in _ODD_ASCII):
        return None
    if not text.isascii() and any(character in text for character in _ODD_OTHER):
        return None
    header = _HEADER.match(text)
    start = header.end() if header else 0
    column = _width(text, start)
    if text.startswith(("---", "...", "%", "?"), start) or not _FIRST_KEY.match(text, start + column):
        return None
    return _pieces(text, start, start, _top_border(column))


def split_body(text: str) -> Body | None:
    """Return the pieces below the one key that a piece begins with, or None where it can't be cut further."""
    opener = _OPENER.match(text)
    if opener is None:
        return None
    column = opener.start(1)
    found = _BODY_START.match(text, opener.end())
    first = found.end() if found else opener.end()
    inner = _width(text, first)
    if _FIRST_ITEM.match(text, first + inner) and inner >= column:
        mapping = False
    elif _FIRST_KEY.match(text, first + inner) and inner > column:
        mapping = True
    else:
        return None
    pieces = _pieces(text, opener.end(), first, _border(inner, mapping=mapping))
    return None if pieces is None else Body(opener[1], mapping, pieces)


def _width(text: str, start: int) -> int:
    found = _INDENT.match(text, start)
    return found.end() - start if found else 0


@lru_cache(maxsize=64)
def _top_border(column: int) -> re.Pattern[str]:
    if not column:
        return re.compile(f"\n(?=[^ ])(?:{_KEY}|{_ODD_START})")
    return re.compile(f"\n(?:{' ' * column}{_KEY}|{_ODD_START})")


@lru_cache(maxsize=256)
def _border(column: int, *, mapping: bool) -> re.Pattern[str]:
    return re.compile(f"\n{' ' * column}(?:{_KEY if mapping else _ITEM}|(?P<odd>\\?))")


def _pieces(text: str, start: int, first: int, border: re.Pattern[str]) -> list[str] | None:
    """Return the text from ``start`` on, cut at the borders after ``first``, its first content; None if one is odd."""
    cuts = [start]
    for found in border.finditer(text, first):
        if found.lastgroup:
            return None
        cuts.append(found.start() + 1)
    cuts.append(len(text))
    return [text[begin:end] for begin, end in pairwise(cuts)]
