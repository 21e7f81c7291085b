"""F2: the services as the installed plugin brings them, started by their units' own command lines."""

from __future__ import annotations

import contextlib
import fcntl
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.plugin.calling import astute, enable
from tests.plugin.jail import Jail
from tests.plugin.snapshot import taken
from tests.support.trees import make_trees

STATE = "var/lib/configdb-sync"
UNITS = "etc/systemd/system"
SYSTEMD_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin"
WAIT_S = 120.0


def unit(master: Jail, service: str) -> dict[str, str]:
    text = (master.root / UNITS / f"configdb-sync-{service}.service").read_text()
    return dict(re.findall(r"^(\w+)=(.*)$", text, flags=re.MULTILINE))


def settings(master: Jail, text: str) -> None:
    (master.root / "etc/configdb-sync").mkdir(mode=0o700, exist_ok=True)
    file = master.root / "etc/configdb-sync/settings.yaml"
    file.touch(mode=0o600)
    file.write_text(text)


@contextlib.contextmanager
def running(master: Jail, service: str) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Start a unit's ``ExecStart`` under what the unit lays on it; yield it once it has said that it is ready, with
    the addresses that it listens on."""
    told = unit(master, service)
    (master.root / "run").mkdir(exist_ok=True)
    place = master.root / f"run/{service}.notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified:
        notified.bind(str(place))
        notified.settimeout(WAIT_S)
        writable = [path.removeprefix("-") for path in told["ReadWritePaths"].split()]
        line = master.sandboxed(
            told["ExecStart"], writable, PATH=SYSTEMD_PATH, LANG="en_US.UTF-8", NOTIFY_SOCKET=f"/run/{service}.notify"
        )
        process = subprocess.Popen(
            line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        try:
            try:
                assert b"READY=1" in notified.recv(4096)
            except TimeoutError:
                process.kill()
                pytest.fail(f"{service} wasn't ready: {process.communicate()}")
            urls: list[str] = []
            assert process.stdout is not None
            while len(urls) < (2 if service == "tenants" else 1):
                said = process.stdout.readline()
                assert said, process.communicate()[1]
                urls += re.findall(r"listens on (\S+)", said)
            yield process, urls
        finally:
            process.terminate()
            process.communicate(timeout=WAIT_S)
            place.unlink()


def get(url: str, token: str) -> requests.Response:
    return requests.get(url, headers={"X-Auth-Token": token}, timeout=WAIT_S)


def test_both_at_work_while_the_task_runs(master: Jail) -> None:
    """Whoever is first makes the product's database, and nobody is disturbed.

    What all of them print, and what Fuel's snapshot takes of the master, holds no secret.
    """
    said = ""
    make_trees(master.root / "trees", "1", "2")
    enable(master, "etc/fuel/cluster/5/astute.yaml", 5, configdb="embedded")
    settings(
        master,
        """
services:
  configdb: {enabled: true, listen: "127.0.0.1:0", workers: 2}
  tenants: {enabled: true, admin: "127.0.0.1:0", public: "127.0.0.1:0", usage_log: /var/log/configdb-sync/usage.log}
