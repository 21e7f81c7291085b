"""Which libraries, and versions of a system's, a native file wants, as the loader sees it. Standard library only. Pure.

Read from the dynamic segment (ELF specification; symbol versions as in the LSB): sections may have been stripped away.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

# What CentOS 7 has, and so the limits of manylinux2014.
LIMITS = {"GLIBC": (2, 17), "GLIBCXX": (3, 4, 19), "CXXABI": (1, 3, 7), "GCC": (4, 8, 0)}

T = TypeVar("T")

_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRTAB, _VERNEED, _VERNEEDNUM = 1, 5, 0x6FFFFFFE, 0x6FFFFFFF


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
    return _read(content, lambda segment: tuple(segment.versions()))


def libraries(content: bytes) -> tuple[str, ...]:
    """Return the names of the libraries that an ELF file is linked with. Raises ``NotReadableError``."""
    return _read(content, lambda segment: tuple(map(segment.text, segment.all(_NEEDED))))


def too_new(versions: tuple[Version, ...], limits: dict[str, tuple[int, ...]]) -> tuple[Version, ...]:
    """Return those that a system with just ``limits`` doesn't have; families without a limit are let through."""
    return tuple(
        version
        for version in versions
        if version.family in limits and (version.number is None or version.number > limits[version.family])
    )


def _read(content: bytes, wanted: Callable[[_Dynamic], tuple[T, ...]]) -> tuple[T, ...]:
    if content[4:6] != b"\x02\x01":
        raise NotReadableError("not of 64 bits, little-endian")
    try:
        return wanted(_Dynamic(content))
    except (struct.error, LookupError, ValueError, OverflowError):
        raise NotReadableError("its dynamic segment can't be read") from None


class _Dynamic:
    """A file's dynamic segment; a static file's is empty."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        offset, size, count = (*struct.unpack_from("<Q", content, 32), *struct.unpack_from("<HH", content, 54))
        self._segments = [struct.unpack_from("<II6Q", content, offset + number * size) for number in range(count)]
        self._entries = list(self._dynamic())

    def _dynamic(self) -> Iterator[tuple[int, int]]:
        for kind, _, start, _, _, length, *_ in self._segments:
            for position in range(start, start + length, 16) if kind == _DYNAMIC else ():
                tag, value = struct.unpack_from("<QQ", self._content, position)
                if tag == 0:
                    return
                yield tag, value

    def all(self, tag: int) -> list[int]:
        return [value for found, value in self._entries if found == tag]

    def _place(self, tag: int) -> int:
        address = self.all(tag)[0]
        for kind, _, start, virtual, _, length, *_ in self._segments:
            if kind == _LOAD and virtual <= address < virtual + length:
                return int(address - virtual + start)
        raise ValueError

    def text(self, offset: int) -> str:
        start = self._place(_STRTAB) + offset
        return self._content[start : self._content.index(b"\0", start)].decode("ascii")

    def versions(self) -> Iterator[Version]:
        if not self.all(_VERNEED):
            return
        entry = self._place(_VERNEED)
        for _ in range(self.all(_VERNEEDNUM)[0]):
            _, number, file, first, following = struct.unpack_from("<HHIII", self._content, entry)
            detail = entry + first
            for _ in range(number):
                _, _, _, name, step = struct.unpack_from("<IHHII", self._content, detail)
                yield Version(self.text(file), self.text(name))
                detail += step
            if following == 0:
                return
            entry += following
