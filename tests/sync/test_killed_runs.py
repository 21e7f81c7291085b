"""Runs that are killed or frozen, as real processes (U14, U18, F5, W01): whatever was killed when, the next run
converges, and work that was done isn't done again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from configdb_sync.clock import SystemClock
from configdb_sync.exits import Exit
from configdb_sync.failpoints import NAMES, VARIABLE
from configdb_sync.store.lease import LASTS
from tests.support import processes
from tests.support.product import Product, contents
from tests.support.trees import make_trees

OVERRIDE = ("--env", 5, "-r", "astute", "--level", "nodes=2", "--key", "nova.debug")


def puts(product: Product) -> list[str]:
    return [request.path for request in product.changing() if request.method == "PUT"]


def killed(product: Product, trees: Path, point: str, *more: object) -> None:
    done = processes.run(product.state, "sync", "--env", 5, "--from", trees, *more, **{VARIABLE: point})
    assert done.returncode == -signal.SIGKILL, done.stderr


@contextmanager
def frozen(state: Path, trees: Path, point: str, *more: object) -> Iterator[subprocess.Popen[str]]:
    """A run that stands still at a step; it goes on when it gets SIGCONT."""
    # One thread: another might be stopped while it holds the database's write lock.
    arguments = ("sync", "--env", 5, "--from", trees, "--parallel", 1, *more)
    process = processes.start(state, *arguments, **{VARIABLE: f"{point}:1:STOP"})
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), process.communicate()
        yield process
    finally:
        process.kill()
        process.communicate()


def test_a_killed_first_sync_is_gone_on_with(product: Product, tmp_path: Path) -> None:
    """F5: 20 nodes with 2 documents each; killed after 25 uploads, the next run sends the rest and no more."""
    trees = make_trees(tmp_path / "trees", *map(str, range(1, 21)))
    before = contents(trees)
    killed(product, trees, "after-upload:25", "--parallel", 4)
    assert product("runs", "--format", "json").json["runs"][0]["outcome"] == "DIED"
    arguments = ("sync", "--env", 5, "--from", trees, "--wait", 0)
    rest = product(*arguments, "--format", "json")
    assert rest.code == Exit.OK
    # Beside the 25th upload, up to three other threads may have ended theirs.
    assert 40 - 25 - 3 <= rest.json["uploads"] <= 40 - 25
    assert puts(product)
    assert product(*arguments).code == Exit.OK
    assert puts(product) == []
    assert contents(trees) == before
    outcomes = [run["outcome"] for run in product("runs", "--format", "json").json["runs"]]
    assert outcomes == ["OK", "OK", "DIED"]


@pytest.mark.parametrize("point", ["environment-made", "before-upload", "after-upload"])
def test_killed_while_it_uploads_the_next_run_brings_all_into_step(
    product: Product, tmp_path: Path, point: str
) -> None:
    trees = make_trees(tmp_path / "trees", "1", "2", "3")
    before = contents(trees)
    killed(product, trees, point)
    assert product("sync", "--env", 5, "--from", trees, "--wait", 0).code == Exit.OK
    assert contents(trees) == before
    assert product("get", *OVERRIDE, "--values").out == "false\n"


@pytest.mark.parametrize("point", sorted(NAMES - {"environment-made", "before-upload", "after-upload"}))
def test_killed_while_it_writes_no_override_is_frozen_and_every_file_is_whole(
    product: Product, tmp_path: Path, point: str
) -> None:
    trees = make_trees(tmp_path / "trees", "1", "2")
    arguments = ("sync", "--env", 5, "--from", trees, "--wait", 0)
    assert product(*arguments).code == Exit.OK
    own = contents(trees)
    path = trees / "node-2/etc/fuel/cluster/5/astute.yaml"
    old = yaml.safe_load(path.read_bytes())
    assert product("override", *OVERRIDE, "--type", "bool", "--value", "true").code == Exit.OK
    killed(product, trees, point)
    new = old | {"nova": old["nova"] | {"debug": True}}
    assert yaml.safe_load(path.read_bytes()) in (old, new)
    assert product(*arguments).code == Exit.OK
    assert yaml.safe_load(path.read_bytes()) == new
    assert product("get", *OVERRIDE, "--values").out == "false\n"
    product.changing()
    assert product(*arguments).code == Exit.OK
    assert product.changing() == []
    assert product("rm-override", *OVERRIDE).code == Exit.OK
    if point in {"after-record", "after-write"}:
        killed(product, trees, point)
    assert product(*arguments).code == Exit.OK
    # A temporary file that a kill left is the one thing that may remain beside the node's own.
    assert {name: facts for name, facts in contents(trees).items() if name in own} == own


def test_a_run_at_work_is_waited_for_and_shown(product: Product, tmp_path: Path) -> None:
    trees = make_trees(tmp_path / "trees", "1", "2")
    arguments = ("sync", "--env", 5, "--from", trees)
    with frozen(product.state, trees, "after-upload") as process:
        began = time.monotonic()
        busy = product(*arguments, "--wait", 1)
        assert (busy.code, time.monotonic() - began > 0.9) == (Exit.BUSY, True)
        assert "--wait" in busy.err
        assert product(*arguments, "--wait", 600, "--time-limit", 1).code == Exit.BUSY
        assert product("runs", "--format", "json").json["runs"][0]["outcome"] == "AT WORK"
        assert product("plan", "--env", 5, "--from", trees).code == Exit.OK
        process.send_signal(signal.SIGCONT)
        assert product(*arguments, "--wait", 100).code == Exit.OK
        assert process.wait(processes.LIMIT_S) == Exit.OK
    assert [run["outcome"] for run in product("runs", "--format", "json").json["runs"]] == ["OK", "OK"]


def test_masters_that_share_the_database_wait_for_each_other(
    product: Product, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each master has a state folder, and so a kernel lock, of its own; the lease is what both see."""
    trees = make_trees(tmp_path / "trees", "1", "2")
    product("runs")
    shared = (
        *("--database", f"sqlite:///{product.state}/configdb-sync.sqlite"),
        *("--configdb-database", f"sqlite:///{product.state}/configdb.sqlite"),
    )
    arguments = ("sync", "--env", 5, "--from", trees, "--wait", 0)
    with frozen(tmp_path / "other", trees, "after-upload", *shared) as process:
        busy = product(*arguments)
        assert busy.code == Exit.BUSY
        assert f"on {socket.gethostname()}" in busy.err
        process.kill()
        process.wait()
        # Nobody here can know that the other master is gone: its lease must run out first.
        assert product(*arguments).code == Exit.BUSY
        slept: list[float] = []
        monkeypatch.setattr(SystemClock, "sleep", lambda _, seconds: slept.append(seconds))
        monkeypatch.setattr(SystemClock, "monotonic", lambda _: time.monotonic() + sum(slept))
        assert product(*arguments[:-1], LASTS + 2).code == Exit.OK
        assert LASTS - 2 < sum(slept) < LASTS + 2


