"""The commands that documents print, and the output that they show.

A fenced block marked ``console`` holds commands (lines that begin with ``$ ``, continued by a backslash) and below each
what it prints, where ``...`` stands for anything, on a line or in place of lines. ``<!-- not run: reason -->`` on
the line above a block exempts it, ``<!-- 9 hours later -->`` has its commands see a clock that is so much ahead.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

_MARKS = r"(?P<exempt><!-- not run: .+? -->\n+)?(?:<!-- (?P<hours>\d+) hours later -->\n+)?"
_BLOCK = re.compile(rf"^{_MARKS}```console\n(?P<body>.*?)^```$", flags=re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Command:
    """A command as printed, the line of its document, and the lines that the document shows below it."""

    text: str
    line: int
    output: tuple[str, ...]
    hours: int = 0
    """How long after the commands before it is run."""


def commands(document: str) -> list[Command]:
    """Return the commands of a document's ``console`` blocks, in order, exempted ones left out.

    Raises ValueError for a block that doesn't begin with a command.
    """
    found = []
    for block in _BLOCK.finditer(document):
        if block["exempt"]:
            continue
        first = document.count("\n", 0, block.start("body")) + 1
        found += [replace(one, hours=int(block["hours"] or 0)) for one in _in_block(block["body"].splitlines(), first)]
    return found


def _in_block(lines: list[str], first: int) -> Iterable[Command]:
    if not lines or not lines[0].startswith("$ "):
        raise ValueError(f"line {first}: a console block begins with '$ '")
    place = 0
    while place < len(lines):
        start, text = place, lines[place][2:]
        while text.endswith("\\") and place + 1 < len(lines):
            place += 1
            text = text[:-1].rstrip() + " " + lines[place].strip()
        place += 1
        end = place
        while end < len(lines) and not lines[end].startswith("$ "):
            end += 1
        yield Command(text, first + start, tuple(lines[place:end]))
        place = end


def missing(shown: Iterable[str], printed: str) -> str | None:
    """Return the first line shown that was not printed after the ones before it, None if all were."""
    rest = iter(line.rstrip() for line in printed.splitlines())
    for line in shown:
        if line.strip() in {"", "..."}:
            continue
        pattern = re.compile(".*".join(map(re.escape, line.rstrip().split("..."))))
        if not any(pattern.fullmatch(candidate) for candidate in rest):
            return line
    return None
