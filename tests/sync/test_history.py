"""U17: what our own records say of a document's versions."""

from __future__ import annotations

import json
import zlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.configdb.model import DocumentVersion
from configdb_sync.jsonvalues import EMPTY_DIGEST, document_digest, unpacked
from configdb_sync.store.versions import BY_OTHERS, is_by_others, pack, time_text
from configdb_sync.sync.history import with_present

leaf = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text())
values = st.recursive(leaf, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3))
documents = st.dictionaries(st.text(), values, max_size=4)
OURS = DocumentVersion(3, "2026-01-02T03:04:05.000000+00:00", "ann", "req-1", "why", "d3")


@given(documents)
def test_a_document_comes_back_with_its_key_order(document: dict[str, Any]) -> None:
    content = pack(document)
    found = unpacked(content.body)
    assert json.dumps(found) == json.dumps(document)
    assert content.digest == document_digest(found)
    assert pack(found) == content


def test_equal_documents_in_another_order_are_two_contents_with_one_digest() -> None:
    one, other = pack({"a": 1, "b": 2}), pack({"b": 2, "a": 1})
    assert one.digest == other.digest
    assert one.address != other.address
    assert zlib.decompress(one.body) == b'{"a":1,"b":2}'


def test_others_show_by_what_we_did_not_leave() -> None:
    assert not is_by_others(None, EMPTY_DIGEST)
    assert is_by_others(None, "x")
    assert not is_by_others("x", "x")
    assert is_by_others("x", EMPTY_DIGEST)


def test_the_document_that_is_there_is_the_newest_version() -> None:
    assert with_present([OURS], "d3", 0.0) == [OURS]
    assert with_present([], EMPTY_DIGEST, 0.0) == []
    first, *rest = with_present([OURS], "other", 1.5)
    assert rest == [OURS]
    assert first == DocumentVersion(4, "1970-01-01T00:00:01.500000+00:00", None, None, BY_OTHERS, "other")
    assert [version.number for version in with_present([], "other", 0.0)] == [1]


def test_times_are_utc_to_the_microsecond() -> None:
    assert time_text(0) == "1970-01-01T00:00:00.000000+00:00"
    assert time_text(1767225600.25) == "2026-01-01T00:00:00.250000+00:00"
