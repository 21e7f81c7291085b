"""F2: what native files want of the system is read as the loader reads it."""

from __future__ import annotations

import contextlib
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
from pathlib import Path

import elf_versions
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

_DYNLOAD = Path(sysconfig.get_config_var("DESTSHARED") or sysconfig.get_paths()["platstdlib"])
SAMPLES = [Path(sys.executable).resolve(), *sorted(_DYNLOAD.glob("_*ssl*.so"))[:1], *sorted(_DYNLOAD.glob("math*.so"))]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_as_readelf_says(path: Path) -> None:
    if shutil.which("readelf") is None:
        pytest.skip("readelf is not installed here")
    command = ["readelf", "--version-info", "--wide", str(path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env={"LC_ALL": "C"}).stdout
    needs = said.split("Version needs section")[1] if "Version needs section" in said else ""
    expected: set[tuple[str, str]] = set()
    library = ""
    for line in needs.splitlines():
        if found := re.search(r"File: (\S+)", line):
            library = found[1]
        elif found := re.search(r"Name: (\S+)", line):
            expected.add((library, found[1]))
    assert {(one.library, one.name) for one in elf_versions.wanted(path.read_bytes())} == expected
    command = ["readelf", "--dynamic", "--wide", str(path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, env={"LC_ALL": "C"}).stdout
    libraries = re.findall(r"\(NEEDED\).*\[(.+)\]", said)
    assert list(elf_versions.libraries(path.read_bytes())) == libraries
    assert "libc.so.6" in libraries


def test_what_is_too_new() -> None:
    names = ("GLIBC_2.17", "GLIBC_2.18", "GLIBC_2.2.5", "GLIBC_PRIVATE", "GLIBCXX_3.4.20", "OPENSSL_3.0.0")
    versions = tuple(elf_versions.Version("lib", name) for name in names)
    found = elf_versions.too_new(versions, elf_versions.LIMITS)
    assert [one.name for one in found] == ["GLIBC_2.18", "GLIBC_PRIVATE", "GLIBCXX_3.4.20"]


@example(b"", 254, b"\0\0\1")
@given(st.binary(max_size=200), st.integers(0, 4000), st.binary(min_size=1, max_size=8))
def test_anything_is_read_or_refused(tail: bytes, place: int, change: bytes) -> None:
    head = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    for content in (head + tail, _changed(place, change)):
        with contextlib.suppress(elf_versions.NotReadableError):
            assert isinstance(elf_versions.wanted(content), tuple)
        with contextlib.suppress(elf_versions.NotReadableError):
            assert isinstance(elf_versions.libraries(content), tuple)


def _changed(place: int, change: bytes) -> bytes:
    """A tiny ELF file that wants one version, with some bytes changed."""
    strings = b"\0libc.so.6\0GLIBC_2.17\0"
    dynamic = struct.pack("<8Q", 5, 0x200, 0x6FFFFFFE, 0x240, 0x6FFFFFFF, 1, 0, 0)
    need = struct.pack("<HHIIIIHHII", 1, 1, 1, 16, 0, 0, 0, 0, 11, 0)
    content = bytearray(0x300)
    content[:16] = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    struct.pack_into("<Q", content, 32, 64)
    struct.pack_into("<HH", content, 54, 56, 2)
    struct.pack_into("<II6Q", content, 64, 1, 5, 0, 0, 0, 0x300, 0x300, 1)
    struct.pack_into("<II6Q", content, 120, 2, 6, 0x100, 0x100, 0x100, len(dynamic), len(dynamic), 8)
    content[0x100 : 0x100 + len(dynamic)] = dynamic
    content[0x200 : 0x200 + len(strings)] = strings
    content[0x240 : 0x240 + len(need)] = need
    content[place : place + len(change)] = change if place < len(content) else b""
    return bytes(content)


def test_the_tiny_file_is_one() -> None:
    assert elf_versions.wanted(_changed(9999, b"x")) == (elf_versions.Version("libc.so.6", "GLIBC_2.17"),)
