"""U3: the services under a real systemd, switched on and off by the settings file."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator

import pytest

from tests.plugin import machine as machines
from tests.plugin.conftest import ROOT
from tests.plugin.jail import Jail
from tests.plugin.machine import Machine
from tests.plugin.test_services import settings

CONFIGDB, TENANTS = "configdb-sync-configdb", "configdb-sync-tenants"
TEXT = """
services:
  configdb: {{enabled: {enabled}, listen: "127.0.0.1:8082"{more}}}
  tenants: {{enabled: {enabled}, admin: "127.0.0.1:8083", usage_log: /var/log/configdb-sync/usage.log}}
"""


@pytest.fixture
def machine(master: Jail) -> Iterator[Machine]:
    with machines.running(master) as found:
        yield found


def said(master: Jail, *, enabled: bool = True, more: str = "") -> None:
    settings(master, TEXT.format(enabled=str(enabled).lower(), more=more))


def waits_for(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + machines.WAIT_S
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.3)


@pytest.mark.long
def test_what_the_settings_say_is_what_runs(master: Jail, machine: Machine) -> None:
    def apply(code: int = 0) -> list[str]:
        done = machine.run("configdb-sync services apply")
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout.splitlines()

    assert apply() == ["configdb: off", "tenants: off", "watch: off"]
    said(master)
    assert all("started" in line for line in apply()[:2])
    assert apply() == ["configdb: runs as it should", "tenants: runs as it should", "watch: off"]
    first = {unit: machine.shown(unit, "MainPID") for unit in (CONFIGDB, TENANTS)}
    for unit, number in first.items():
        status = machine.run(f"cat /proc/{number}/status").stdout
        for line in ("CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1"):
            assert line in status, unit
        for path, may in (("etc", False), ("usr", False), ("var/lib", False), ("var/lib/configdb-sync", True)):
            # Into the service's own mounts, from outside the machine.
            place = f"/proc/{number}/root/{path}/written"
            done = machine.run(f"touch {place} && rm {place}")
            assert (done.returncode == 0) is may, done.stderr
    # One setting changed: one service restarted.
    said(master, more=", workers: 3")
    assert apply() == ["configdb: restarted, because its settings changed", "tenants: runs as it should", "watch: off"]
    assert machine.shown(TENANTS, "MainPID") == first[TENANTS]
    # Killed, it is there again; with a wrong setting it isn't tried again and again.
    machine.run(f"kill -9 {machine.shown(TENANTS, 'MainPID')}")
    waits_for(
        lambda: (
            machine.shown(TENANTS, "ActiveState") == "active"
            and machine.shown(TENANTS, "MainPID") not in {first[TENANTS], "0"}
        )
    )
    said(master, more=", listen2: 1")
    assert machine.run(f"systemctl restart {CONFIGDB}").returncode != 0
    waits_for(lambda: machine.shown(CONFIGDB, "ActiveState") == "failed")
    assert machine.shown(CONFIGDB, "NRestarts") == "0"
    said(master, enabled=False)
    assert all("stopped" in line for line in apply()[:2])
    assert apply() == ["configdb: off", "tenants: off", "watch: off"]
    assert {machine.shown(unit, "ActiveState") for unit in (CONFIGDB, TENANTS)} == {"inactive"}
    assert {machine.shown(unit, "UnitFileState") for unit in (CONFIGDB, TENANTS)} == {"disabled"}


@pytest.mark.long
def test_the_watch_is_started_by_its_timer(master: Jail, machine: Machine) -> None:
    """U29: what was changed by hand is in the metrics after the timer's next round, and gone after a sync."""
    product = "configdb-sync {} --env 1 --from /trees"
    shutil.copytree(ROOT / "examples/small-cloud", master.root / "trees", symlinks=True)
    assert machine.run(product.format("sync")).returncode == 0
    settings(master, "services: {watch: {enabled: true, interval: 1m, from: /trees, text_file: /metrics/watch.prom}}")
    (master.root / "metrics").mkdir()
    # Sooner than a master's timer, which gives a machine that starts a minute.
    soon = master.root / "etc/systemd/system/configdb-sync-watch.timer.d/soon.conf"
    soon.parent.mkdir(parents=True)
    text = "[Timer]\nOnActiveSec=\nOnActiveSec=1\nOnUnitInactiveSec=2\nRandomizedDelaySec=0\nAccuracySec=1ms\n"
    soon.write_text(text)
    done = machine.run("configdb-sync services apply")
    assert done.stdout.endswith(", started\n"), done.stdout + done.stderr

    def drifted() -> str | None:
        path = master.root / "metrics/watch.prom"
        lines = path.read_text().splitlines() if path.exists() else []
        return next((line.split()[1] for line in lines if line.startswith("configdb_sync_keys_drifted{")), None)

    waits_for(lambda: drifted() == "0.0")
    changed = master.root / "trees/node-1/etc/astute.yaml"
    changed.write_text(changed.read_text().replace("debug: false", "debug: true"))
    waits_for(lambda: drifted() == "1.0")
    assert machine.run(product.format("sync")).returncode == 0
    waits_for(lambda: drifted() == "0.0")
    settings(master, "services: {watch: {enabled: false}}")
    assert machine.run("configdb-sync services apply").stdout.endswith("stopped\n")
