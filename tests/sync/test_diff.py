"""U20: what changes is shown leaf by leaf, without secrets."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.jsonvalues import same, value_digest
from configdb_sync.masking import Masker
from configdb_sync.overrides.notes import Note
from configdb_sync.sync.diff import LONGEST_SHOWN, changes, new_keys, noted
from configdb_sync.sync.render.wording import change_text

MASKER = Masker(b"k" * 32)
leaf = st.one_of(st.none(), st.booleans(), st.integers(0, 2), st.text(max_size=3))
values = st.recursive(
    leaf, lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(st.text(max_size=2), inner, max_size=3))
)
documents = st.dictionaries(st.text(max_size=2), values, max_size=3)


def shown(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    return [change_text(change) for change in changes(before, after, MASKER)]


@given(documents, documents)
def test_there_are_changes_exactly_where_documents_differ(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert (changes(before, after, MASKER) == ()) == same(before, after)


def test_leaves_blocks_and_lists() -> None:
    before = {"nova": {"debug": False, "workers": 4}, "gone": [1], "kind": 1, "n": 1, "was": {"a": {"b": 1}}, "e": {}}
    after = {
        "nova": {"debug": True, "workers": 4},
        "kind": {"a": 1},
        "n": 1.0,
        "new": {"a": 1, "b": {"c": 2, "d": {}, "password": "CANARY"}},
        "was": 2,
        "e": {"a": 1},
    }
    assert shown(before, after) == [
        "~ nova.debug: false -> true",
        "- kind: 1",
        "+ kind.a: 1",
        "~ n: 1 -> 1.0",
        "+ new.a: 1",
        "+ new.b.c: 2",
        "+ new.b.d: {}",
        f'+ new.b.password: "{MASKER.token("CANARY")}"',
        "- was.a.b: 1",
        "+ was: 2",
        "+ e.a: 1",
        "- gone: [1]",
    ]


def test_a_first_upload_is_counted_by_its_blocks() -> None:
    found = new_keys({"a": {"b": 1, "c": 2}, "password": "CANARY"}, MASKER)
    assert [change_text(one) for one in found] == ["+ a: {2 keys}", f'+ password: "{MASKER.token("CANARY")}"']


def test_keys_show_as_the_options_take_them() -> None:
    assert shown({}, {"a.b": {"c": 1}, "d\n": 2}) == ['+ ["a.b", "c"]: 1', "+ d\\u000a: 2"]


def test_secrets_do_not_show_but_their_change_does() -> None:
    lines = shown({"password": "CANARY-7f3"}, {"password": "CANARY-8a1"})
    assert "CANARY" not in str(lines)
    before, after = lines[0].removeprefix("~ password: ").split(" -> ")
    assert before != after


def test_a_list_of_secrets_is_one_secret() -> None:
    assert "CANARY" not in str(shown({}, {"tokens": ["CANARY", {"x": "CANARY"}]}))


def test_long_and_hostile_texts_are_made_harmless() -> None:
    (line,) = shown({}, {"a": "x" * 1000})
    assert len(line) < LONGEST_SHOWN + 20
    (line,) = shown({}, {"a": "\x1b[31m\u202e\u2028"})
    assert line.isprintable()
    (line,) = shown({}, {"a\x1b]0;title\x07": 1})
    assert line.isprintable()


def test_a_change_has_the_note_of_the_override_that_gives_it() -> None:
    made = datetime(2026, 1, 1, tzinfo=UTC)

    def note(place: str, *path: str, value: Any = 1) -> Note:
        return Note(place, "globals", path, value_digest(value), "anna", made)

    upper, block = note("/", "a"), note("/nodes/1/", "b", value={"c": 1})
    notes = [upper, block, note("/", "own"), note("/", "old", value=2), replace(upper, data_source="astute")]
    root: tuple[str, dict[str, Any], dict[str, Any]] = ("/", {}, {"a": 1, "own": 1, "old": 1, "b": 1})
    node = ("/nodes/1/", {"own": 3}, {"b": {"c": 1}})
    found = changes({}, {"a": 1, "own": 3, "old": 1, "b": {"c": 1}, "free": 1}, MASKER)
    assert [change.note for change in noted(found, notes, "globals", [root, node])] == [upper, None, None, block, None]
