"""Changes of structure against writers, on SQLite and on PostgreSQL with two servers (R1).

Every pair of a change below and a writer meets: values, overrides, keys operations, creations, deletions. What was
acknowledged is there afterwards, unless its place was taken away after it; nobody is answered with 5xx, or with a 4xx
that the structure never gave reason for.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
from werkzeug.test import TestResponse

from configdb_sync.configdb_server import locks, schema
from configdb_sync.store.database import Database
from tests.support.configdb_server import Api

LEVELS = ["cluster", "nodes"]
DEFINITIONS = [{"name": "globals"}, {"name": "astute"}]
SHORT, LONG = 4, 1500


class Structure:
    """A change of structure that ends where it began. ``epoch`` counts the places taken away for good so far."""

    refusals: ClassVar[frozenset[int]] = frozenset()  # what a writer may be answered beside success
    level = "nodes"

    def __init__(self, api: Api) -> None:
        self.api = api
        self.epoch = 0

    def levels(self) -> tuple[str, ...]:
        """The names under which the level of the nodes may be found."""
        return (self.level,)

    def turn(self) -> None:
        """Change the structure and change it back."""
        raise NotImplementedError

    def component(self, name: str) -> int:
        return int(next(one["id"] for one in self.api.good("GET", "/components") if one["name"] == name))

    def definition(self, name: str) -> int:
        listed = self.api.good("GET", "/resource_definitions")
        return int(next(one["id"] for one in listed if one["name"] == name))


class LevelRenamed(Structure):
    refusals = frozenset({404})

    def levels(self) -> tuple[str, ...]:
        return ("nodes", "racks")

    def turn(self) -> None:
        self.api.good("PATCH", "/environments/5/hierarchy_levels/nodes", {"name": "racks"})
        self.api.good("PATCH", "/environments/5/hierarchy_levels/racks", {"name": "nodes"})


class LevelTakenOff(Structure):
    refusals = frozenset({404})

    def turn(self) -> None:
        self.api.good("PATCH", "/environments/5", {"hierarchy_levels": ["cluster"]})
        self.epoch += 1
        self.api.good("PATCH", "/environments/5", {"hierarchy_levels": LEVELS})


class EnvironmentMadeAnew(Structure):
    refusals = frozenset({404})

    def turn(self) -> None:
        self.api.good("DELETE", "/environments/5")
        self.epoch += 1
        body = {"id": 5, "components": ["fuel", "other"], "hierarchy_levels": LEVELS}
        self.api.good("POST", "/environments", body)


class ComponentsTakenOff(Structure):
    refusals = frozenset({404})

    def turn(self) -> None:
        self.api.good("PATCH", "/environments/5", {"components": []})
        self.api.good("PATCH", "/environments/5", {"components": ["other", "fuel"]})


class DefinitionsMoved(Structure):
    def turn(self) -> None:
        ids = [self.definition(one["name"]) for one in DEFINITIONS]
        for name in ("other", "fuel"):
            for number in ids:
                self.api.good("PATCH", f"/resource_definitions/{number}", {"component_id": self.component(name)})


class DefinitionsRenamed(Structure):
    refusals = frozenset({404})

    def turn(self) -> None:
        for one in DEFINITIONS:
            path = f"/resource_definitions/{self.definition(one['name'])}"
            self.api.good("PATCH", path, {"name": "hidden"})
            self.api.good("PATCH", path, one)


class DefinitionsMadeAnew(Structure):
    refusals = frozenset({404})

    def turn(self) -> None:
        for one in DEFINITIONS:
            self.api.good("DELETE", f"/resource_definitions/{self.definition(one['name'])}")
        self.epoch += 1
        for one in DEFINITIONS:
            self.api.good("POST", "/resource_definitions", {**one, "component_id": self.component("fuel")})


class DefinitionsReplaced(Structure):
    """PATCH of a component with a set of definitions deletes those that are left out."""

    refusals = frozenset({404})

    def turn(self) -> None:
        fuel = self.component("fuel")
        self.api.good("PATCH", f"/components/{fuel}", {"resource_definitions": []})
        self.epoch += 1
        for one in DEFINITIONS:
            self.api.good("POST", "/resource_definitions", {**one, "component_id": fuel})


class ComponentMadeAnew(Structure):
    refusals = frozenset({404})

    def turn(self) -> None:
        self.api.good("DELETE", f"/components/{self.component('fuel')}")
        self.epoch += 1
        self.api.good("POST", "/components", {"name": "fuel", "resource_definitions": DEFINITIONS})
        self.api.good("PATCH", "/environments/5", {"components": ["fuel", "other"]})


STRUCTURES = [
    LevelRenamed,
    LevelTakenOff,
    EnvironmentMadeAnew,
    ComponentsTakenOff,
    DefinitionsMoved,
    DefinitionsRenamed,
    DefinitionsMadeAnew,
    DefinitionsReplaced,
    ComponentMadeAnew,
]


@dataclass
class Writer:
    """One that writes again and again to a place of its own. ``kept`` is its last acknowledged write, and the epoch
    in which that was sent."""

    api: Api
    structure: Structure
    number: int
    kept: tuple[int, Any] | None = None
    wrong: list[str] = field(default_factory=list)

    def allow(self, answer: TestResponse, *more: int) -> bool:
        """Tell whether an answer is a success; take note of one that there is no reason for."""
        if answer.status_code < 300:
            return True
        if answer.status_code not in self.structure.refusals.union(more):
            self.wrong.append(f"{answer.request.method} {answer.request.path}: {answer.status_code} {answer.text}")
        return False

    def id_of(self, answer: TestResponse) -> int:
        assert answer.json is not None
        return int(answer.json["id"])

    def step(self, turn: int) -> None:
        """Write once."""
        raise NotImplementedError

    def check(self) -> None:
        """Fail unless the last acknowledged write is there, or went with its place."""
        raise NotImplementedError

    def lost(self, found: Any, nothing: Any) -> bool:
        """Tell whether what is ``found`` isn't what was written, nor ``nothing`` by right."""
        if self.kept is None:
            return bool(found != nothing)
        epoch, written = self.kept
        return found != written and not (epoch < self.structure.epoch and found == nothing)


