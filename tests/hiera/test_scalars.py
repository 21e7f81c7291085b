"""Plain scalars mean what Ruby reads (U11); cases Y01, Y02, Y03, Y04, Y06, Y07, Y18."""

from __future__ import annotations

import random
from typing import Any

import pytest

from configdb_sync.errors import DocumentError
from configdb_sync.hiera.documents import Reader
from configdb_sync.hiera.scalars import MAX_DIGITS, MERGE, ScalarError, Special, resolve
from tests.hiera.ruby_oracle import RubyOracle, outcome, told, told_document
from tests.hiera.yaml_generation import NUMBERS, SIGNS, TIMES, WORDS, plain_scalar


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1,000", 1000),
        ("10,20", 1020),
        ("-1,000", -1000),
        ("6800,8080", 68008080),
        ("1:30", 5400),
        ("1:2", 3720),
        ("0:0", 0),
        ("12:00", 43200),
        ("49100:22", 176761320),
        ("1:30.5", 5430.0),
        ("10:10:10:10:10:10:10:10", "10:10:10:10:10:10:10:10"),
        ("52:54:00:12:34:56", "52:54:00:12:34:56"),
        ("=", "="),
        ("1__0", "1__0"),
        ("1_", "1_"),
        ("1_000", 1000),
        ("+.5", 0.5),
        ("-.5", -0.5),
        ("1e3", "1e3"),
        ("1.5e+3", 1500.0),
        ("0644", 420),
        ("0899", "0899"),
        ("0x1F", 31),
        ("-0b101", -5),
        ("off", False),
        ("y", "y"),
        ("n", "n"),
        ("~", None),
        ("", None),
        ("NULL", None),
        ("2016-13-45", "2016-13-45"),
        ("2016-1-1", Special("date", "2016-01-01")),
        ("1500-02-29", Special("date", "1500-02-29")),
        ("1582-10-10", "1582-10-10"),
        ("2016-01-01 10:00:00", Special("time", "2016-01-01T10:00:00")),
        ("2016-01-01T10:00:00Z", Special("time", "2016-01-01T10:00:00Z")),
        ("2001-12-14t21:59:43.10-05:00", Special("time", "2001-12-14T21:59:43.1-05:00")),
        ("2016-02-31 24:00:00 Z", Special("time", "2016-03-03T00:00:00Z")),
        (":sym", Special("symbol", ":sym")),
        (':"quoted sym"', Special("symbol", ":quoted sym")),
        (":99", Special("symbol", ":99")),
        (":", ":"),
        ("<<", MERGE),
        ("9" * MAX_DIGITS, int("9" * MAX_DIGITS)),
    ],
)
def test_reads_as_ruby(text: str, value: Any) -> None:
    found = resolve(text)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    "text",
    [
        ".nan",
        ".inf",
        "-.INF",
        "1.0e+999",
        "0x_",
        "0b_",
        ".e+5",
        "9" * (MAX_DIGITS + 1),
        "0x" + "f" * 4000,
        "1." + "1" * 99,
        "0000-01-01 00:00:00",
        "9999-12-31 24:00:00",
        "2016-02-31 10:00:00 +1",
        "1" * 5000 + ":30",
        "1" * 70 + "_0:30.5",
    ],
)
def test_refuses_what_json_or_ruby_cannot_carry(text: str) -> None:
    with pytest.raises(ScalarError) as caught:
        resolve(text)
    assert text not in str(caught.value)


# What Ruby reads as a time and we refuse.
_LIMITS = ("outside of the years", "a day that its month doesn't have")


def _agree(ruby: RubyOracle, texts: list[str]) -> int:
    """Compare each text as a key's value, read by both; return how many were values."""
    reader = Reader()
    raw = [f"k: {text}\n".encode() for text in texts]
    values = 0
    for text, source, answer in zip(texts, raw, ruby.read(raw), strict=True):
        found = outcome(reader, source)
        if isinstance(found, DocumentError):
            carried = answer.get("ok") not in (None, False) and _scalar_carried(answer["ok"])
            assert not carried or any(limit in found.what for limit in _LIMITS), (text, answer, found)
            continue
        values += 1
        assert answer.get("ok") == told_document(found), text
    return values


def _scalar_carried(document: Any) -> bool:
    if not isinstance(document, dict) or "h" not in document or len(document["h"]) != 1:
        return False
    ((_, value),) = document["h"]
    if isinstance(value, dict) and "f" in value:
        return not value["f"].startswith(("7ff", "fff"))
    return value is None or isinstance(value, bool) or bool(value.keys() & {"s", "i", "y", "d", "t"})


def test_every_known_shape_as_ruby(ruby: RubyOracle) -> None:
    assert _agree(ruby, [*WORDS, *NUMBERS, *TIMES, *SIGNS])


def test_words_over_several_lines_as_ruby(ruby: RubyOracle) -> None:
    texts = [f"{one}\n\n {two}" for one in ("y", "n", "~", "o", "1") for two in ("on", "no", "~", "y", "1")]
    assert _agree(ruby, texts) == len(texts)


@pytest.mark.parametrize("seed", range(3))
def test_generated_scalars_as_ruby(ruby: RubyOracle, seed: int) -> None:
    draw = random.Random(seed)
    assert _agree(ruby, [plain_scalar(draw) for _ in range(2000)])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 120))
def test_very_many_generated_scalars_as_ruby(ruby: RubyOracle, seed: int) -> None:
    draw = random.Random(seed)
    assert _agree(ruby, [plain_scalar(draw) for _ in range(5000)])


def test_tells_specials_in_the_oracle_s_words() -> None:
    assert told(Special("time", "1970-01-01T02:00:00.5+01:00")) == {"t": ["7201/2", 3600, False]}
