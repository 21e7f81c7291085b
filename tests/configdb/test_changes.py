"""Read, change, write (U16): nobody's acknowledged change is lost, and what is done is said as it was."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from configdb_sync.configdb import changes
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.connect import open_client
from configdb_sync.configdb.model import OVERRIDES, VALUES, DocumentAddress
from configdb_sync.errors import ConflictError, ConnectionLostError, SettingsError
from configdb_sync.http.session import RetryPolicy
from tests.configdb.support import NODE, FakeExchange, json, timing


@pytest.fixture
def place(embedded: ConfigDBClient) -> DocumentAddress:
    component = embedded.create_component("c", ["globals"])
    environment = embedded.create_environment(5, [component.id], ["cluster", "nodes"])
    number = embedded.definitions(environment)["globals"].id
    embedded.put_values(5, (), number, {"block": {"root": 1}, "other": 0})
    return changes.find(embedded, 5, (("nodes", "46"), ("cluster", "c")), "globals")


def test_levels_are_put_in_their_order(embedded: ConfigDBClient, place: DocumentAddress) -> None:
    assert place.levels == (("cluster", "c"), ("nodes", "46"))
    assert place.innermost
    assert place.level_text == "/cluster/c/nodes/46/"
    assert not changes.find(embedded, 5, (("cluster", "c"),), "globals").innermost
    assert not changes.find(embedded, 5, (), "globals").innermost
    with pytest.raises(SettingsError, match="no level path nodes"):
        changes.find(embedded, 5, NODE, "globals")


def test_twenty_writers_of_one_document_lose_nothing(embedded: ConfigDBClient, place: DocumentAddress) -> None:
    faults: list[Exception] = []

    def write(number: int) -> None:
        try:
            changes.override(embedded, place, ("block", f"k{number}"), number)
            changes.override(embedded, place, (f"top{number}",), number)
        except Exception as error:
            faults.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    expected: dict[str, Any] = {f"top{number}": number for number in range(20)}
    expected["block"] = {"root": 1, **{f"k{number}": number for number in range(20)}}
    assert changes.read(embedded, place, OVERRIDES) == expected


def test_a_block_begins_with_what_is_above(embedded: ConfigDBClient, place: DocumentAddress) -> None:
    """A value below a top-level key that the level hasn't: the others of the block stay as they are seen there."""
    changes.rewrite(embedded, place, changes.setting(embedded, place, ("block", "mine"), 2))
    assert changes.read(embedded, place, VALUES) == {"block": {"root": 1, "mine": 2}}


def test_freeing_gives_back_what_is_above(embedded: ConfigDBClient, place: DocumentAddress) -> None:
    changes.override(embedded, place, ("block", "root"), 9)
    change = changes.free(embedded, place, ("block", "root"))
    assert change.after == {}
    assert embedded.effective(5, place.levels, place.definition) == {"block": {"root": 1}, "other": 0}


PLACE = DocumentAddress(5, NODE, "globals", 1, innermost=True)
OK = json(204, "")


def client(*script: Any) -> tuple[FakeExchange, ConfigDBClient]:
    exchange = FakeExchange(list(script))
    return exchange, open_client(exchange, policy=RetryPolicy(attempts=3), timing=timing())


def test_a_write_that_was_refused_is_made_anew() -> None:
    exchange, made = client(json(200, "{}", etag='"1"'), json(412, "{}"), json(200, '{"b": 1}', etag='"2"'), OK)
    change = changes.override(made, PLACE, ("a",), 2)
    assert (change.before, change.after) == ({"b": 1}, {"b": 1, "a": 2})
    assert [request.headers.get("If-Match") for request in exchange.requests] == [None, '"1"', None, '"2"']


def test_a_write_whose_answer_was_lost_is_known_as_ours() -> None:
    """S07: the first write is done, its answer lost, reading back fails too; the second try is refused."""
    _, made = client(
        json(200, '{"b": 1}', etag='"1"'),
        ConnectionLostError("x"),
        json(400, "{}"),
        json(412, "{}"),
        json(200, '{"b": 1, "a": 2}', etag='"2"'),
    )
    change = changes.override(made, PLACE, ("a",), 2)
    assert (change.before, change.after) == ({"b": 1}, {"b": 1, "a": 2})


def test_it_ends_where_others_write_all_the_time() -> None:
    answers = [answer for _ in range(200) for answer in (json(200, "{}", etag='"1"'), json(412, "{}"))]
    exchange, made = client(*answers)
    with pytest.raises(ConflictError, match="nothing was written"):
        changes.override(made, PLACE, ("a",), 2)
    assert len(exchange.requests) < 200


@pytest.mark.parametrize(
    ("texts", "levels"),
    [
        ((), ()),
        (("nodes=46",), (("nodes", "46"),)),
        (("cluster=c, nodes=46",), (("cluster", "c"), ("nodes", "46"))),
        (("cluster=c", "nodes=n.domain.tld"), (("cluster", "c"), ("nodes", "n.domain.tld"))),
        (("role=a=b",), (("role", "a=b"),)),
    ],
)
def test_levels_as_text(texts: tuple[str, ...], levels: tuple[tuple[str, str], ...]) -> None:
    assert changes.parse_levels(texts) == levels


@pytest.mark.parametrize("text", ["", "nodes", "nodes=", "=46", "nodes=1,nodes=2", "nodes=1,"])
def test_levels_that_are_none(text: str) -> None:
    with pytest.raises(SettingsError, match="level"):
        changes.parse_levels([text])
