"""Which IDs and names there can be (T1). Pure; nothing is normalised, folded or trimmed."""

from __future__ import annotations

import re

from configdb_sync.names import NAME_LIMIT
from configdb_sync.web.refusals import refuse, shown

LONGEST_ID = 255
"""Characters (code points) of a tenant ID."""

ENVIRONMENT_LIMIT = 2**63

MOVE = ("action", "move")

_SURROGATE = re.compile("[\ud800-\udfff]")

ID_RULES = (
    "A tenant ID is 1 to 255 Unicode characters (code points, not bytes) without '/' and without NUL; the operator"
    " chooses it. It is compared by code point: neither case nor composed accents are folded. In a URL it is"
    " percent-encoded UTF-8 in one path segment; an encoded slash (%2F) is refused."
)
"""The rules as the API's documents tell them (T13)."""


def tenant_id(text: str) -> str:
    """Return the text if it can be a tenant ID. Raises ``RefusalError`` 400."""
    fault = _fault(text, LONGEST_ID)
    if fault is None and "/" in text:
        fault = "holds a slash"
    if fault is not None:
        raise refuse(400, f"the tenant ID {shown(text)} {fault}")
    return text


def data_source(text: str) -> str:
    """Return the text if it can be a data source's name under a tenant. Raises ``RefusalError`` 400.

    Refused is what would stand for a move action in a path, and what a path can't hold.
    """
    fault = _fault(text, NAME_LIMIT)
    segments = tuple(text.split("/"))
    if fault is None and "" in segments:
        fault = "holds an empty part"
    if fault is None and segments[-2:] == MOVE:
        fault = "ends in action/move, which stands for moving it"
    if fault is not None:
        raise refuse(400, f"the data source name {shown(text)} {fault}")
    return text


def environment(text: str) -> int | None:
    """Return the environment that a path segment names: a decimal number as it is written, else None."""
    if not (text.isascii() and text.isdigit()) or len(text) > 19 or str(int(text)) != text:
        return None
    number = int(text)
    return number if number < ENVIRONMENT_LIMIT else None


def _fault(text: str, longest: int) -> str | None:
    if not text:
        return "is empty"
    if len(text) > longest:
        return f"has {len(text)} characters, {longest} are allowed"
    if "\0" in text:
        return "holds the character NUL"
    if _SURROGATE.search(text):
        return "holds half a surrogate pair"
    return None