login: {password: CANARY-login}
""",
    )
    state = master.root / STATE
    state.mkdir(mode=0o700)
    with running(master, "configdb") as (configdb, (url,)), running(master, "tenants") as (tenants, (admin, public)):
        for process in (configdb, tenants):
            status = Path(f"/proc/{process.pid}/status").read_text()
            assert re.search(r"^CapEff:\s0+$", status, flags=re.MULTILINE), status
            assert re.search(r"^NoNewPrivs:\s1$", status, flags=re.MULTILINE), status
            assert "CANARY" not in Path(f"/proc/{process.pid}/cmdline").read_text()
            assert "CANARY" not in Path(f"/proc/{process.pid}/environ").read_text()
        done = astute(master, "main", 5, "--from", "/trees")
        assert done.returncode == 0, done.stdout + done.stderr
        said += done.stdout + done.stderr
        token = (state / "configdb.token").read_text()
        assert [one["id"] for one in get(f"{url}/environments", token).json()] == [5]
        assert get(f"{url}/environments", "x" * 20).status_code == 401
        named = get(f"{admin}/v1.0/admin", (state / "tenants.token").read_text())
        assert named.status_code == 200, named.text
        assert get(f"{public}/v1.0/admin", "x" * 20).status_code == 401
        done = astute(master, "main", 5, "--from", "/trees")
        assert "0 documents uploaded" in done.stdout, done.stdout + done.stderr
        for line in ("backup /var/cache/b.tgz", "plan --env 5 --from /trees"):
            done = master.run(f"configdb-sync {line}")
            assert done.returncode == 0, done.stdout + done.stderr
            said += done.stdout + done.stderr
        shown = master.run("configdb-sync doctor --env 5")  # there is no Keystone here to log in to
        said += shown.stdout + shown.stderr
        for process in (configdb, tenants):
            process.terminate()
            out, err = process.communicate(timeout=WAIT_S)
            assert (process.returncode, err) == (0, ""), err
            said += out
        secrets = [token, (state / "tenants.token").read_text(), (state / "mask.key").read_text(), "CANARY"]
    usage = master.root / "var/log/configdb-sync/usage.log"
    assert usage.stat().st_mode & 0o777 == 0o600
    assert '"tenant": "admin"' in usage.read_text() or '"tenant":"admin"' in usage.read_text()
    assert {path.stat().st_mode & 0o077 for path in state.iterdir()} == {0}
    (master.root / "var/log/puppet.log").write_text(said)
    snapshot = {path: path.read_bytes() for path in taken(master.root)}
    assert {"usage.log", "puppet.log", "astute.yaml"} <= {path.name for path in snapshot}
    assert [path for path, text in snapshot.items() for secret in secrets if secret.encode() in text] == []
    kept = (state, master.root / "etc/configdb-sync", master.root / "var/cache")
    assert [path for path in snapshot if any(path.is_relative_to(one) for one in kept)] == []


def test_a_wrong_setting_ends_it_with_the_code_that_is_not_tried_again(master: Jail) -> None:
    settings(master, "services: {configdb: {listen: '10.0.0.1:8082'}}\n")
    told = unit(master, "configdb")
    done = master.run(told["ExecStart"])
    assert str(done.returncode) == told["RestartPreventExitStatus"], done.stderr
    assert "--tls-cert" in done.stderr


SYSTEMCTL = '#!/bin/sh\necho "$*" >> /systemctl.calls\n'


@pytest.fixture
def managed(rpm: Path, master: Jail) -> Iterator[Jail]:
    """A master that systemd runs, as far as a package's scripts see it."""
    (master.root / "run/systemd/system").mkdir(parents=True)
    (master.root / "usr/bin/systemctl").write_text(SYSTEMCTL)
    (master.root / "usr/bin/systemctl").chmod(0o755)
    yield master
    shutil.rmtree(master.root / "run/systemd")
    (master.root / "usr/bin/systemctl").unlink()
    (master.root / "systemctl.calls").unlink(missing_ok=True)
    if not (master.root / "usr/bin/configdb-sync").is_symlink():
        assert master.rpm("--install", "--nodeps", "--nosignature", rpm).returncode == 0


def test_an_upgrade_waits_for_a_run_and_restarts_what_runs(managed: Jail, rpm: Path) -> None:
    state = managed.root / STATE
    state.mkdir(mode=0o700)
    (managed.root / "etc/logrotate.d/configdb-sync").write_text("# an operator's own\n")
    unit_file = managed.root / UNITS / "configdb-sync-configdb.service"
    unit_file.write_text("[Unit]\nDescription=of an older version\n")
    with (state / "environment-5.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done: list[subprocess.CompletedProcess[str]] = []
        arguments = ("--upgrade", "--replacepkgs", "--nodeps", "--nosignature", rpm)
        upgrade = threading.Thread(target=lambda: done.append(managed.rpm(*arguments)))
        upgrade.start()
        upgrade.join(8)
        assert upgrade.is_alive()
        assert "older version" in unit_file.read_text()
    upgrade.join(WAIT_S)
    assert done[0].returncode == 0, done[0].stderr
    assert "ExecStart" in unit_file.read_text()
    calls = (managed.root / "systemctl.calls").read_text().splitlines()
    units = "configdb-sync-configdb.service configdb-sync-tenants.service configdb-sync-watch.timer"
    assert calls == ["daemon-reload", f"try-restart {units}"]
    assert (managed.root / "etc/logrotate.d/configdb-sync").read_text() == "# an operator's own\n"


def test_removed_no_service_is_left_and_the_state_is(managed: Jail) -> None:
    (managed.root / STATE).mkdir(mode=0o700)
    (managed.root / STATE / "mask.key").write_text("x")
    folder = managed.root / "etc/systemd/system/configdb-sync-tenants.service.d"
    folder.mkdir(parents=True)
    done = managed.rpm("--erase", "--nodeps", "configdb-sync-0.1")
    assert done.returncode == 0, done.stderr
    calls = (managed.root / "systemctl.calls").read_text().splitlines()
    assert [line.split(" ")[0] for line in calls] == ["disable", "stop", "daemon-reload"]
    assert list((managed.root / UNITS).iterdir()) == []
    assert not (managed.root / "etc/logrotate.d/configdb-sync").exists()
    assert "/var/lib/configdb-sync" in done.stdout + done.stderr
    assert (managed.root / STATE / "mask.key").exists()
