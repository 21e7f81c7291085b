"""U27: a note holds for the value that it was made for, survives changes of other keys, and comes to its end."""

from __future__ import annotations

import time as clock
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import value_digest
from configdb_sync.names import levels_of, place_of
from configdb_sync.overrides.notes import (
    Note,
    after_change,
    from_records,
    of_key,
    parse_end,
    to_records,
    with_announced,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def note(path: tuple[str, ...] = ("debug",), value: object = True, place: str = "/nodes/1/", **more: object) -> Note:
    return Note(place, "globals", path, value_digest(value), "ann", NOW, **more)  # type: ignore[arg-type]


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
times = st.integers(1_500_000_000, 2_500_000_000).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/"), min_size=1, max_size=5)
places = st.lists(st.tuples(names, names), max_size=2).map(place_of)
notes = st.builds(
    Note,
    places,
    texts,
    st.lists(texts, min_size=1, max_size=3).map(tuple),
    texts,
    texts,
    times,
    st.none() | texts,
    st.none() | times,
    st.none() | texts,
)


@given(
    st.lists(notes, max_size=5, unique_by=lambda one: one.address), st.dictionaries(texts, st.integers(), max_size=2)
)
def test_records_hold_all_of_a_note_and_what_is_beside(found: list[Note], rest: dict[str, int]) -> None:
    rest.pop("notes", None)
    document = to_records({**rest, "notes": "someone's"}, found)
    assert set(from_records(document)) == set(found)
    assert {key: value for key, value in document.items() if key != "notes"} == rest


@pytest.mark.parametrize(
    "found",
    [
        *(None, 5, {}, [5], [{}]),
        [{"place": "/", "data_source": "a", "digest": "", "author": "", "key": [1], "time": "2026-11-30T00:00Z"}],
        [{"place": "/", "data_source": "a", "digest": "", "author": "", "key": ["a"], "time": "x"}],
        [{"place": "/a/", "data_source": "a", "digest": "", "author": "", "key": ["a"], "time": "2026-11-30T00:00Z"}],
        [
            {
                "place": "/",
                "data_source": "a",
                "digest": "",
                "author": "",
                "key": ["a"],
                "time": "9999-12-31T23:59-12:00",
            }
        ],
    ],
)
def test_what_others_wrote_there_is_no_note(found: object) -> None:
    assert from_records({"notes": found}) == ()


def test_the_nearest_note_covers_a_key() -> None:
    both = (note(("nova",), reason="block"), note(("nova", "debug"), reason="leaf"))
    found = [of_key(both, "/nodes/1/", "globals", path) for path in (("nova", "debug"), ("nova", "x"), ("debug",))]
    assert [one and one.reason for one in found] == ["leaf", "block", None]


def test_a_note_holds_only_for_its_value() -> None:
    one = note(("nova", "debug"), True)
    assert one.holds({"nova": {"debug": True, "x": 1}})
    assert not one.holds({"nova": {"debug": 1}})
    assert not one.holds({"nova": True})


def test_an_end_comes() -> None:
    one = note(until=NOW)
    assert one.expired(NOW)
    assert not one.expired(NOW - timedelta(seconds=1))
    assert not note().expired(NOW)


@pytest.mark.parametrize(
    ("until", "duration", "expected"),
    [
        (None, None, None),
        (None, "8h", NOW + timedelta(hours=8)),
        (None, "7d", NOW + timedelta(days=7)),
        (None, "30m", NOW + timedelta(minutes=30)),
        (None, "2w", NOW + timedelta(weeks=2)),
        ("2026-12-31", None, datetime(2027, 1, 1, tzinfo=timezone(timedelta(hours=1)))),
        ("2026-12-31T18:00", None, datetime(2026, 12, 31, 18, tzinfo=timezone(timedelta(hours=1)))),
        ("2026-12-31T18:00+00:00", None, datetime(2026, 12, 31, 18, tzinfo=UTC)),
    ],
)
def test_ends(until: str | None, duration: str | None, expected: datetime | None) -> None:
    assert parse_end(until, duration, NOW, timezone(timedelta(hours=1))) == expected


@pytest.mark.parametrize(
    ("until", "duration", "part"),
    [
        ("2026-12-31", "8h", "both"),
        (None, "8", "8"),
        (None, "0h", "0h"),
        (None, "99999999h", "duration"),
        ("tomorrow", None, "tomorrow"),
        ("2026-11-01", None, "past"),
        ("", None, "no time"),
        ("9999-12-31", None, "no time"),
    ],
)
def test_what_is_no_end_is_refused(until: str | None, duration: str | None, part: str) -> None:
    with pytest.raises(SettingsError, match=part):
        parse_end(until, duration, NOW, UTC)


def test_a_time_without_a_zone_is_this_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    clock.tzset()
    try:
        assert parse_end("2027-01-15T18:00", None, NOW) == datetime(2027, 1, 15, 17, tzinfo=UTC)
        assert parse_end("2027-07-15T18:00", None, NOW) == datetime(2027, 7, 15, 16, tzinfo=UTC)
    finally:
        monkeypatch.undo()
        clock.tzset()


GLOBALS = ("/nodes/1/", "globals")


def test_a_change_below_a_key_leaves_its_note_and_the_others() -> None:
    before = {"nova": {"debug": False, "x": 1}, "a": 1}
    after = {"nova": {"debug": True, "x": 1}, "a": 1}
    block, other = note(("nova",), before["nova"], until=NOW), note(("a",), 1)
    elsewhere = note(("nova",), before["nova"], place="/")
    new = note(("nova", "debug"))
    found = after_change((block, other, elsewhere), GLOBALS, new.path, (before, after), (new,))
    assert [one.path for one in found if one.holds(after)] == [("nova",), ("a",), ("nova", "debug")]
    assert [one.until for one in found if one.path == ("nova",) and one.holds(after)] == [NOW]
    assert elsewhere in found
    assert after_change((block,), GLOBALS, new.path, (before, {})) == (block,)
    stale = replace(block, digest="another")
    assert after_change((stale,), GLOBALS, new.path, (before, after)) == (stale,)


def test_a_change_takes_the_place_of_its_key_and_of_those_below() -> None:
    both = note(("nova", "debug")), note(("a",), 1)
    new = note(("nova",), {"debug": True})
    assert after_change(both, GLOBALS, ("nova",), ({}, {}), (new,)) == (both[1], new)
    assert after_change(both, GLOBALS, None, ({}, {})) == ()


def test_until_the_change_is_made_the_old_note_holds() -> None:
    old, new = note(("a",), 1, until=NOW), note(("a",), 2)
    both = with_announced((old,), (new,))
    assert [one for one in both if one.holds({"a": 1})] == [old]
    assert [one for one in both if one.holds({"a": 2})] == [new]
    assert with_announced((old,), (replace(old, until=None),)) == (replace(old, until=None),)


def test_the_levels_of_a_note() -> None:
    assert levels_of(note(place="/").place) == ()
    assert levels_of(note(place="/cluster/1/nodes/46/").place) == (("cluster", "1"), ("nodes", "46"))
