"""JSON as ConfigDB holds it: strict, compared type for type, digests that agree with equality."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.jsonvalues import (
    EMPTY_DIGEST,
    MAX_DEPTH,
    ObjectReader,
    combine_digests,
    document_digest,
    dumps,
    loads,
    members,
    same,
    value_digest,
)

leaf = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=()), max_size=5),
    st.sampled_from([0, 1, 0.0, 1.0, -0.0, True, False, "", "1"]),
)
values = st.recursive(
    leaf,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)),
    max_leaves=8,
)


@given(values)
def test_what_is_written_reads_back_the_same(value: Any) -> None:
    assert same(loads(dumps(value)), value)


@given(values, values)
def test_digests_agree_with_equality(one: Any, other: Any) -> None:
    assert (value_digest(one) == value_digest(other)) == same(one, other)


@given(st.dictionaries(st.text(max_size=3), values, max_size=4), st.randoms())
def test_a_documents_digest_is_made_of_its_keys_in_any_order(document: dict[str, Any], random: Any) -> None:
    items = list(document.items())
    random.shuffle(items)
    assert document_digest(dict(items)) == document_digest(document)
    assert combine_digests((key, value_digest(value)) for key, value in items) == document_digest(document)
    assert (document_digest(document) == EMPTY_DIGEST) == (not document)


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", '{"a": -Infinity}', "1e400", "[1,]", "", "{'a': 1}", "[" * 100_000, '"\ud800']
)
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        loads(text)


def test_bytes_are_utf8_with_or_without_bom() -> None:
    assert loads(b'\xef\xbb\xbf{"a": "\xc3\xa4"}') == {"a": "ä"}
    with pytest.raises(ValueError, match="utf-8"):
        loads(b'{"a": "\xe4"}')


def test_depth_is_bounded() -> None:
    def nested(depth: int) -> str:
        return "[" * depth + "]" * depth

    loads(nested(MAX_DEPTH))
    with pytest.raises(ValueError, match="deep"):
        loads(nested(MAX_DEPTH + 2))


def test_big_integers_are_exact() -> None:
    number = 123456789012345678901234567890
    assert loads(json.dumps(number)) == number


def members_or_fault(text: str) -> Any:
    try:
        return {key: value for key, value, _ in members(text)}
    except ValueError:
        return ValueError


def loads_or_fault(text: str) -> Any:
    try:
        return loads(text)
    except ValueError:
        return ValueError


@given(st.dictionaries(st.text(max_size=3), values, max_size=4), st.sampled_from([None, 1]), st.booleans(), st.data())
def test_members_read_what_loads_reads(
    document: dict[str, Any], indent: int | None, only_ascii: bool, data: Any
) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=only_ascii)
    found = list(members(text))
    assert same({key: value for key, value, _ in found}, document)
    assert all(same(loads(own), value) for _, value, own in found)
    # Broken in one place, they refuse what loads refuses.
    place = data.draw(st.integers(1, len(text)))
    piece = data.draw(st.sampled_from(["", "}", "{", ",", ":", '"', " ", "]", "0", "\\", "NaN", "\x00"]))
    broken = text[:place] + piece + text[place + data.draw(st.integers(0, 1)) :]
    assert str(members_or_fault(broken)) == str(loads_or_fault(broken))


def loads_each(texts: list[str]) -> list[str]:
    reader = ObjectReader()
    return [str(reading_fault(reader, text)) for text in texts]


def reading_fault(reader: ObjectReader, text: str) -> Any:
    try:
        return reader.loads(text.encode(errors="surrogatepass"))
    except ValueError:
        return ValueError


@given(st.lists(st.dictionaries(st.sampled_from("abc"), values, max_size=3), max_size=5), st.sampled_from([None, 1]))
def test_a_reader_of_objects_reads_what_loads_reads(documents: list[dict[str, Any]], indent: int | None) -> None:
    texts = [json.dumps(document, indent=indent) for document in documents]
    assert loads_each(texts) == [str(loads(text)) for text in texts]


@pytest.mark.parametrize(
    "then",
    ['{"a":12}', '{"a":1.0}', '{"a":1', '{"a":1]', '{"a":1,}', '{"a":1 , "b":1}', '{"a":1}x', '{"a":1,"a":2}', "1"],
)
def test_a_value_that_begins_as_one_before_is_not_taken_for_it(then: str) -> None:
    assert loads_each(['{"a":1}', then])[1] == str(loads_or_fault(then))


def test_equal_members_of_two_objects_are_the_same_value() -> None:
    reader = ObjectReader()
    one, other = reader.loads('{"a":{"x":[1]},"b":[1]}'), reader.loads('{"b": [2], "a":{"x":[1]} }')
    assert (one, other) == ({"a": {"x": [1]}, "b": [1]}, {"b": [2], "a": {"x": [1]}})
    assert one["a"] is other["a"]
    nested = '{"a":' + "[" * MAX_DEPTH + "]" * MAX_DEPTH + "}"
    with pytest.raises(ValueError, match="deep"):
        reader.loads(nested)


def test_members_give_a_key_each_time_it_is_there() -> None:
    assert list(members(' {"a" : [1, 2] ,"a":{"b":1.0}}\n')) == [
        ("a", [1, 2], "[1, 2]"),
        ("a", {"b": 1.0}, '{"b":1.0}'),
    ]
    assert list(members("{ }")) == []
    with pytest.raises(ValueError, match="deep"):
        list(members('{"a":' + "[" * 100_000))
