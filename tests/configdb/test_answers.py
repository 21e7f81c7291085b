"""What answers say: hostile bytes give values or ``ValueError``, and no text shows what it must not."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.configdb import model
from configdb_sync.configdb.model import Component, Definition, Environment, Etags
from configdb_sync.http import json_bodies
from configdb_sync.http.transport import HttpAnswer
from tests.configdb import support

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.dictionaries(st.text(max_size=5), inner, max_size=3) | st.lists(inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["id", "name", "component_id", "resource_definitions", "components", "hierarchy_levels", "x"])
SHAPES = st.recursive(JSON, lambda inner: st.dictionaries(NAMES, inner) | st.lists(inner, max_size=2), max_leaves=8)


def _refusal(read: Callable[[], object]) -> str | None:
    try:
        read()
    except ValueError as error:
        return str(error)
    return None


@given(
    st.binary(max_size=60), st.sampled_from(["application/json", "APPLICATION/JSON; charset=utf-8", "text/html", ""])
)
def test_any_body_is_read_or_refused(body: bytes, kind: str) -> None:
    text = _refusal(lambda: json_bodies.decode(HttpAnswer(200, {"content-type": kind}, body)))
    assert text is None or text.isprintable()


@given(SHAPES)
def test_any_shape_is_read_or_refused(value: Any) -> None:
    for parse in (
        model.document,
        model.definition,
        model.component,
        model.components,
        model.definitions,
        model.environment,
        model.lookup,
        model.etags,
    ):
        text = _refusal(functools.partial(parse, value))
        assert text is None or text.isprintable()


def test_objects_of_the_api() -> None:
    component = {
        "id": 1,
        "name": "fuel9.0",
        "resource_definitions": [
            {"id": 2, "name": "b", "component_id": 1, "content": None},
            {"id": 1, "name": "globals", "component_id": 1, "content": {"x": 1}},
        ],
    }
    assert model.component(component) == Component(1, "fuel9.0", (Definition(1, "globals", 1), Definition(2, "b", 1)))
    assert model.environment({"id": 5, "components": [1], "hierarchy_levels": ["nodes"]}) == Environment(
        5, (1,), ("nodes",)
    )
    assert model.lookup({"a": [1, "/"]}) == {"a": (1, "/")}
    assert model.etags({"3": {"values": "a", "overrides": "b", "effective": "c"}}) == {3: Etags("a", "b", "c")}


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"message": "x"},
        {"status": 500},
        {"status": "error", "message": "x"},
        {"error": {"code": "x"}},
        {"error": 1},
    ],
)
def test_documents_that_only_look_like_errors(document: dict[str, Any]) -> None:
    if document == {"status": 500}:
        with pytest.raises(ValueError, match="status 500"):
            model.document(document)
        return
    assert model.document(document) == document


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('{"message": "Internal Server Error", "status": 404}', ""),
        ('{"msg": "Environment not found by id 9"}', "Environment not found by id 9"),
        ('{"error": {"code": 401, "title": "Unauthorized", "message": "authenticate"}}', "authenticate"),
        ('{"msg": "a", "message": "b", "status": 404}', "a"),
        ('{"msg": "dup [SQL: INSERT] [parameters: {x}]"}', "dup"),
        ('{"msg": 5}', ""),
        ("[1]", ""),
        ("no", ""),
    ],
)
def test_messages_in_their_three_shapes(body: str, text: str) -> None:
    assert json_bodies.message(support.json(500, body)) == text


@given(st.text(min_size=6, max_size=30), st.text(max_size=20), st.text(max_size=20))
def test_no_word_that_was_sent_comes_back(secret: str, before: str, after: str) -> None:
    """Y20."""
    said = json.dumps({"message": f"{before} {secret} {after}"})
    shown = json_bodies.message(support.json(400, said), secrets=json.dumps({"password": secret}).encode())
    words = [word for word in secret.split() if len(word) >= 6 and word.isalnum()]
    assert not any(word in shown and word not in "***" for word in words) or any(
        word in (before + after) for word in words
    )
    assert len(shown) <= json_bodies.MESSAGE_LIMIT
    assert shown.isprintable()
