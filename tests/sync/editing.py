"""What nodes do to the text of a file around what we wrote in it; blocks are lower-case keys in the first column."""

from __future__ import annotations

import re
from collections.abc import Callable

EMPTY = "--- {}\n"
"""A file without keys, as we write it: there is nothing around which one could edit."""


def reordered(text: str) -> str:
    """Return the blocks of a file in the opposite order of their keys; comments stay below the block before them."""
    head, *blocks = re.split(r"(?m)^(?=[a-z]+:)", text)
    return head + "".join(sorted(blocks, reverse=True))


def commented(text: str) -> str:
    """Return a file with comments around its blocks."""
    return re.sub(r"(?m)^(flat|other):", r"# about \1\n\1:", text) + "# the end\n"


def restyled(number: int, step: int, *, first: bool) -> Callable[[str], str]:
    """Return what writes the block ``other`` anew, indented by ``step`` columns."""

    def edit(text: str) -> str:
        block = f"other:\n{' ' * step}s: {number}\n"
        rest = re.sub(r"(?m)^other:.*\n( +.*\n)*", "", text)
        head = "---\n" if rest.startswith("---\n") else ""
        return head + block + rest.removeprefix(head) if first else rest + block

    return edit
