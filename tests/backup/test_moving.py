"""U18: a backup while everything is at work, brought back, and the move to a new master."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
import requests
import yaml

from configdb_sync.clock import SystemClock
from configdb_sync.exits import Exit
from configdb_sync.failpoints import VARIABLE
from configdb_sync.store.lease import run_lock
from tests.support import processes
from tests.support.configdb_server import NODE
from tests.support.product import MEANT, Product, contents, make_product
from tests.support.service import fill, serving
from tests.support.trees import make_trees

PLACE = ("--env", 5, "-r", "astute", "--level", "nodes=2", "--key")


@pytest.fixture
def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Product:
    """The new master: another state folder."""
    return make_product(tmp_path / "other", monkeypatch)


def good(product: Product, *arguments: object) -> str:
    done = product(*arguments)
    assert done.code == Exit.OK, done.out + done.err
    return done.out


def test_after_the_move_nothing_is_sent_and_no_override_is_lost(
    product: Product, other: Product, tmp_path: Path
) -> None:
    """U18: an override that a node has, and an order for all nodes, those that come later among them."""
    trees = make_trees(tmp_path / "trees", "1", "2", "3")
    run = ("sync", "--env", 5, "--from", trees)
    start = contents(trees)
    good(product, *run)
    good(product, "override", *MEANT, *PLACE, "nova.debug", "--value", "true", "--type", "bool")
    everywhere = ("--env", 5, "-r", "globals", "--key", "use_syslog", "--all-nodes")
    good(product, "override", *MEANT, *everywhere, "--value", "false", "--type", "bool")
    good(product, *run)
    good(product, "tenants", "create", "blue")
    archive = tmp_path / "a.tgz"
    good(product, "backup", archive)
    assert archive.stat().st_mode & 0o777 == 0o600
    settled = contents(trees)
    assert settled != start

    good(other, "restore", archive)
    other.changing()
    for command in ("overrides", "history", "runs"):
        more = ("--env", 5, *(PLACE[2:6] if command == "history" else ()))
        assert good(other, command, *more) == good(product, command, *more)
    assert "blue" in good(other, "tenants", "list")
    assert "0 documents uploaded, 0 files written" in good(other, *run, "--stage", "main")
    assert other.changing() == []
    assert contents(trees) == settled
    # A node that comes later gets the order for all; taken away, everything is byte for byte as it was.
    make_trees(tmp_path / "late", "4")
    (tmp_path / "late/node-4").rename(trees / "node-4")
    good(other, *run)
    assert b"use_syslog: false" in (trees / "node-4/etc/hiera/globals.yaml").read_bytes()
    good(other, "rm-override", *everywhere)
    good(other, "rm-override", *PLACE, "nova.debug")
    good(other, *run)
    assert {path: facts for path, facts in contents(trees).items() if "node-4" not in path} == start


@pytest.mark.parametrize("point", ["run-begun", "after-upload", "after-record", "after-write", "node-done"])
def test_a_backup_in_the_middle_of_a_run(product: Product, other: Product, tmp_path: Path, point: str) -> None:
    """As a kill there leaves the state. The old master's next run goes on, and the nodes are ahead of the backup."""
    trees = make_trees(tmp_path / "trees", "1", "2")
    run = ("sync", "--env", 5, "--from", trees)
    if point not in {"run-begun", "after-upload"}:
        good(product, *run)
        good(product, "override", *MEANT, *PLACE, "nova.debug", "--value", "true", "--type", "bool")
    killed = processes.run(product.state, *run, **{VARIABLE: f"{point}:1"})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    good(product, "backup", tmp_path / "a.tgz")
    good(product, *run)
    good(other, "restore", tmp_path / "a.tgz")
    good(other, *run)
    assert good(other, "overrides", "--env", 5) == good(product, "overrides", "--env", 5)
    other.changing()
    good(other, *run)
    assert other.changing() == []


