"""U4, U15: which nodes ``hiera-backend remove`` works on: who answers, who is in Nailgun, or who is named."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.cli import sources
from configdb_sync.cli.command_session import Session
from configdb_sync.errors import BusError, EnvironmentMismatchError, NailgunError, ProductError
from configdb_sync.mcollective.outcomes import Missing, Outcome, Reply, ReplyCounts
from configdb_sync.nailgun.model import NailgunNode
from tests.support.product import Product, Result, make_product
from tests.support.rpc import OneByOne


@dataclass
class Bus(OneByOne):
    """Nodes by identity, each with the environment that it says it is of."""

    environments: Mapping[str, int]
    asked: list[str] = field(default_factory=list)
    counts: ReplyCounts = field(default_factory=ReplyCounts)

    def ask(self, identity: str, agent: str, action: str, data: Mapping[str, Any]) -> Outcome:
        self.asked.append(identity)
        if identity not in self.environments:
            return Missing(identity, "no reply")
        answer = {"environment": self.environments[identity], "found": ["/x"], "own": None, "error": None}
        line = f"configdb-sync 1 {json.dumps(answer)}\n".encode()
        return Reply(identity, {"stdout": line, "stderr": b"", "exit_code": 0})

    def discover(self, *, timeout: float, expected: Collection[str] = ()) -> list[str]:
        return ["master", *self.environments]


@dataclass
class Nailgun:
    """What it says of environment 5, or the error that it ends in."""

    said: tuple[int, ...] | ProductError
    base: str = "http://master:8000"

    def __enter__(self) -> Nailgun:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def nodes(self, environment: int) -> list[NailgunNode]:
        if isinstance(self.said, ProductError):
            raise self.said
        return [NailgunNode(one, f"node-{one}.x", "ready", True, False, ()) for one in self.said]


@pytest.fixture
def bus(monkeypatch: pytest.MonkeyPatch) -> Bus:
    found = Bus({"1": 5, "2": 5, "3": 7})

    @contextlib.contextmanager
    def opened(settings: object) -> Iterator[Bus]:
        yield found

    monkeypatch.setattr(sources, "open_bus", opened)
    return found


@pytest.fixture
def product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Product:
    return make_product(tmp_path / "state", monkeypatch)


def remove(product: Product, patch: pytest.MonkeyPatch, nailgun: Nailgun | None, *more: object) -> Result:
    patch.setattr(Session, "nailgun", lambda session, **_: nailgun)
    return product("hiera-backend", "remove", "--env", 5, "--mco-timeout", 1, *more)


def results(result: Result) -> dict[str, str]:
    return {one["node"]: one["result"] for one in result.json["nodes"]}


JSON = ("--format", "json")


def test_all_that_answer_and_all_that_nailgun_has(product: Product, bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = remove(product, monkeypatch, None, *JSON)
    assert (alone.code, results(alone)) == (0, {"1": "removed", "2": "removed", "3": "other"})
    # Node 2 left Nailgun and has the backend still; node 4 doesn't answer, and may have it.
    both = remove(product, monkeypatch, Nailgun((1, 4)), *JSON)
    assert (both.code, results(both)) == (3, {"1": "removed", "2": "removed", "3": "other", "4": "failed"})
    assert "master" not in bus.asked


def test_an_environment_that_nailgun_has_no_more(product: Product, bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    done = remove(product, monkeypatch, Nailgun(EnvironmentMismatchError("there is no environment 5")), *JSON)
    assert (done.code, results(done)["2"]) == (0, "removed")


def test_without_nailgun_nobody_knows_who_is_missing(
    product: Product, bus: Bus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nailgun that fails stops the command, unless the nodes are named."""
    away = Nailgun(NailgunError("is away"))
    assert (remove(product, monkeypatch, away).code, bus.asked) == (8, [])
    assert results(remove(product, monkeypatch, away, "--node", "2,1", *JSON)) == {"1": "removed", "2": "removed"}


def test_names_are_ids_or_fqdns(product: Product, bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    done = remove(product, monkeypatch, Nailgun((1, 2)), "--node", "node-2.x", *JSON)
    assert (done.code, results(done)) == (0, {"2": "removed"})
    unknown = remove(product, monkeypatch, None, "--node", "node-9.x")
    assert (unknown.code, "node-9.x" in unknown.err) == (2, True)
    assert remove(product, monkeypatch, None, "--node", ",").code == 2
    named = remove(product, monkeypatch, None, "--node", "3")
    assert (named.code, named.out.splitlines()[0]) == (
        3,
        "node 3: failed: belongs to environment 7 (nothing was changed on it)",
    )


def test_a_bus_that_is_away(product: Product, bus: Bus, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object, **__: object) -> list[str]:
        raise BusError("is away")

    monkeypatch.setattr(Bus, "discover", away)
    assert remove(product, monkeypatch, None).code == 8
