"""U29: `configdb-sync watch` finds what differs, changes nothing, and leaves runs alone."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.clock import SystemClock
from configdb_sync.errors import UnavailableError
from configdb_sync.exits import Exit
from configdb_sync.store.database import Database
from configdb_sync.store.lease import Lease, lease_name
from configdb_sync.store.opening import open_store
from configdb_sync.store.runs import About, Journal, LocalProcesses
from configdb_sync.sync.plan import Plan
from configdb_sync.sync.run import Run
from configdb_sync.watch.round import LEASE
from tests.nailgun.conftest import make_small
from tests.support.nailgun import at_work
from tests.support.product import MEANT, Product, contents
from tests.support.trees import make_trees
from tests.watch.conftest import by_hand


@contextmanager
def own_database(product: Product) -> Iterator[Database]:
    with closing(open_store(f"sqlite:///{product.state / 'configdb-sync.sqlite'}")) as database:
        yield database


def look(product: Product, trees: Path, *more: object, code: Exit) -> list[dict[str, Any]]:
    done = product("watch", "--from", trees, "-f", "json", *more)
    assert done.code == code, done.out + done.err
    found: list[dict[str, Any]] = done.json["environments"]
    return found


def kinds(environment: dict[str, Any]) -> list[str]:
    return [f"{one['kind']} {one['node']}".strip() for one in environment["findings"]]


def test_a_change_by_hand_is_found_and_settled_by_the_next_run(synced: Product, trees: Path) -> None:
    (clear,) = look(synced, trees, code=Exit.OK)
    assert (clear["findings"], clear["nodes"], clear["outcome"]) == ([], 2, "OK")
    by_hand(trees)
    before = contents(trees)
    (first,) = look(synced, trees, code=Exit.DRIFT)
    (second,) = look(synced, trees, code=Exit.DRIFT)
    assert first["findings"] == second["findings"], "it is the same, seen for the first time at the same time"
    (found,) = first["findings"]
    assert (found["kind"], found["node"], found["data_source"], found["count"]) == ("drift", "1", "globals", 1)
    assert found["text"] == "changed on the node: use_syslog"
    assert contents(trees) == before
    assert synced.changing() == []
    shown = synced("watch", "--last")
    assert "drift: node 1 globals: changed on the node: use_syslog; since " in shown.out
    assert shown.code == Exit.DRIFT
    assert synced("sync", "--env", 5, "--from", trees).code == Exit.OK
    assert synced("watch", "--last").out == "environment 5: nothing to report\n", "the run itself settles it"


@pytest.mark.parametrize(("more", "expected"), [((), 2), (("--parallel", 4), 4)])
def test_it_is_in_no_hurry_unless_it_is_told_so(
    synced: Product, trees: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[object, ...], expected: int
) -> None:
    planned: Callable[[Run], Plan] = Run.plan
    seen = []

    def noted(run: Run) -> Plan:
        seen.append(run.options.parallel)
        return planned(run)

    monkeypatch.setattr(Run, "plan", noted)
    look(synced, trees, *more, code=Exit.OK)
    assert seen == [expected]


def test_status_says_it_with_its_exit_code(synced: Product, trees: Path) -> None:
    assert synced("status", "--exit-code").code == Exit.OK
    by_hand(trees)
    look(synced, trees, code=Exit.DRIFT)
    done = synced("status", "--exit-code")
    assert (done.code, synced("status").code) == (Exit.DRIFT, Exit.OK)
    assert "; 1 finding of the watch\n" in done.out
    assert synced("status", "-f", "json").json["environments"][0]["findings"] == 1
    (trees / "node-1/etc/hiera/globals.yaml").write_text("- no mapping\n")
    assert synced("sync", "--env", 5, "--from", trees).code == Exit.PARTIAL
    assert synced("status", "--exit-code").code == Exit.PARTIAL


def test_overrides_that_end_and_that_do_nothing(synced: Product, trees: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = ("--env", 5, "-r", "globals", "--level", "nodes=1", "-k")
    assert synced("override", *MEANT, *place, "debug", "-t", "int", "-v", 1, "--for", "1m").code == Exit.OK
    assert synced("override", *MEANT, *place, "use_syslog", "-t", "bool", "-v", "true").code == Exit.OK
    assert synced("sync", "--env", 5, "--from", trees).code == Exit.OK
    (found,) = look(synced, trees, code=Exit.DRIFT)
    assert (found["overrides"], found["expiring"]) == (2, 1)
    assert [(one["kind"], one["key"], one["level"]) for one in found["findings"]] == [
        ("override-without-effect", "use_syslog", "/nodes/1/")
    ]
    later = SystemClock().now() + timedelta(seconds=90)
    monkeypatch.setattr(SystemClock, "now", lambda _: later)
    (found,) = look(synced, trees, code=Exit.DRIFT)
    assert "override-ended" in kinds(found)
    assert (found["overrides"], found["expiring"]) == (2, 0)


def test_a_server_that_lists_no_overrides(product: Product, trees: Path) -> None:
    product.plain = True
    assert product("sync", "--env", 5, "--from", trees).code == Exit.OK
    place = ("--env", 5, "-r", "globals", "--level", "nodes=1", "-k", "debug", "-t", "int", "-v", 1)
    assert product("override", *MEANT, *place, "--for", "8h").code == Exit.OK
    (found,) = look(product, trees, code=Exit.DRIFT)
    assert (found["overrides"], found["expiring"], kinds(found)) == (1, 1, ["drift 1"])


def test_an_environments_failure_leaves_the_others(synced: Product, trees: Path, tmp_path: Path) -> None:
    assert synced("sync", "--env", 6, "--from", make_trees(tmp_path / "six", "7", env=6)).code == Exit.OK
    by_hand(trees)
    five, six = look(synced, trees, code=Exit.PARTIAL)
    assert kinds(five) == ["drift 1"]
    assert kinds(six) == ["node-failed 1", "node-failed 2"]


def test_configdb_away_is_a_finding_and_settles_nothing_else(synced: Product, trees: Path) -> None:
    by_hand(trees)
    look(synced, trees, code=Exit.DRIFT)

    def away(_: object) -> None:
        raise UnavailableError("ConfigDB is away")

    synced.fault = away
    (found,) = look(synced, trees, code=Exit.CONFIGDB)
    assert (kinds(found), found["outcome"], found["nodes"]) == (["configdb-away", "drift 1"], "CONFIGDB", 2)
    synced.fault = None
    (found,) = look(synced, trees, code=Exit.DRIFT)
    assert kinds(found) == ["drift 1"]


def test_a_bus_that_is_away_is_a_finding(synced: Product, tmp_path: Path) -> None:
    config = tmp_path / "client.cfg"
    config.write_text(
        "connector = rabbitmq\nsecurityprovider = psk\nplugin.psk = x\nplugin.rabbitmq.vhost = mcollective\n"
        "plugin.rabbitmq.pool.size = 1\nplugin.rabbitmq.pool.1.host = 127.0.0.1\nplugin.rabbitmq.pool.1.port = 1\n"
        "plugin.rabbitmq.pool.1.user = mcollective\nplugin.rabbitmq.pool.1.password = CANARY\n"
    )
    done = synced("watch", "--mco-config", config, "--mco-attempts", 1)
    assert done.code == Exit.NODES, done.out + done.err
    assert "nodes-away: " in done.out
    assert "CANARY" not in done.out


def test_a_fault_of_our_own_is_a_finding_without_its_text(
    synced: Product, trees: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Run) -> Plan:
        raise RuntimeError("CANARY")

    monkeypatch.setattr(Run, "plan", broken)
    (found,) = look(synced, trees, code=Exit.PARTIAL)
    (one,) = found["findings"]
    assert one["text"] == "internal error: RuntimeError (`configdb-sync plan --env 5` shows where)"


@contextmanager
def running(database: Database) -> Iterator[None]:
    """Be a run that is at work on environment 5."""
    host = LocalProcesses().host
    lease = Lease(database, lease_name(5), "req-at-work", host, SystemClock())
    lease.take(0)
    Journal(database, About("req-at-work", 5, "x", "ann", host, os.getpid()), SystemClock()).begin()
    with lease.kept():
        yield


def test_an_environment_with_a_run_at_work_is_left_alone(synced: Product, trees: Path) -> None:
    by_hand(trees)
    with own_database(synced) as database, running(database):
        (found,) = look(synced, trees, code=Exit.OK)
        assert (found["outcome"], found["findings"]) == ("SKIPPED", [])
        assert "left alone, nothing to report (run req-at-work is at work)" in synced("watch", "--last").out


def test_a_run_that_began_meanwhile_is_not_taken_for_drift(
    synced: Product, trees: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand(trees)
    planned: Callable[[Run], Plan] = Run.plan

    def slow(run: Run) -> Plan:
        found = planned(run)
        about = About("req-new", 5, "x", "ann", "elsewhere", 1)
        journal = Journal(run.database, about, SystemClock())
        journal.begin()
        journal.stopped("OK", Exit.OK, {})
        return found

    monkeypatch.setattr(Run, "plan", slow)
    (found,) = look(synced, trees, code=Exit.OK)
    assert (found["outcome"], found["text"], found["findings"]) == ("SKIPPED", "run req-new came in between", [])


def test_never_two_at_once(synced: Product, trees: Path) -> None:
    with own_database(synced) as database:
        lease = Lease(database, LEASE, "req-other", "elsewhere", SystemClock())
        lease.take(0)
        done = synced("watch", "--from", trees)
        assert done.code == Exit.BUSY
        assert "run req-other on elsewhere works on the watch" in done.err
        lease.release()
    look(synced, trees, code=Exit.OK)


def test_apply_carries_out_a_run_where_something_differs(synced: Product, trees: Path) -> None:
    look(synced, trees, "--apply", code=Exit.OK)
    assert len(synced("runs", "-f", "json").json["runs"]) == 1, "there was nothing to do"
    by_hand(trees)
    (found,) = look(synced, trees, "--apply", code=Exit.OK)
    assert found["findings"] == []
    assert len(synced("runs", "-f", "json").json["runs"]) == 2
    assert synced("get", "--env", 5, "-r", "globals", "--level", "nodes=1", "-k", "use_syslog").out == "false\n"


def test_at_an_interval_until_it_is_stopped(synced: Product, trees: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    def sleep(_: SystemClock, seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 4:
            raise KeyboardInterrupt
        if len(slept) == 2:
            by_hand(trees)

    monkeypatch.setattr(SystemClock, "sleep", sleep)
    done = synced("watch", "--from", trees, "--interval", "15m", "--jitter", "2m")
    assert done.out.splitlines()[0] == "environment 5: nothing to report"
    assert "environment 5: 1 finding" in done.out
    assert slept[1::2] == [900.0, 900.0]
    assert all(0 <= one < 120 for one in slept[::2])
    assert synced("watch", "--interval", "soon").code == Exit.USAGE


def test_the_node_exporters_file_is_whole_and_for_everyone_to_read(
    synced: Product, trees: Path, tmp_path: Path
) -> None:
    file = tmp_path / "configdb_sync.prom"
    by_hand(trees)
    look(synced, trees, "--text-file", file, code=Exit.DRIFT)
    drifted = 'configdb_sync_keys_drifted{environment="5",tenant="admin"} '
    assert f"{drifted}1.0\n" in file.read_text()
    assert file.stat().st_mode & 0o777 == 0o644
    assert synced("sync", "--env", 5, "--from", trees).code == Exit.OK
    look(synced, trees, "--text-file", file, code=Exit.OK)
    assert f"{drifted}0.0\n" in file.read_text()
    assert [path.name for path in tmp_path.glob("*.prom*")] == [file.name]
    done = synced("watch", "--from", trees, "--text-file", tmp_path / "none/x.prom")
    assert (done.code, "name another file with --text-file" in done.err) == (Exit.USAGE, True)


def test_an_environment_that_fuel_no_longer_has_is_forgotten(synced: Product, trees: Path) -> None:
    by_hand(trees)
    look(synced, trees, code=Exit.DRIFT)
    with at_work(make_small(6)) as url:
        assert look(synced, trees, "--nailgun", url, code=Exit.OK) == []
    assert synced("watch", "--last").out == "There is no environment yet.\n"
