"""U14, F5: Astute kills a try after 300 seconds, with all its processes; the retry goes on where that stopped."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import time
from pathlib import Path

import pytest

from configdb_sync.failpoints import VARIABLE
from tests.plugin.calling import astute, command, enable
from tests.plugin.conftest import Bus
from tests.plugin.jail import Jail
from tests.support.simulator.tree import Tree, load, made

ENVIRONMENT = 5
FILE = f"etc/fuel/cluster/{ENVIRONMENT}/astute.yaml"
LIMIT_S = 120


def killed(master: Jail, point: str) -> None:
    """Run the task until a step, where it stands still, and kill its process group there."""
    process = master.start(command("main", ENVIRONMENT), **{VARIABLE: f"{point}:STOP"})
    try:
        end = time.monotonic() + LIMIT_S
        while not _stands_still(process.pid):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.1)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)


def _stands_still(group: int) -> bool:
    """Tell whether a process of the group is stopped, as the kernel says."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, _, found = path.read_text(errors="replace").rpartition(")")[2].split()[:3]
            if (state, found) == ("T", str(group)):
                return True
    return False


def uploaded(master: Jail) -> int:
    """Run the task to its end; return how many documents it uploaded."""
    done = astute(master, "main", ENVIRONMENT)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"(\d+) documents? uploaded", done.stdout)
    assert found, done.stdout
    return int(found[1])


@pytest.fixture
def trees() -> dict[str, Tree]:
    return {str(number): Tree(made(str(number), ENVIRONMENT)) for number in range(1, 21)}


def test_what_was_uploaded_is_not_uploaded_again(master: Jail, bus: Bus, trees: dict[str, Tree]) -> None:
    enable(master, FILE, ENVIRONMENT, configdb="embedded", parallel="4")
    with bus(trees):
        for point in ("run-begun:1", "environment-made:1"):
            killed(master, point)
        killed(master, "after-upload:15")
        # 40 documents in all; beside the 15th upload, up to three other threads may have ended theirs.
        killed(master, "after-upload:10")
        assert 40 - 25 - 6 <= uploaded(master) <= 40 - 25
        assert uploaded(master) == 0
        listed = master.run(f"configdb-sync runs --env {ENVIRONMENT}").stdout
        assert listed.count("DIED") == 4
        assert not any(tree.touched for tree in trees.values())


@pytest.mark.parametrize(
    "point",
    [
        "after-write:1",
        *(pytest.param(f"{name}:1", marks=pytest.mark.long) for name in ("before-record", "after-record")),
        *(pytest.param(f"{name}:1", marks=pytest.mark.long) for name in ("before-write", "after-confirm")),
    ],
)
def test_killed_while_it_writes(master: Jail, bus: Bus, trees: dict[str, Tree], point: str) -> None:
    """The override reaches the nodes, isn't taken for their own value, and goes without a trace."""
    enable(master, FILE, ENVIRONMENT, configdb="embedded", parallel="1")
    few = dict(list(trees.items())[:3])
    place = f"--env {ENVIRONMENT} --data-source globals --key use_syslog"
    with bus(few):
        assert uploaded(master) == 6
        own = {name: content(tree) for name, tree in few.items()}
        done = master.run(f"configdb-sync override {place} --all-nodes --value false --type bool")
        assert done.returncode == 0, done.stderr
        killed(master, point)
        assert uploaded(master) == 0
        assert {b"use_syslog: false" in content(tree) for tree in few.values()} == {True}
        done = master.run(f"configdb-sync rm-override {place} --all-nodes")
        assert done.returncode == 0, done.stderr
        assert uploaded(master) == 0
        assert {name: content(tree) for name, tree in few.items()} == own


def content(tree: Tree) -> bytes:
    entry = tree.find("/etc/hiera/globals.yaml")
    return entry.content  # type: ignore[union-attr]


@pytest.mark.long
def test_two_hundred_nodes_in_one_try(master: Jail, bus: Bus, tmp_path: Path) -> None:
    """F5: a first deployment of 200 nodes, 468 KB of settings each: every try ends well before 280 seconds."""
    from benchmarks.trees import write_environment

    write_environment(tmp_path / "t", 200, ENVIRONMENT)
    trees = {path.name.removeprefix("node-"): Tree(load(path)) for path in (tmp_path / "t").iterdir()}
    enable(master, FILE, ENVIRONMENT, configdb="embedded")
    with bus(trees):
        for stage in ("pre", "main", "post"):
            began = time.monotonic()
            done = astute(master, stage, ENVIRONMENT)
            print(f"{stage}: {time.monotonic() - began:.0f} s")
            assert done.returncode == 0, done.stdout[-2000:] + done.stderr
            assert "200 nodes" in done.stdout
