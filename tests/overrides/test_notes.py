"""U27: a note holds for the value that it was made for, survives changes of other keys, and comes to its end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import value_digest
from configdb_sync.overrides.notes import Note, from_records, noted, of_key, parse_end, to_records, without

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def note(path: tuple[str, ...] = ("debug",), value: object = True, place: str = "/nodes/1/", **more: object) -> Note:
    return Note(place, "globals", path, value_digest(value), "ann", NOW, **more)  # type: ignore[arg-type]


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
times = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1)).map(lambda t: t.replace(microsecond=0, tzinfo=UTC))
notes = st.builds(
    Note,
    texts,
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
    [None, 5, {}, [5], [{}], [{"place": "/", "data_source": "a", "digest": "", "author": "", "key": [1], "time": "x"}]],
)
def test_what_others_wrote_there_is_no_note(found: object) -> None:
    assert from_records({"notes": found}) == ()


def test_a_change_of_another_key_loses_no_note() -> None:
    both = noted(noted((), note(("a",))), note(("b",)))
    assert {one.path for one in both} == {("a",), ("b",)}
    again = noted(both, note(("a",), reason="new"))
    assert [one.reason for one in sorted(again, key=lambda one: one.path)] == ["new", None]


def test_a_whole_block_takes_the_place_of_its_parts() -> None:
    parts = noted(noted((), note(("nova", "debug"))), note(("nova", "x")))
    assert [one.path for one in noted(parts, note(("nova",)))] == [("nova",)]
    assert [one.path for one in without(parts, "/nodes/1/", "globals", ("nova", "x"))] == [("nova", "debug")]
    assert without(parts, "/nodes/1/", "globals") == ()
    assert len(without(parts, "/", "globals")) == 2


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
    ],
)
def test_what_is_no_end_is_refused(until: str | None, duration: str | None, part: str) -> None:
    with pytest.raises(SettingsError, match=part):
        parse_end(until, duration, NOW, UTC)