class Document(Writer):
    kind = "values"

    def path(self, level: str) -> str:
        source = DEFINITIONS[self.number % 2]["name"]
        return f"/environments/5/cluster/c1/{level}/{type(self).__name__}{self.number}/resources/{source}/{self.kind}"

    def step(self, turn: int) -> None:
        for level in self.structure.levels():
            epoch = self.structure.epoch
            document = {"turn": turn, "level": level}
            if self.allow(self.api.put(self.path(level), document)):
                self.kept = epoch, document
                self.read(level)

    def read(self, level: str) -> None:
        """What is read is what was written, or the place isn't there: never an empty document in between."""
        for query in ("", "?effective") if self.kind == "values" else ("",):
            answer = self.api.get(self.path(level) + query)
            if self.allow(answer) and self.lost(answer.json, {}):
                self.wrong.append(f"{self.kept} was written, {answer.json} read{query}")

    def check(self) -> None:
        found = self.api.good("GET", self.path("nodes"))
        assert not self.lost(found, {}), (self, found)


class Overrides(Document):
    kind = "overrides"


class Keys(Document):
    """Sets keys of one document and takes them out again; each is acknowledged for itself."""

    def step(self, turn: int) -> None:
        for level in self.structure.levels():
            epoch, path = self.structure.epoch, self.path(level)
            if self.kept is None or self.kept[0] < epoch:
                # The document may be gone with its place, and it must be there.
                if self.allow(self.api.put(path, {})):
                    self.kept = epoch, {}
                continue
            written = dict(self.kept[1])
            key = f"k{turn % 5}"
            if key in written:
                # The place may be gone since: then the document is another's, without the key, or not there.
                gone = (404, 409) if self.structure.epoch > epoch or self.structure.refusals else ()
                done = self.allow(self.api.put(f"{path}/keys/delete", [[key]]), *gone)
                written.pop(key)
            else:
                done = self.allow(self.api.put(f"{path}/keys/set", [[key, turn]]))
                written[key] = turn
            if done:
                self.kept = self.kept[0], written


class Definitions(Writer):
    """Makes definitions, writes to them, and deletes every other one."""

    def step(self, turn: int) -> None:
        epoch = self.structure.epoch
        listed = self.api.good("GET", "/components")
        component = next((one["id"] for one in listed if one["name"] == "other"), None)
        name = f"made-{self.number}-{turn}"
        made = self.api.post("/resource_definitions", {"name": name, "component_id": component})
        if not self.allow(made):
            return
        number = self.id_of(made)
        self.allow(self.api.put(f"/environments/5/resources/{number}/values", {"turn": turn}))
        if turn % 2:
            self.allow(self.api.delete(f"/resource_definitions/{number}"))
        else:
            self.kept = epoch, number

    def check(self) -> None:
        if self.kept is not None:
            self.api.good("GET", f"/resource_definitions/{self.kept[1]}")


class Environments(Writer):
    """Makes environments without an id of a component that others take away, and deletes every other one."""

    def step(self, turn: int) -> None:
        made = self.api.post("/environments", {"components": ["fuel"], "hierarchy_levels": ["nodes"]})
        if not self.allow(made):
            return
        number = self.id_of(made)
        if turn % 2:
            self.allow(self.api.delete(f"/environments/{number}"))
        else:
            self.kept = 0, number

    def check(self) -> None:
        if self.kept is not None:
            assert self.api.good("GET", f"/environments/{self.kept[1]}")["hierarchy_levels"] == ["nodes"]


