"""Contents (U17): the text as it was meant, the digest of the value, whatever was known before."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.configdb_server import contents
from configdb_sync.jsonvalues import document_digest, dumps, same, value_digest
from configdb_sync.web.refusals import RefusalError

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
DOCUMENTS = st.dictionaries(st.text(max_size=3), VALUES, max_size=4)


def holds_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any("\0" in key or holds_nul(child) for key, child in value.items())
    return any(map(holds_nul, value)) if isinstance(value, list) else isinstance(value, str) and "\0" in value


@given(DOCUMENTS, st.sampled_from([None, 1]), st.booleans())
def test_a_content_is_the_document(document: dict[str, Any], indent: int | None, only_ascii: bool) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=only_ascii)
    if holds_nul(document):
        with pytest.raises(RefusalError):
            contents.content_of_text(text)
        with pytest.raises(RefusalError):
            contents.content_of(document)
        return
    # A second time everything is known.
    for content in (contents.content_of(document), contents.content_of_text(text), contents.content_of_text(text)):
        assert content.text == dumps(document)
        assert content.digest == document_digest(document)
        assert dict(content.key_digests) == {key: value_digest(value) for key, value in document.items()}
        row = contents.columns_of(content)
        assert same(contents.document_of(row["body"]), document)
        assert contents.digests_of(row["key_digests"]) == content.key_digests


def test_of_a_key_given_twice_the_last_value_holds_at_the_first_place() -> None:
    text = '{"a":1,"b":{"c":1,"c":2},"a":3}'
    for _ in range(2):
        content = contents.content_of_text(text)
        assert content.text == '{"a":3,"b":{"c":2}}'
        assert content.digest == document_digest({"a": 3, "b": {"c": 2}})


def test_what_is_known_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    known: dict[bytes, tuple[str, bool]] = {}
    monkeypatch.setattr(contents, "_known", known)
    monkeypatch.setattr(contents, "_MOST_KNOWN", 3)
    for number in range(10):
        assert contents.content_of_text(f'{{"a":{number}}}').digest == document_digest({"a": number})
        assert len(known) <= 3


def test_depth_counts_the_whole_document() -> None:
    for depth, good in ((199, True), (200, False)):
        for _ in range(2):
            text = '{"a":' + "[" * depth + "1" + "]" * depth + "}"
            if good:
                contents.content_of_text(text)
            else:
                with pytest.raises(ValueError, match="deep"):
                    contents.content_of_text(text)


def test_texts_name_types_as_json_does() -> None:
    values: list[Any] = [{}, [], "", 1, 1.5, True, None]
    assert [contents.type_name(value) for value in values] == [
        "an object",
        "an array",
        "a string",
        "a number",
        "a number",
        "a boolean",
        "null",
    ]
