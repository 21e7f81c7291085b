"""U15, F5: the Hiera backend is taken off nodes over the bus, and nothing of it is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hiera_backend.fuel_node import left, made, secrets
from tests.hiera_backend.servers import Server, serving_threads
from tests.hiera_backend.test_hiera_yaml import FUEL
from tests.lab.laboratory import Laboratory
from tests.support.product import Product, contents, make_product

REMOVE = ("hiera-backend", "remove", "--env", 5)


@pytest.fixture
def product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Product:
    return make_product(tmp_path / "state", monkeypatch)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with serving_threads(tmp_path / "configdb.sqlite") as found:
        found.fill()
        yield found


def test_nothing_is_left_on_nodes(laboratory: Laboratory, server: Server, product: Product) -> None:
    """Real daemons: two nodes of the environment, one of them half done, one of another environment, one without."""
    nodes = [laboratory.nodes[name].root for name in ("1", "2", "3")]
    with made(server, *nodes) as (whole, half, other):
        other.environment = 7
        other.lay()
        before = [contents(node.root) for node in (whole, half)]
        for node in (whole, half, other):
            node.run("on")
        (half.root / "etc/hiera.yaml").write_text(FUEL)
        theirs = contents(other.root)
        assert all(secrets(node.root) for node in (whole, half, other))
        bus = ("--mco-config", laboratory.config)
        looked = product(*REMOVE, *bus, "--dry-run", "--format", "json")
        results = [one["result"] for one in looked.json["nodes"]]
        assert (looked.code, results) == (0, ["found", "found", "other", "nothing"])
        assert secrets(whole.root)
        done = product(*REMOVE, *bus, "--format", "json")
        results = [one["result"] for one in done.json["nodes"]]
        assert (done.code, results) == (0, ["removed", "removed", "other", "nothing"])
        assert "CANARY" not in done.out + done.err
        for node, there in zip((whole, half), before, strict=True):
            assert (left(node.root, there), secrets(node.root)) == ([], [])
        assert contents(other.root) == theirs
        again = product(*REMOVE, *bus, "--node", "1,2,9", "--mco-timeout", 2)
        assert again.code == 3
        assert sorted(again.out.splitlines())[:2] == [f"node {name}: has nothing of the backend" for name in (1, 2)]
        assert "node 9: failed: doesn't answer" in again.out
        log = "".join(node.log for node in laboratory.nodes.values())
        assert "CANARY" not in log