@pytest.mark.parametrize("stage", [(), ("--stage", "main")])
def test_a_run_that_hangs_ends_in_time_with_its_report(tmp_path: Path, stage: tuple[str, ...]) -> None:
    """F5: a ConfigDB that takes connections and never answers."""
    trees = make_trees(tmp_path / "trees", "1", "2")
    token, report = tmp_path / "token", tmp_path / "report.json"
    token.touch(mode=0o600)
    token.write_text("0123456789abcdef")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        done = processes.run(
            tmp_path / "state",
            *("sync", "--env", 5, "--from", trees, "--configdb", url, "--configdb-token-file", token),
            *("--time-limit", 4, "--report", report, *stage),
        )
        assert time.monotonic() - began < 40
    assert done.returncode == Exit.OUT_OF_TIME, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert '"kind": "OutOfTime"' in report.read_text()
    if stage:
        assert done.stdout.splitlines()[-1].startswith("failed: the time limit was reached")
    listed = processes.run(tmp_path / "state", "runs")
    assert "OUT_OF_TIME" in listed.stdout


def test_an_interrupted_run_says_so(product: Product, tmp_path: Path) -> None:
    trees = make_trees(tmp_path / "trees", "1", "2")
    with frozen(product.state, trees, "after-upload") as process:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGCONT)
        _, err = process.communicate(timeout=processes.LIMIT_S)
        assert process.returncode == Exit.INTERNAL
        assert "run again to continue" in err
    assert product("runs", "--format", "json").json["runs"][0]["outcome"] == "INTERRUPTED"
    assert product("sync", "--env", 5, "--from", trees, "--wait", 0).code == Exit.OK
