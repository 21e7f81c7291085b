"""Names that come from file systems: which are plain, and how others are shown."""

from __future__ import annotations

import functools
import unicodedata

_ODD_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})


@functools.lru_cache(maxsize=1024)
def is_plain(name: str) -> bool:
    """Tell whether a name is UTF-8 without control characters, line ends and backslashes.

    Backslashes are out so that a name as ``shown`` is never another file's plain name.
    """
    return "\\" not in name and not any(unicodedata.category(char) in _ODD_CATEGORIES for char in name)


def shown(name: str) -> str:
    """Return ``name`` fit for a message: odd characters, and bytes that are no UTF-8, as ``\\xff``."""
    if is_plain(name):
        return name
    return "".join(map(_escaped, name))


def _escaped(char: str) -> str:
    if char == "\\":
        return "\\\\"
    if unicodedata.category(char) not in _ODD_CATEGORIES:
        return char
    # The file system's codec maps a byte that isn't UTF-8 to one of these code points.
    code = ord(char) - 0xDC00 if 0xDC80 <= ord(char) <= 0xDCFF else ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
