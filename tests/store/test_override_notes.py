"""U27: the document on an environment's overrides in the product's own database, on both of its kinds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from configdb_sync.jsonvalues import Document, Json
from configdb_sync.store.database import Database
from configdb_sync.store.versions import read_notes, rewrite_notes

HERE = "http://configdb.example"


def test_a_document_for_each_environment_of_each_server(own_database: Database) -> None:
    assert read_notes(own_database, HERE, 1) == {}
    rewrite_notes(own_database, HERE, 1, lambda document: {**document, "notes": ["é"]})
    rewrite_notes(own_database, HERE, 1, lambda document: {**document, "more": 1})
    assert read_notes(own_database, HERE, 1) == {"notes": ["é"], "more": 1}
    assert read_notes(own_database, HERE, 2) == read_notes(own_database, "http://other.example", 1) == {}
    rewrite_notes(own_database, HERE, 1, lambda _: {})
    assert read_notes(own_database, HERE, 1) == {}


def test_writers_at_once_lose_nothing(own_database: Database) -> None:
    def add(number: int) -> None:
        def added(document: Document) -> dict[str, Json]:
            return {**document, str(number): number}

        rewrite_notes(own_database, HERE, 1, added)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(12)))
    assert len(read_notes(own_database, HERE, 1)) == 12
