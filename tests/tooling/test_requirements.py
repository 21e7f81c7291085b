"""``docs/requirements.md``: every ID that the project cites can be looked up there, and is there once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/requirements.md"
CITING = ("configdb_sync", "tests", "docs", "deployment_scripts")
TEXTS = {".py", ".md", ".rb", ".sh", ".yaml", ".toml", ".txt", ".j2", ".html", ".conf"}
ID = re.compile(r"(?<![\w%/.#+:-])(?:[UTSRF][1-9]\d?|[BYSWT]0\d|[BYW][1-9]\d)(?!\w|:\d)")
RANGE = re.compile(r"\b([UTSRF])([1-9]\d?)-(?:\1)?([1-9]\d?)\b")


def cited(text: str) -> Iterator[str]:
    """Yield the IDs in a text; of ``T4-T6`` all three."""
    yield from ID.findall(text)
    for letter, first, last in RANGE.findall(text):
        yield from (f"{letter}{number}" for number in range(int(first), int(last) + 1))


def listed() -> list[str]:
    return re.findall(r"^\| ([A-Z]\d+) \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)


def test_every_id_cited_is_on_the_page() -> None:
    known = set(listed())
    unknown = {
        f"{path.relative_to(ROOT)}: {name}"
        for folder in CITING
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in TEXTS and path != Path(__file__) and "__pycache__" not in path.parts
        for name in cited(path.read_text(encoding="utf-8", errors="replace"))
        if name not in known
    }
    assert sorted(unknown) == []


def test_no_id_is_there_twice() -> None:
    assert [name for name, times in Counter(listed()).items() if times > 1] == []


def test_the_requirements_have_no_gaps() -> None:
    last = {"U": 31, "T": 15, "S": 8, "R": 7, "F": 5}
    wanted = {f"{letter}{number}" for letter, count in last.items() for number in range(1, count + 1)}
    assert wanted - set(listed()) == set()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(U18, R3; B01).", ["U18", "R3", "B01"]),
        ("T4-T6 and S1-S3", ["T4", "S1", "T4", "T5", "T6", "S1", "S2", "S3"]),
        ("Y99: unknown", ["Y99"]),
        ("%F0%F2 ruby -W1 2026-11-01T12:00 U+0085 V2 v1.0 SHA256", []),
    ],
)
def test_ids_are_told_from_other_words(text: str, found: list[str]) -> None:
    assert list(cited(text)) == found