def test_backups_while_a_run_is_at_work(product: Product, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trees = make_trees(tmp_path / "trees", *map(str, range(1, 13)))
    before = contents(trees)
    run = ("sync", "--env", 5, "--from", trees)
    process = processes.start(product.state, *run)
    made: list[Path] = []
    while process.poll() is None or not made:
        archive = tmp_path / f"{len(made)}.tgz"
        if product("backup", archive).code == Exit.OK:
            made.append(archive)
    _, said = process.communicate()
    assert process.returncode == Exit.OK, said
    for archive in {made[0], made[len(made) // 2], made[-1]}:
        other = make_product(tmp_path / f"{archive.stem}-state", monkeypatch)
        good(other, "restore", archive)
        good(other, *run)
        assert contents(trees) == before


def test_what_was_overridden_after_the_backup_is_never_taken_for_the_nodes_own(
    product: Product, other: Product, tmp_path: Path
) -> None:
    """U18: by the records that come back, the node would have changed these keys itself."""
    trees = make_trees(tmp_path / "trees", "1", "2")
    run = ("sync", "--env", 5, "--from", trees)
    good(product, *run)
    file = trees / "node-2/etc/fuel/cluster/5/astute.yaml"
    start = yaml.safe_load(file.read_text())
    good(product, "backup", tmp_path / "a.tgz")
    good(product, "override", *MEANT, *PLACE, "nova.debug", "--value", "true", "--type", "bool")
    extra = ("--env", 5, "-r", "override/common", "--level", "nodes=1", "--key", "x")
    good(product, "override", *MEANT, *extra, "--value", "1", "--type", "int")
    good(product, *run)
    good(other, "restore", tmp_path / "a.tgz")
    for _ in range(2):
        done = other(*run)
        assert done.code == Exit.PARTIAL
        assert "'nova'" in done.out
        assert "'x'" in done.out
        assert good(other, "get", *PLACE, "nova.debug") == "false\n"
    # What ConfigDB has is what the nodes get when a person says so.
    done = other(*run, "--accept-configdb", "--node", 2)
    assert done.code == Exit.OK, done.out
    assert yaml.safe_load(file.read_text()) == start


def test_a_node_that_changed_nothing_since_is_trusted_again(product: Product, other: Product, tmp_path: Path) -> None:
    trees = make_trees(tmp_path / "trees", "1")
    run = ("sync", "--env", 5, "--from", trees)
    good(product, *run)
    good(product, "backup", tmp_path / "a.tgz")
    good(other, "restore", tmp_path / "a.tgz")
    good(other, *run)
    file = trees / "node-1/etc/fuel/cluster/5/astute.yaml"
    file.write_text(file.read_text().replace("workers: 4", "workers: 5"))
    assert "1 document uploaded" in good(other, *run, "--stage", "main")


def test_a_state_that_is_not_empty_is_left_alone(product: Product, tmp_path: Path) -> None:
    trees = make_trees(tmp_path / "trees", "1", "2")
    good(product, "sync", "--env", 5, "--from", trees)
    good(product, "backup", tmp_path / "a.tgz")
    good(product, "override", *MEANT, *PLACE, "nova.debug", "--value", "true", "--type", "bool")
    refused = product("restore", tmp_path / "a.tgz")
    assert refused.code == Exit.USAGE
    assert "--replace" in refused.err
    assert "nova" in good(product, "overrides", "--env", 5)
    # Nor is it touched while a run is at work on it.
    with run_lock(product.state, 5, 0, SystemClock()):
        assert product("restore", "--replace", tmp_path / "a.tgz", "--wait", 0).code == Exit.BUSY
    assert "nova" in good(product, "overrides", "--env", 5)
    good(product, "restore", "--replace", tmp_path / "a.tgz")
    assert "nova" not in good(product, "overrides", "--env", 5)
    assert {path.stat().st_mode & 0o777 for path in product.state.iterdir()} == {0o600}
    assert product("backup", tmp_path / "a.tgz").code == Exit.USAGE


def test_a_service_at_work_goes_on_over_backup_and_restore(product: Product, tmp_path: Path) -> None:
    with serving("--state", str(product.state)) as (url, _):
        headers = {"X-Auth-Token": (product.state / "configdb.token").read_text()}
        fill(url, headers)

        def put(value: int) -> None:
            answer = requests.put(f"{url}{NODE}/values", json={"a": value}, headers=headers, timeout=20)
            assert answer.status_code == 204

        def read() -> int:
            return int(requests.get(f"{url}{NODE}/values", headers=headers, timeout=20).json()["a"])

        put(1)
        good(product, "backup", tmp_path / "a.tgz")
        put(2)
        good(product, "restore", "--replace", tmp_path / "a.tgz")
        assert read() == 1
        put(3)
        assert read() == 3


def test_nothing_to_back_up(product: Product, tmp_path: Path) -> None:
    assert product("backup", tmp_path / "a.tgz").code == Exit.USAGE
    assert list(tmp_path.glob("*.tgz")) == []


@pytest.mark.parametrize("server", ["db.example.com", "one.example.com:5432,two.example.com:5432"])
def test_what_postgresql_holds_is_said_and_never_its_password(product: Product, tmp_path: Path, server: str) -> None:
    good(product, "runs")
    url = f"postgresql://lcm:CANARY@{server}/configdb"
    done = good(product, "backup", tmp_path / "a.tgz", "--configdb-database", url)
    assert f"postgresql://{server}/configdb" in done
    assert "pg_dump" in done
    content = (tmp_path / "a.tgz").read_bytes()
    assert b"CANARY" not in content
    assert "CANARY" not in done
    refused = product("restore", "--replace", tmp_path / "a.tgz", "--database", url)
    assert refused.code == Exit.USAGE
    assert f"postgresql://{server}/configdb" in refused.err
    assert "CANARY" not in refused.err
    assert "pg_restore" in good(product, "restore", "--replace", tmp_path / "a.tgz", "--configdb-database", url)
