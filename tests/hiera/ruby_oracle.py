"""One long-lived Ruby that says what Psych reads, and our own reading told in the same words."""

from __future__ import annotations

import base64
import json
import os
import shutil
import struct
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.errors import DocumentError
from configdb_sync.hiera.documents import HieraDocument, Reader
from configdb_sync.hiera.marks import typed, typed_key
from configdb_sync.hiera.scalars import Special
from configdb_sync.jsonvalues import Json

_SCRIPT = Path(__file__).with_name("ruby_oracle.rb")
_BATCH = 40


class RubyOracle:
    """Asks one Ruby process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def read(self, texts: Sequence[bytes]) -> list[Any]:
        """Return for each text ``{"ok": told}`` or ``{"error": class}``."""
        answers: list[Any] = []
        for start in range(0, len(texts), _BATCH):
            asked = [base64.b64encode(text).decode("ascii") for text in texts[start : start + _BATCH]]
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            answers += json.loads(self._process.stdout.readline())
        return answers

    def read_one(self, text: bytes) -> Any:
        """Return what Ruby reads from one text; fails if it can't."""
        (answer,) = self.read([text])
        return answer["ok"]


@contextmanager
def ruby_oracle() -> Iterator[RubyOracle]:
    """Give a running oracle; skips where there is no Ruby."""
    ruby = shutil.which("ruby")
    if ruby is None:
        pytest.skip("Ruby is not installed: no ruby on PATH")
    # The node's own zone is that of Ruby; UTC, so that times without a zone can be compared.
    command = [ruby, "-W0", str(_SCRIPT)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, "TZ": "UTC"}
    ) as process:
        yield RubyOracle(process)
        assert process.stdin is not None
        process.stdin.close()


def outcome(reader: Reader, raw: bytes) -> HieraDocument | DocumentError:
    """Return what our reader makes of a file: the document, or the error that refuses it."""
    try:
        return reader.read(raw)
    except DocumentError as error:
        return error


def told_document(document: HieraDocument) -> Any:
    """Return a document as the oracle tells it."""
    return told_typed(document.values, document.type_marks())


def told_typed(values: Mapping[str, Json], marks: Mapping[str, Json]) -> Any:
    """Return values with their type marks as the oracle tells them."""
    pairs = []
    for key, value in values.items():
        found = marks.get(key, {})
        pairs.append([told(typed_key(key, found.get("key"))), told(typed(value, found.get("value")))])
    return {"h": pairs}


def told(value: Any) -> Any:
    """Return a value, ``Special`` included, as the oracle tells it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return {"i": str(value)}
    if isinstance(value, float):
        return {"f": struct.pack(">d", value).hex()}
    if isinstance(value, str):
        return {"s": value}
    if isinstance(value, list):
        return {"a": [told(item) for item in value]}
    if isinstance(value, dict):
        return {"h": [[told(key), told(item)] for key, item in value.items()]}
    assert isinstance(value, Special)
    return _told_special(value)


def _told_special(value: Special) -> Any:
    if value.kind == "symbol":
        return {"y": value.text[1:]}
    if value.kind == "integer":
        return {"i": value.text}
    if value.kind == "date":
        return {"d": value.text}
    text, utc = value.text, value.text.endswith("Z")
    text = text.removesuffix("Z")
    offset = timedelta()
    if not utc and text[-6] in "+-":
        sign = -1 if text[-6] == "-" else 1
        offset = sign * timedelta(hours=int(text[-5:-3]), minutes=int(text[-2:]))
        text = text[:-6]
    text, _, fraction = text.partition(".")
    moment = datetime.fromisoformat(text).replace(tzinfo=UTC) - offset
    seconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1)
    instant = Fraction(seconds) + (Fraction(int(fraction), 10 ** len(fraction)) if fraction else 0)
    return {"t": [f"{instant.numerator}/{instant.denominator}", offset // timedelta(seconds=1), utc]}
