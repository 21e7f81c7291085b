"""Whole documents as Ruby reads them, and what was written (U11, U19): odd ones by the thousand, and real ones."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.errors import DocumentError
from configdb_sync.hiera.documents import Reader, created
from configdb_sync.jsonvalues import document_digest, dumps, same
from tests.hiera.ruby_oracle import RubyOracle, outcome, told, told_document
from tests.hiera.yaml_generation import document, json_document
from tests.support import fixtures

# Where we refuse what Ruby would take: documented limits of what is carried.
_REFUSALS = (
    "second document",
    "the tag ",
    "outside of the years",
    "a day that its month",
    "more digits",
    "byte order mark",
    "has a key that is neither",
    "also stands in line",
    "can't carry",
    "NUL",
    "into itself",
    "one key",
)


def _read_as_ruby(ruby: RubyOracle, texts: list[str]) -> int:
    """Compare both readings of each text; return how many held a mapping with keys."""
    reader = Reader()
    raw = [text.encode() for text in texts]
    mappings = 0
    for text, source, answer in zip(texts, raw, ruby.read(raw), strict=True):
        found = outcome(reader, source)
        if isinstance(found, DocumentError):
            refused = any(reason in found.what for reason in _REFUSALS)
            assert refused or "h" not in _mapping(answer), (text, answer, found.what)
            continue
        if not found.values:
            assert answer.get("ok") in (None, False, {"h": []}), (text, answer)
            continue
        mappings += 1
        assert answer.get("ok") == told_document(found), text
        assert found.json_bytes() == dumps(found.values).encode()
        assert found.digest == document_digest(found.values)
    return mappings


def _mapping(answer: Any) -> dict[str, Any]:
    found = answer.get("ok")
    return found if isinstance(found, dict) else {}


@pytest.mark.parametrize("seed", range(4))
def test_odd_documents_as_ruby(ruby: RubyOracle, seed: int) -> None:
    draw = random.Random(seed)
    assert _read_as_ruby(ruby, [document(draw) for _ in range(1000)]) > 200


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1040))
def test_very_many_odd_documents_as_ruby(ruby: RubyOracle, seed: int) -> None:
    draw = random.Random(seed)
    assert _read_as_ruby(ruby, [document(draw) for _ in range(5000)])


def _written_as_meant(ruby: RubyOracle, documents: list[dict[str, Any]]) -> None:
    raw = [created(values) for values in documents]
    for values, source, answer in zip(documents, raw, ruby.read(raw), strict=True):
        assert answer.get("ok") == told(values), source


@pytest.mark.parametrize("seed", range(2))
def test_created_documents_as_ruby(ruby: RubyOracle, seed: int) -> None:
    """Y12: strings that the rules would take for something else, numbers, keys, nesting: type for type, in order."""
    draw = random.Random(seed)
    _written_as_meant(ruby, [json_document(draw) for _ in range(1000)])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1020))
def test_very_many_created_documents_as_ruby(ruby: RubyOracle, seed: int) -> None:
    draw = random.Random(seed)
    _written_as_meant(ruby, [json_document(draw) for _ in range(3000)])


def _rewritten_as_meant(ruby: RubyOracle, seed: int, count: int) -> int:
    """Change, add or take out keys of odd documents: Ruby reads the target, and going back gives the bytes."""
    draw = random.Random(seed)
    reader = Reader()
    written: list[tuple[str, bytes, Any]] = []
    while len(written) < count:
        source = document(draw)
        found = outcome(reader, source.encode())
        if isinstance(found, DocumentError):
            continue
        target = dict(found.values)
        for _ in range(draw.randint(1, 2)):
            key = draw.choice([*target, "new"])
            value: Any = draw.choice((1, "x", {"a": ["b", None]}, [], ":sym", "2016-01-01", target.get(key)))
            if draw.random() < 0.2:
                target.pop(key, None)
            else:
                target[key] = value
        result = found.rewritten(target)
        again = reader.read(result.raw)
        assert same(dict(again.values), target), source
        assert again.rewritten(target, result.kept) == result, source
        back = again.rewritten(found.values, result.kept)
        assert (back.raw, dict(back.kept)) == (source.encode(), {}), source
        written.append((source, result.raw, told_document(again)))
    for (source, raw, meant), answer in zip(written, ruby.read([raw for _, raw, _ in written]), strict=True):
        assert answer.get("ok") in ([meant] if meant["h"] else [meant, None, False]), (source, raw)
    return len(written)


@pytest.mark.parametrize("seed", range(2))
def test_rewritten_documents_as_ruby(ruby: RubyOracle, seed: int) -> None:
    assert _rewritten_as_meant(ruby, seed, 500)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1020))
def test_very_many_rewritten_documents_as_ruby(ruby: RubyOracle, seed: int) -> None:
    assert _rewritten_as_meant(ruby, seed, 2000)


def _real_files() -> list[Path]:
    found = sorted((fixtures.require_data() / "clusters").rglob("*.yaml"))
    return [path for path in found if b"\n" in path.read_bytes()]


def _kinds(paths: list[Path]) -> list[Path]:
    """Return one file of each name in each environment: the nodes' differ little."""
    return list({(path.parts[path.parts.index("clusters") + 1], path.name): path for path in paths}.values())


def test_real_files_as_ruby(ruby: RubyOracle) -> None:
    assert _read_as_ruby(ruby, [path.read_text(encoding="utf-8") for path in _real_files()]) >= 28


def _each_key_rewritten(ruby: RubyOracle, path: Path) -> int:
    """Give each top-level key another value: Ruby reads just that, in order; going back is to the byte."""
    raw = path.read_bytes()
    reader = Reader()
    found = reader.read(raw)
    parts = told(dict(found.values))["h"]
    results = []
    for index, (key, value) in enumerate(found.values.items()):
        new = {"was": value, "list": ["10,20", {":sym": 1.0}], "0:0": None}
        result = found.rewritten({**found.values, key: new})
        results.append((result, [*parts[:index], [told(key), told(new)], *parts[index + 1 :]]))
    for (result, pairs), answer in zip(results, ruby.read([result.raw for result, _ in results]), strict=True):
        assert answer["ok"] == {"h": pairs}, path
        back = reader.read(result.raw).rewritten(found.values, result.kept)
        assert (back.raw, back.kept) == (raw, {}), path
    return len(results)


def test_rewriting_each_key_of_each_kind_of_real_file_as_ruby(ruby: RubyOracle) -> None:
    assert sum(_each_key_rewritten(ruby, path) for path in _kinds(_real_files())) > 300


@pytest.mark.long
def test_rewriting_each_key_of_every_real_file_as_ruby(ruby: RubyOracle) -> None:
    assert sum(_each_key_rewritten(ruby, path) for path in _real_files()) > 900
