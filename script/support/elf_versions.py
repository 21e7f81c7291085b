"""Which versions of a system's libraries a native file wants, as the loader sees it. Standard library only. Pure.

Read from the dynamic segment (ELF specification; symbol versions as in the LSB): sections may have been stripped away.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

# What CentOS 7 has, and so the limits of manylinux2014.
LIMITS = {"GLIBC": (2, 17), "GLIBCXX": (3, 4, 19), "CXXABI": (1, 3, 7), "GCC": (4, 8, 0)}

_LOAD, _DYNAMIC = 1, 2
_STRTAB, _VERNEED, _VERNEEDNUM = 5, 0x6FFFFFFE, 0x6FFFFFFF


class NotReadableError(ValueError):
    """It begins like an ELF file and can't be read as one of 64 bits, little-endian."""


@dataclass(frozen=True)
class Version:
    """A version of ``library``'s symbols that a file wants, such as ``GLIBC_2.17`` of ``libc.so.6``."""

    library: str
    name: str

    @property
    def family(self) -> str:
        """The name without its number: ``GLIBC``."""
        return self.name.rpartition("_")[0]

    @property
    def number(self) -> tuple[int, ...] | None:
        """``(2, 17)``, None where the name has none (``GLIBC_PRIVATE``)."""
        text = self.name.rpartition("_")[2]
        return tuple(map(int, text.split("."))) if re.fullmatch(r"\d+(\.\d+)*", text) else None


def is_elf(content: bytes) -> bool:
    """Tell whether a file's content begins like an ELF file."""
    return content[:4] == b"\x7fELF"


def wanted(content: bytes) -> tuple[Version, ...]:
    """Return the versions that an ELF file wants, none for a static one. Raises ``NotReadableError``."""
    if content[4:6] != b"\x02\x01":
        raise NotReadableError("not of 64 bits, little-endian")
    try:
        return tuple(_versions(content))
    except (struct.error, LookupError, ValueError, OverflowError):
        raise NotReadableError("its dynamic segment can't be read") from None


def too_new(versions: tuple[Version, ...], limits: dict[str, tuple[int, ...]]) -> tuple[Version, ...]:
    """Return those that a system with just ``limits`` doesn't have; families without a limit are let through."""
    return tuple(
        version
        for version in versions
        if version.family in limits and (version.number is None or version.number > limits[version.family])
    )


def _versions(content: bytes) -> Iterator[Version]:
    offset, size, count = (*struct.unpack_from("<Q", content, 32), *struct.unpack_from("<HH", content, 54))
    segments = [struct.unpack_from("<II6Q", content, offset + number * size) for number in range(count)]
    dynamic = [segment for segment in segments if segment[0] == _DYNAMIC]
    if not dynamic:
        return

    def place(address: int) -> int:
        for kind, _, start, virtual, _, length, *_ in segments:
            if kind == _LOAD and virtual <= address < virtual + length:
                return int(address - virtual + start)
        raise ValueError

    def text(start: int) -> str:
        return content[start : content.index(b"\0", start)].decode("ascii")

    _, _, start, _, _, length, *_ = dynamic[0]
    tags: dict[int, int] = {}
    for position in range(start, start + length, 16):
        tag, value = struct.unpack_from("<QQ", content, position)
        if tag == 0:
            break
        tags[tag] = value
    if _VERNEED not in tags:
        return
    strings, entry = place(tags[_STRTAB]), place(tags[_VERNEED])
    for _ in range(tags[_VERNEEDNUM]):
        _, number, file, first, following = struct.unpack_from("<HHIII", content, entry)
        detail = entry + first
        for _ in range(number):
            _, _, _, name, step = struct.unpack_from("<IHHII", content, detail)
            yield Version(text(strings + file), text(strings + name))
            detail += step
        if following == 0:
            return
        entry += following
