"""U17: versions in the product's own database, on both of its kinds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
import sqlalchemy as sa

from configdb_sync.clock import SystemClock
from configdb_sync.configdb.model import OVERRIDES, VALUES, ChangeAuthor, DocumentAddress, DocumentEdit
from configdb_sync.errors import StateError
from configdb_sync.jsonvalues import Json
from configdb_sync.names import RECORDS
from configdb_sync.store.database import Database
from configdb_sync.store.opening import open_store
from configdb_sync.store.schema import BLOBS
from configdb_sync.store.versions import BY_OTHERS, DocumentKey, VersionStore
from configdb_sync.sync.history import document_key, recorder

HERE = "http://configdb.example"
PLACE = DocumentAddress(7, (("nodes", "46"),), "globals", 3, innermost=True)
KEY = document_key(HERE, PLACE, OVERRIDES)
ANN = ChangeAuthor("req-1", "ann", "why")
Documents = dict[str, Json]


@pytest.fixture
def store(own_url: str) -> Iterator[VersionStore]:
    with closing(VersionStore(lambda: open_store(own_url), 4, SystemClock())) as found:
        yield found


def note(
    store: VersionStore,
    before: Documents,
    after: Documents,
    writer: ChangeAuthor = ANN,
    place: DocumentAddress = PLACE,
    kind: str = OVERRIDES,
    server: str = HERE,
) -> None:
    recorder(store, server, writer)(DocumentEdit(place, kind, before, after))


def shown(store: VersionStore, key: DocumentKey = KEY) -> list[tuple[int, str | None, object]]:
    found = store.history(key)
    return [(one.number, one.author or one.comment, store.content(key, one.number)) for one in found]


def blobs(store: VersionStore) -> int:
    return store._open().read(lambda connection: len(connection.execute(sa.select(BLOBS.c.address)).all()))


def test_a_change_is_kept_with_who_when_which_run_and_why(store: VersionStore) -> None:
    note(store, {}, {"a": 1})
    (version,) = store.history(KEY)
    assert (version.number, version.author, version.run, version.comment) == (1, "ann", "req-1", "why")
    assert version.time.endswith("+00:00")
    assert store.content(KEY, 1) == {"a": 1}
    assert store.content(KEY, 2) is None
    note(store, {"a": 1}, {"a": 1})
    assert len(store.history(KEY)) == 1


def test_what_others_did_between_is_a_version_without_a_name(store: VersionStore) -> None:
    note(store, {"theirs": 0}, {"a": 1})
    note(store, {"a": 2}, {"a": 3})
    assert shown(store) == [
        (4, "ann", {"a": 3}),
        (3, BY_OTHERS, {"a": 2}),
        (2, "ann", {"a": 1}),
        (1, BY_OTHERS, {"theirs": 0}),
    ]


def test_each_document_counts_for_itself(store: VersionStore) -> None:
    others = [
        ("http://other.example", PLACE, OVERRIDES),
        (HERE, PLACE, VALUES),
        (HERE, dataclasses.replace(PLACE, env=8), OVERRIDES),
        (HERE, dataclasses.replace(PLACE, levels=()), OVERRIDES),
        (HERE, dataclasses.replace(PLACE, data_source="astute"), OVERRIDES),
    ]
    documents = [(HERE, PLACE, OVERRIDES), *others]
    for server, place, kind in documents:
        assert store.history(document_key(server, place, kind)) == []
        note(store, {}, {"a": 1}, place=place, kind=kind, server=server)
    assert [len(store.history(document_key(*document))) for document in documents] == [1] * 6
    assert blobs(store) == 1
    made_anew = document_key(HERE, dataclasses.replace(PLACE, definition=99), OVERRIDES)
    assert len(store.history(made_anew)) == 1


def test_only_the_newest_are_kept_and_their_contents(store: VersionStore) -> None:
    for number in range(9):
        note(store, {"n": number - 1} if number else {}, {"n": number})
    assert [number for number, _, _ in shown(store)] == [9, 8, 7, 6]
    assert store.content(KEY, 5) is None
    assert blobs(store) == 4
    elsewhere = document_key(HERE, PLACE, VALUES)
    note(store, {}, {"n": 5}, kind=VALUES)
    note(store, {"n": 8}, {"n": 9})
    assert store.content(elsewhere, 1) == {"n": 5}


def test_our_own_bookkeeping_has_no_versions(store: VersionStore) -> None:
    place = dataclasses.replace(PLACE, data_source=RECORDS)
    note(store, {}, {"orders": []}, place=place, kind=VALUES)
    assert store.history(document_key(HERE, place, VALUES)) == []


def test_any_text_of_a_user_can_be_kept(store: VersionStore) -> None:
    note(store, {}, {"\0\ud800": "\ud800"}, ChangeAuthor("req-1", "a\0nn", "∑ \udcff"))
    (version,) = store.history(KEY)
    assert (version.author, version.comment) == ("a?nn", "∑ ?")
    assert store.content(KEY, 1) == {"\0\ud800": "\ud800"}


def test_many_at_once_lose_nothing(own_url: str) -> None:
    """Threads of a run on their own documents with contents in common, and several masters on one document."""
    places = [dataclasses.replace(PLACE, levels=(("nodes", str(node)),)) for node in range(8)]
    masters = [VersionStore(lambda: open_store(own_url), 100, SystemClock()) for _ in range(2)]

    def work(number: int) -> None:
        store = masters[number % 2]
        note(store, {}, {"same": 1}, place=places[number % 8], kind=VALUES)
        note(store, {}, {"n": number})

    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(16)))
        found = shown(masters[0])
        assert {author for _, author, _ in found} == {"ann", BY_OTHERS}
        assert all({"n": number} in [content for _, _, content in found] for number in range(16))
        assert [number for number, _, _ in found] == list(range(len(found), 0, -1))
    finally:
        for master in masters:
            master.close()


def test_a_note_that_fails_says_that_the_change_was_made() -> None:
    def closed() -> Database:
        raise StateError("the database is away", way_out="start it")

    store = VersionStore(closed, 4, SystemClock())
    with pytest.raises(StateError, match=r"was made in ConfigDB, but isn't in the history: .* is away \(start it\)"):
        note(store, {}, {"a": 1})
