"""Names from file systems and buses: which are plain, how others are shown, and the order of identities."""

from __future__ import annotations

import functools
import re
import unicodedata

_ODD_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
_DIGITS = re.compile(r"([0-9]+)")


@functools.lru_cache(maxsize=1024)
def is_plain(name: str) -> bool:
    """Tell whether a name is UTF-8 without control characters, line ends and backslashes.

    Backslashes are out so that a name as ``shown`` is never another file's plain name.
    """
    return "\\" not in name and not any(unicodedata.category(char) in _ODD_CATEGORIES for char in name)


def shown(name: str) -> str:
    """Return ``name`` fit for a message: odd characters, and bytes that are no UTF-8, as ``\\xff``."""
    return name if is_plain(name) else "".join(map(_escaped, name))


def _escaped(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if unicodedata.category(char) not in _ODD_CATEGORIES:
        return char
    # The file system's codec maps a byte that isn't UTF-8 to one of these code points.
    code = ord(char) - 0xDC00 if 0xDC80 <= ord(char) <= 0xDCFF else ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def natural_key(identity: str) -> tuple[tuple[str | tuple[int, str], ...], str]:
    """Return a sort key that puts ``2`` before ``10``, numbers before names, and keeps ``07`` and ``7`` apart."""
    parts = _DIGITS.split(identity)
    return tuple(_number(part) if place % 2 else part for place, part in enumerate(parts)), identity


def _number(digits: str) -> tuple[int, str]:
    # Python makes no int of thousands of digits.
    plain = digits.lstrip("0")
    return len(plain), plain
