"""U27: notes are kept in the environment's own records, else in the product's own database, and none is lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from configdb_sync.configdb import changes
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.connect import connect
from configdb_sync.configdb.model import OVERRIDES
from configdb_sync.jsonvalues import value_digest
from configdb_sync.names import RECORDS
from configdb_sync.overrides.note_store import NoteStore, rewrite_noted
from configdb_sync.overrides.notes import Note, to_json
from configdb_sync.store import versions
from configdb_sync.store.opening import open_store

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ENV = 7


def note(key: str, value: object = True, until: datetime | None = None) -> Note:
    return Note("/nodes/1/", "globals", tuple(key.split(".")), value_digest(value), "ann", NOW, until=until)


@pytest.fixture
def client(tmp_path: Path) -> Iterator[ConfigDBClient]:
    with connect("embedded", database_url=f"sqlite:///{tmp_path}/configdb.sqlite") as found:
        component = found.create_component("admin/7", ["globals"])
        found.create_environment(ENV, [component.id], ["nodes"])
        yield found


@pytest.fixture
def store(client: ConfigDBClient, tmp_path: Path) -> Iterator[NoteStore]:
    with closing(open_store(f"sqlite:///{tmp_path}/own.sqlite")) as database:
        yield NoteStore(client, database)


def add_records(client: ConfigDBClient) -> None:
    environment = client.environment(ENV)
    assert environment is not None
    client.attach_component(environment, client.create_component("/configdb-sync/7", [RECORDS]).id)


def records(client: ConfigDBClient) -> dict[str, object]:
    place = changes.find(client, ENV, (), RECORDS)
    return changes.read(client, place, "values")


def test_notes_move_into_the_environment_once_it_has_a_place_for_them(store: NoteStore, client: ConfigDBClient) -> None:
    store.change(ENV, lambda found: (*found, note("a")))
    assert store.read(ENV) == (note("a"),)
    assert versions.read_notes(store.database, client.base, ENV) != {}
    add_records(client)
    place = changes.find(client, ENV, (), RECORDS)
    changes.rewrite(client, place, changes.setting(client, place, ("tenant",), "admin"))
    assert store.read(ENV) == (note("a"),)
    store.change(ENV, lambda found: (*found, note("b")))
    assert store.read(ENV) == (note("a"), note("b"))
    assert records(client) == {"tenant": "admin", "notes": [to_json(note("a")), to_json(note("b"))]}
    assert versions.read_notes(store.database, client.base, ENV) == {}
    store.change(ENV, lambda _: ())
    assert records(client) == {"tenant": "admin"}


def test_an_environment_that_is_not_there_has_none(store: NoteStore) -> None:
    assert store.read(8) == ()


def test_what_others_change_at_the_same_time_is_kept(store: NoteStore, client: ConfigDBClient) -> None:
    add_records(client)
    others = iter(["x", "y"])

    def add(found: object) -> tuple[Note, ...]:
        assert isinstance(found, tuple)
        if (name := next(others, None)) is not None:
            store.change(ENV, lambda now: (*now, note(name)))
        return (*found, note("a"))

    store.change(ENV, add)
    assert {one.path for one in store.read(ENV)} == {("a",), ("x",), ("y",)}


@pytest.mark.parametrize("recorded", [True, False])
def test_an_override_goes_with_its_note(store: NoteStore, client: ConfigDBClient, recorded: bool) -> None:
    if recorded:
        add_records(client)
    place = changes.find(client, ENV, (("nodes", "1"),), "globals")

    def put(key: str, value: object, until: datetime | None = None) -> None:
        def made(document: dict[str, object]) -> dict[str, object]:
            top, *rest = key.split(".")
            return {**document, top: {**document[top], rest[0]: value} if rest else value}  # type: ignore[dict-item]

        rewrite_noted(store, place, tuple(key.split(".")), made, (note(key, value, until),))

    put("nova", {"debug": False, "x": 1}, NOW)
    put("a", 1)
    put("nova.debug", True)
    put("a", 2)
    overrides = changes.read(client, place, OVERRIDES)
    assert overrides == {"nova": {"debug": True, "x": 1}, "a": 2}
    found = {one.path: one for one in store.read(ENV)}
    assert len(store.read(ENV)) == 3
    assert all(one.holds(overrides) for one in found.values())
    assert found["nova",].until == NOW
    rewrite_noted(store, place, ("nova",), lambda document: {"a": document["a"]})
    assert [one.path for one in store.read(ENV)] == [("a",)]
    rewrite_noted(store, place, None, lambda _: {})
    assert store.read(ENV) == ()
