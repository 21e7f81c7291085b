"""U28: what an overrides file wants of a document, and what of it is a person's."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from configdb_sync.configdb.edits import NoSuchKeyError
from configdb_sync.configdb.model import DocumentAddress
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import ABSENT, Json, same, value_digest
from configdb_sync.overrides.application import Action, Applier, DocumentPlan, freed, planned, put_all
from configdb_sync.overrides.file import Wanted
from configdb_sync.overrides.notes import Note

PLACE = DocumentAddress(5, (("nodes", "1"),), "globals", 1, innermost=True)
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
BY = Applier("tuning", "ann", NOW, prune=True)
BENEATH = {"nova": {"debug": False, "x": 1}, "top": 1}


def note(path: tuple[str, ...], value: Json, file: str | None = "tuning", reason: str | None = None) -> Note:
    return Note("/nodes/1/", "globals", path, value_digest(value), "bob", NOW, reason, file=file)


def want(key: str, value: Json, reason: str | None = None, until: str | None = None) -> Wanted:
    return Wanted("nodes=1", "globals", tuple(key.split(".")), value, reason, until)


def plan(overrides: dict[str, Json], wanted: list[Wanted], *notes: Note, by: Applier = BY) -> DocumentPlan:
    return planned(PLACE, (BENEATH, overrides), wanted, notes, by)


def actions(found: DocumentPlan) -> list[tuple[Action, str]]:
    return [(change.action, ".".join(change.path)) for change in found.changes]


def test_what_is_set_gets_a_note_of_the_file() -> None:
    found = plan({}, [want("nova.debug", True, reason="bug 1", until="2026-12-31T00:00:00Z"), want("new", 1)])
    assert [(change.before, change.after) for change in found.changes] == [(False, True), (ABSENT, 1)]
    until = datetime(2026, 12, 31, tzinfo=UTC)
    assert found.notes[0] == Note(
        "/nodes/1/", "globals", ("nova", "debug"), value_digest(True), "ann", NOW, "bug 1", until, "tuning"
    )


def test_what_is_there_already_stays_a_persons() -> None:
    assert actions(plan({"top": 2}, [want("top", 2)])) == []
    assert actions(plan({"top": 2}, [want("top", 2)], note(("top",), 2, None, reason="mine"))) == []
    found = plan({"top": 2}, [want("top", 2, reason="bug 2")], note(("top",), 2, None))
    assert actions(found) == [(Action.NOTE, "top")]
    assert [(one.file, one.reason, one.author) for one in found.notes] == [(None, "bug 2", "bob")]


def test_an_override_that_has_ended_is_set_anew() -> None:
    found = plan({"top": 2}, [want("top", 2)], replace(note(("top",), 2, None), until=NOW))
    assert actions(found) == [(Action.SET, "top")]
    assert [(one.file, one.until) for one in found.notes] == [("tuning", None)]


def test_a_reason_that_the_file_no_longer_has_goes() -> None:
    found = plan({"top": 2}, [want("top", 2)], note(("top",), 2, reason="old"))
    assert [(one.file, one.reason) for one in found.notes] == [("tuning", None)]


@pytest.mark.parametrize(
    "other",
    [
        note(("top",), 3),
        note(("top",), 2, None),
        note(("top",), 2, "another file"),
        replace(note(("top",), 2), place="/nodes/2/"),
        replace(note(("top",), 2), data_source="astute"),
    ],
)
def test_only_what_this_file_set_and_nobody_changed_is_removed(other: Note) -> None:
    assert plan({"top": 2}, [], note(("top",), 2)).removed == (("top",),)
    assert plan({"top": 2}, [], note(("top",), 2), by=replace(BY, prune=False)).removed == ()
    assert plan({"top": 2}, [], other).removed == ()


def test_a_block_in_which_a_person_set_a_key_is_kept() -> None:
    block = {"debug": True, "x": 2}
    found = plan({"nova": block}, [], note(("nova",), block), note(("nova", "x"), 2, None))
    assert (found.removed, found.kept) == ((), (("nova",),))
    assert found.named(("nova",)) == "nova of globals at /nodes/1/"


def test_a_block_becomes_a_key_of_it() -> None:
    block = {"debug": True, "x": 2}
    found = plan({"nova": block}, [want("nova.debug", True)], note(("nova",), block))
    assert actions(found) == [(Action.REMOVE, "nova"), (Action.SET, "nova.debug")]
    assert put_all(freed({"nova": block}, BENEATH, found.removed), lambda: BENEATH, found.wanted) == {
        "nova": {"debug": True, "x": 1}
    }


def test_a_key_becomes_its_block() -> None:
    overrides = {"nova": {"debug": True, "x": 1}}
    found = plan(overrides, [want("nova", {"debug": True})], note(("nova", "debug"), True))
    assert actions(found) == [(Action.SET, "nova")]


def test_what_cannot_be_set_is_refused_when_it_is_planned() -> None:
    with pytest.raises(NoSuchKeyError):
        plan({}, [want("top.x", 1)])
    with pytest.raises(SettingsError, match="no time"):
        plan({}, [want("top", 1, until="soon")])


keys = st.sampled_from([("a",), ("b", "x"), ("b", "y"), ("c", "x", "y")])
wanted_keys = st.dictionaries(keys, st.integers(0, 2), max_size=4)
blocks: st.SearchStrategy[Json] = st.dictionaries(st.sampled_from("xyz"), st.integers(0, 2) | st.just({}), max_size=2)
documents = st.fixed_dictionaries(
    {}, optional={"a": st.integers(0, 2), "b": blocks, "c": st.just({}) | st.just({"z": 1})}
)


@given(documents, documents, wanted_keys)
@example({"b": {"x": 0}}, {}, {("b", "x"): 0})
@example({"b": {"x": 0, "y": 1}}, {}, {("b", "x"): 0, ("b", "y"): 2})
def test_a_second_apply_has_nothing_to_do_and_an_empty_file_takes_all_away(
    beneath: dict[str, Json], overrides: dict[str, Json], given_: dict[tuple[str, ...], int]
) -> None:
    wanted = [Wanted("nodes=1", "globals", path, value) for path, value in given_.items()]
    first = planned(PLACE, (beneath, overrides), wanted, (), BY)
    after = put_all(overrides, lambda: beneath, wanted)
    later = replace(BY, now=NOW + timedelta(days=1))
    assert planned(PLACE, (beneath, after), wanted, first.notes, later).changes == ()
    assert all(same(one.value, _at(after, one.path)) for one in wanted)
    last = planned(PLACE, (beneath, after), [], first.notes, later)
    assert set(last.removed) == {change.path for change in first.changes}
    if not overrides:
        assert freed(after, beneath, last.removed) == {}


def _at(document: Json, path: tuple[str, ...]) -> Json:
    for part in path:
        document = document[part]
    return document