WRITERS: list[type[Writer]] = [Document, Document, Overrides, Overrides, Keys, Keys, Definitions, Environments]


@pytest.fixture
def servers(make: Callable[..., Api]) -> list[Api]:
    """Two servers on one database with environment 5."""
    found = [make(), make()]
    found[0].good("POST", "/components", {"name": "fuel", "resource_definitions": DEFINITIONS})
    found[0].good("POST", "/components", {"name": "other"})
    found[0].good("POST", "/environments", {"id": 5, "components": ["fuel", "other"], "hierarchy_levels": LEVELS})
    # Ids that the server gives are above it: none is the 5 that is deleted and made again.
    found[0].good("POST", "/environments", {"id": 1000, "components": [], "hierarchy_levels": []})
    return found


def race(structure: Structure, writers: list[Writer], rounds: int) -> None:
    """Let the structure change so many times while the writers write."""
    ended = threading.Event()
    together = threading.Barrier(len(writers) + 1)

    def change() -> None:
        try:
            together.wait(30)
            for _ in range(rounds):
                structure.turn()
        finally:
            ended.set()

    def write(writer: Writer) -> None:
        together.wait(30)
        turn = 0
        while not ended.is_set():
            turn += 1
            writer.step(turn)

    with ThreadPoolExecutor(len(writers) + 1) as pool:
        for done in [pool.submit(change), *(pool.submit(write, writer) for writer in writers)]:
            done.result()


def check_races(kind: type[Structure], servers: list[Api], database_url: str, rounds: int) -> None:
    structure = kind(servers[0])
    writers = [made(servers[number % 2], structure, number) for number, made in enumerate(WRITERS)]
    race(structure, writers, rounds)
    assert [text for writer in writers for text in writer.wrong] == []
    for writer in writers:
        writer.check()
    # What the structure could do before, it can do now; what it takes away is gone, whoever wrote there.
    taken = structure.epoch
    structure.turn()
    if structure.epoch > taken:
        for writer in writers:
            if isinstance(writer, Document):
                assert servers[1].good("GET", writer.path("nodes")) == {}
    assert orphans(database_url) == 0


def orphans(url: str) -> int:
    """Return how many documents lie at levels that their environments don't have."""
    database = Database(url, what="the database")
    documents, levels = schema.documents.name, schema.hierarchy_levels.name
    query = (
        f"SELECT count(*) FROM {documents} d WHERE level <> '' AND NOT EXISTS "
        f"(SELECT 1 FROM {levels} l WHERE l.environment_id = d.environment_id AND l.name = d.level)"
    )
    try:
        return int(database.read(lambda connection: connection.exec_driver_sql(query).scalar_one()))
    finally:
        database.close()


@pytest.mark.parametrize("kind", STRUCTURES)
def test_no_acknowledged_write_is_lost(kind: type[Structure], servers: list[Api], database_url: str) -> None:
    check_races(kind, servers, database_url, SHORT)


@pytest.mark.long
@pytest.mark.parametrize("kind", STRUCTURES)
def test_nor_in_thousands_of_rounds(kind: type[Structure], servers: list[Api], database_url: str) -> None:
    check_races(kind, servers, database_url, LONG)


def test_every_change_goes_through_the_one_rule() -> None:
    """``locks`` alone begins transactions, but for the sweep of contents that nothing refers to."""
    folder = Path(locks.__file__).parent
    going_around = {
        path.name for path in folder.glob("*.py") if re.search(r"\.(write|transaction)\(", path.read_text())
    }
    assert going_around == {"locks.py", "contents.py"}


def at_once(work: Callable[[int], Any], count: int) -> list[Any]:
    """Return what so many threads that start together came to."""
    together = threading.Barrier(count)

    def one(number: int) -> Any:
        together.wait(30)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def test_environments_without_an_id_never_meet(servers: list[Api]) -> None:
    body: dict[str, Any] = {"components": ["fuel"], "hierarchy_levels": ["nodes"]}
    ids = at_once(lambda number: servers[number % 2].good("POST", "/environments", body)["id"], 20)
    assert sorted(ids) == list(range(1001, 1021))


def test_an_environment_against_the_deletion_of_its_component(servers: list[Api]) -> None:
    body: dict[str, Any] = {"components": ["brief"], "hierarchy_levels": ["nodes"]}
    for _ in range(2 * SHORT):
        number = servers[0].good("POST", "/components", {"name": "brief"})["id"]

        def work(place: int, path: str = f"/components/{number}") -> int:
            if place == 0:
                return servers[0].delete(path).status_code
            return servers[place % 2].post("/environments", body).status_code

        deleted, *created = at_once(work, 6)
        assert deleted == 204
        assert set(created) <= {201, 404}
