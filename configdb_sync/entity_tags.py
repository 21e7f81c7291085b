"""If-Match and If-None-Match (RFC 9110, 13.1) as entity tags; a malformed header is an error, never no condition."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TAG = re.compile(r'(W/)?"([\x21\x23-\x7e\x80-\xff]*)"')
_LONGEST = 4096


@dataclass(frozen=True)
class Tags:
    """One header: ``any`` is ``*``; ``strong`` and ``weak`` hold opaque tags without quotes."""

    any: bool = False
    strong: frozenset[str] = frozenset()
    weak: frozenset[str] = frozenset()


def read_tags(name: str, text: str) -> Tags:
    """Return the tags of a header's text. Raises ``ValueError`` that names the header and what is wrong."""
    if len(text) > _LONGEST:
        raise ValueError(f"{name} is longer than {_LONGEST} characters")
    text = text.strip(" \t")
    if text == "*":
        return Tags(any=True)
    strong: set[str] = set()
    weak: set[str] = set()
    due = True
    place = 0
    while place < len(text):
        character = text[place]
        found = _TAG.match(text, place) if due else None
        if character in " \t":
            place += 1
        elif character == ",":
            due = True
            place += 1
        elif found:
            (weak if found[1] else strong).add(found[2])
            due = False
            place = found.end()
        else:
            raise ValueError(f"{name} is malformed at character {place + 1}")
    if not strong and not weak:
        raise ValueError(f"{name} names no entity tag")
    return Tags(strong=frozenset(strong), weak=frozenset(weak))
