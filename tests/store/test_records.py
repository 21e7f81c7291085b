"""U18: the product's memory of documents, durable and exact."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.errors import StateError
from configdb_sync.hiera.rewriting import KeptText
from configdb_sync.jsonvalues import ABSENT
from configdb_sync.store.database import Database
from configdb_sync.store.opening import open_store
from configdb_sync.store.records import HiddenKey, Record, Records, decode, encode, names_seen

leaf = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4))
slots = st.one_of(st.just(ABSENT), leaf, st.lists(leaf, max_size=2), st.dictionaries(st.text(), leaf, max_size=2))
records = st.builds(
    Record,
    values=st.text("0123456789abcdef", max_size=8),
    files=st.lists(st.one_of(st.none(), st.text("0f")), max_size=2).map(tuple),
    hidden=st.dictionaries(st.text(), st.builds(HiddenKey, slots, st.lists(slots, max_size=2).map(tuple)), max_size=2),
    kept=st.dictionaries(st.text(), st.builds(KeptText, st.text(), st.lists(st.text("0f")).map(tuple)), max_size=2),
    marks=st.dictionaries(st.text(), leaf, max_size=2),
    created=st.booleans(),
    unsettled=st.lists(st.text(), max_size=2).map(tuple),
)


@given(records)
def test_a_record_comes_back_as_it_was(record: Any) -> None:
    assert decode(encode(record)) == record


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    database = open_store(f"sqlite:///{tmp_path}/own.sqlite")
    yield database
    database.close()


def test_records_are_kept_by_place_environment_node_and_data_source(database: Database) -> None:
    here = Records(database, "here", 1, "req-1")
    here.store("7", {"astute": Record("v", ("f",)), "globals": Record("g", (None,))})
    here.store("8", {"astute": Record("w", ("f",))})
    assert Records(database, "here", 1, "req-2").of_node("7")["astute"] == Record("v", ("f",))
    assert not Records(database, "there", 1, "req-2").of_node("7")
    assert not Records(database, "here", 2, "req-2").of_node("7")
    here.store("7", {"astute": Record("v2", ("f",))})
    here.forget("7", ["globals"])
    assert here.of_node("7") == {"astute": Record("v2", ("f",))}
    assert here.of_node("8") == {"astute": Record("w", ("f",))}


def test_nodes_are_known_by_name(database: Database) -> None:
    Records(database, "here", 1, "req-1").saw({"7": "a.example", "8": "b.example"})
    Records(database, "there", 1, "req-2").saw({"9": "a.example"})
    Records(database, "here", 1, "req-3").saw({"8": "c.example"})
    seen = names_seen(database, 1)
    assert {node for node, names in seen.items() if "a.example" in names} == {"7", "9"}
    assert not [node for node, names in seen.items() if "b.example" in names]
    assert {node for node, names in seen.items() if "c.example" in names} == {"8"}
    assert names_seen(database, 2) == {}


def test_the_database_is_for_its_owner_alone(database: Database, tmp_path: Path) -> None:
    Records(database, "here", 1, "req-1").store("7", {"astute": Record("v", ("f",))})
    assert {path.stat().st_mode & 0o077 for path in tmp_path.iterdir()} == {0}


def test_a_database_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    with pytest.raises(StateError, match=r"none/own\.sqlite"):
        open_store(f"sqlite:///{tmp_path}/none/own.sqlite")
    with pytest.raises(StateError, match="sqlite:////path"):
        open_store("no url")
    with pytest.raises(StateError) as caught:
        open_store("postgresql+psycopg://user:CANARY@127.0.0.1:1/x")
    assert "CANARY" not in str(caught.value)
