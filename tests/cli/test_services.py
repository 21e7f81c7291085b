"""U3: `configdb-sync services` makes systemd do what the settings file says, and no more."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from configdb_sync.cli import services
from configdb_sync.exits import Exit
from configdb_sync.plugin.units import Systemd
from tests.support.product import Product

CONFIGDB, TENANTS = "configdb-sync-configdb.service", "configdb-sync-tenants.service"
WATCH, TIMER = "configdb-sync-watch.service", "configdb-sync-watch.timer"

# What the product asks of it: a unit is a file of its name in a folder of its state.
SYSTEMCTL = """\
#!/bin/sh
cd {folder} && echo "$*" >> calls
case $1 in
    is-*) test -e "${{1#is-}}/$3" ;;
    show) case $2 in
            *LoadState) echo "LoadState=$(test -e "installed/$3" && echo loaded || echo not-found)" ;;
            *ActiveState) for state in active failed activating; do
                    test ! -e "$state/$3" || {{ echo "ActiveState=$state"; exit; }}
                done; echo ActiveState=inactive ;;
        esac ;;
    reset-failed) rm -f "failed/$2" ;;
    enable) touch "enabled/$2" ;;
    disable) rm -f "enabled/$2" ;;
    start|restart) test ! -e "broken/$2" || {{ touch "failed/$2"; echo "Job for $2 failed." >&2; exit 1; }}
        rm -f "failed/$2"; touch "active/$2" ;;
    stop) rm -f "active/$2" "activating/$2" ;;
    daemon-reload) ;;
    *) exit 64 ;;
esac
"""


class Machine:
    """A machine with systemd, and a settings file."""

    def __init__(self, folder: Path, product: Product) -> None:
        self.folder, self.product = folder, product
        for name in ("enabled", "active", "failed", "activating", "installed", "broken", "run/systemd/system"):
            (folder / name).mkdir(parents=True)
        for unit in (CONFIGDB, TENANTS, TIMER):
            (folder / "installed" / unit).touch()
        (folder / "bin").mkdir()
        (folder / "bin/systemctl").write_text(SYSTEMCTL.format(folder=folder))
        (folder / "bin/systemctl").chmod(0o755)
        self.file = folder / "settings.yaml"
        self.file.touch(mode=0o600)

    def say(self, text: str) -> None:
        self.file.write_text(f"state: {self.product.state}\n{text}")

    def calls(self) -> list[str]:
        """What was done since the last time."""
        path = self.folder / "calls"
        found = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return [line for line in found if not line.startswith(("is-", "show "))]

    def drop_in(self, unit: str) -> str:
        path = self.folder / f"etc/systemd/system/{unit}.d/configdb-sync.conf"
        return path.read_text() if path.exists() else ""


@pytest.fixture
def machine(tmp_path: Path, product: Product, monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine(tmp_path / "m", product)
    monkeypatch.setenv("PATH", f"{found.folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(services, "SYSTEMD", Systemd(found.folder))
    monkeypatch.setattr("configdb_sync.settings.DEFAULT_FILE", found.file)
    # The shell's own variables are nothing that a service would see.
    monkeypatch.setenv("CONFIGDB_SYNC_STATE", "/nonexistent")
    monkeypatch.setenv("CONFIGDB_SYNC_CONFIGDB_DATABASE", "nonsense")
    return found


def run(command: str, code: Exit = Exit.OK) -> str:
    """Run it as it is: it takes no ``--state``."""
    import contextlib
    import io

    from configdb_sync.cli.main import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), pytest.raises(SystemExit) as end:
        main(["services", command])
    assert end.value.code == code, out.getvalue()
    return out.getvalue()


def test_off_until_the_settings_switch_them_on(machine: Machine) -> None:
    machine.say("")
    assert run("apply") == "configdb: off\ntenants: off\nwatch: off\n"
    assert machine.calls() == []
    assert run("status").count("off in the settings, doesn't run; as the settings say") == 3


def test_on_changed_and_off_each_once(machine: Machine) -> None:
    machine.say("services: {configdb: {enabled: true}}\n")
    assert "not as the settings say" in run("status", Exit.PARTIAL)
    assert "configdb: its unit was given" in run("apply")  # the tests' state folder is no usual one
    assert f'ReadWritePaths="{machine.product.state}"' in machine.drop_in(CONFIGDB)
    assert machine.calls() == ["daemon-reload", f"enable {CONFIGDB}", f"start {CONFIGDB}"]
    for _ in range(2):
        assert run("apply") == "configdb: runs as it should\ntenants: off\nwatch: off\n"
    assert machine.calls() == []
    # A setting of the service: restarted, once. One that it doesn't have: left alone.
    machine.say("services: {configdb: {enabled: true, workers: 3}}\n")
    assert "restarted, because its settings changed" in run("apply")
    machine.say("parallel: 9\nservices: {configdb: {enabled: true, workers: 3}}\nlogin: {password: x}\n")
    assert "runs as it should" in run("apply")
    assert machine.calls() == [f"restart {CONFIGDB}"]
    machine.say("services: {configdb: {enabled: false, workers: 3}}\n")
    assert "no longer starts with the machine, stopped" in run("apply")
    assert machine.calls() == ["daemon-reload", f"disable {CONFIGDB}", f"stop {CONFIGDB}"]
    assert machine.drop_in(CONFIGDB) == ""
    assert "configdb: off" in run("apply")
    assert machine.calls() == []


def test_a_new_password_or_certificate_is_a_changed_setting(machine: Machine, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.write_text("1")
    key.write_text("CANARY-key")
    text = f"""
services:
  tenants: {{enabled: true, auth: keystone, tls_cert: {certificate}, tls_key: {key}, usage_log: /srv/usage/u.log}}
login: {{auth_url: "http://127.0.0.1:5000", username: lcm, password: CANARY-%s}}
"""
    machine.say(text % "one")
    run("apply")
    assert '"/srv/usage"' in machine.drop_in(TENANTS)
    machine.calls()
    machine.say(text % "two")
    run("apply")
    assert machine.calls() == [f"restart {TENANTS}"]
    certificate.write_text("2")
    run("apply")
    assert machine.calls() == [f"restart {TENANTS}"]
    run("apply")
    assert machine.calls() == []
    # What is remembered of the settings says nothing of them.
    kept = machine.product.state / "services.json"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "CANARY" not in kept.read_text() + machine.drop_in(TENANTS)


def test_databases_on_several_servers_are_no_folders(machine: Machine) -> None:
    machine.say(
        "database: postgresql://lcm@one:5432,two:5432/lcm\n"
        "configdb_database: postgresql://lcm@one:5432,two:5432/configdb\n"
        "services: {configdb: {enabled: true}, tenants: {enabled: true}}\n"
    )
    assert "configdb: " in run("apply")
    assert "one" not in machine.drop_in(CONFIGDB) + machine.drop_in(TENANTS)


def test_one_that_does_not_start_is_said_so_and_the_other_is_started(machine: Machine) -> None:
    (machine.folder / "broken" / CONFIGDB).touch()
    machine.say("services: {configdb: {enabled: true}, tenants: {enabled: true}}\n")
    said = run("apply", Exit.PARTIAL)
    assert f"systemctl start {CONFIGDB}: Job for {CONFIGDB} failed. (journalctl -u {CONFIGDB}" in said
    assert f"start {TENANTS}" in machine.calls()
    assert "failed; not as the settings say" in run("status", Exit.PARTIAL)
    (machine.folder / "broken" / CONFIGDB).unlink()
    assert "configdb: started" in run("apply")
    assert machine.calls() == [f"start {CONFIGDB}"]
    # Switched off while it failed, or is being started again and again, it is stopped and forgotten.
    (machine.folder / "active" / CONFIGDB).rename(machine.folder / "failed" / CONFIGDB)
    (machine.folder / "active" / TENANTS).rename(machine.folder / "activating" / TENANTS)
    machine.say("")
    run("apply")
    calls = machine.calls()
    for unit in (CONFIGDB, TENANTS):
        assert [line for line in calls if line.endswith(unit)] == [
            f"disable {unit}",
            f"stop {unit}",
            f"reset-failed {unit}",
        ]
    assert run("apply") == "configdb: off\ntenants: off\nwatch: off\n"
    assert machine.calls() == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("services: {nova: {}}", "services is not valid"),
        ("services: [configdb]", "services is not valid"),
        ("services: {configdb: true}", "services.configdb is not valid"),
        ("services: {configdb: {listen: [1]}}", "services.configdb is not valid"),
        ("services: {configdb: {lisen: 1}}", "'lisen' (known: auth"),
        ("services: {configdb: {state: /x}}", "'state' (known: auth"),
        ("services: {configdb: {workers: 0}}", "services.configdb.workers"),
        ("services: {configdb: {auth: maybe}}", "services.configdb.auth"),
        ("services: {tenants: {enabled: 'yes'}}", "services.tenants.enabled is not valid (give true or false)"),
    ],
)
def test_a_mistake_is_found_before_anything_is_done(machine: Machine, text: str, words: str) -> None:
    machine.say(f"{text}\n")
    assert words in run("apply", Exit.USAGE)
    assert machine.calls() == []


def test_what_the_documentation_shows_works(machine: Machine) -> None:
    text = (Path(__file__).resolve().parents[2] / "docs/operations.md").read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```yaml\n(services:\n.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    machine.say(shown)
    assert run("apply").count("started") == 2
    assert machine.drop_in(TENANTS).count("/") == machine.drop_in(CONFIGDB).count("/")  # the usual log's folder is open


def test_without_its_unit_or_without_systemd(machine: Machine) -> None:
    (machine.folder / "installed" / TENANTS).unlink()
    machine.say("services: {tenants: {enabled: true}}\n")
    assert "the plugin's package installs it" in run("apply", Exit.PARTIAL)
    (machine.folder / "run/systemd/system").rmdir()
    assert "systemd doesn't run this machine" in run("apply", Exit.USAGE)


def test_the_watch_is_a_timer_with_its_interval(machine: Machine) -> None:
    machine.say("services: {watch: {enabled: true}}\n")
    assert "watch: its unit was given the folders that it writes to, " in run("apply")
    assert machine.calls()[-2:] == [f"enable {TIMER}", f"start {TIMER}"]
    assert machine.drop_in(TIMER) == ""
    assert f'ReadWritePaths="{machine.product.state}"' in machine.drop_in(WATCH)
    machine.say("services: {watch: {enabled: true, interval: 1h, text_file: /srv/metrics/configdb_sync.prom}}\n")
    assert "restarted, because its settings changed" in run("apply")
    assert "OnActiveSec=\nOnActiveSec=60\nOnUnitInactiveSec=3600\n" in machine.drop_in(TIMER)
    assert '"/srv/metrics"' in machine.drop_in(WATCH)
    assert "watch: runs as it should" in run("apply")
    machine.calls()
    machine.say("")
    assert "watch: its unit is as installed again, no longer starts with the machine, stopped" in run("apply")
    assert (machine.drop_in(TIMER), machine.drop_in(WATCH)) == ("", "")
    assert machine.calls() == ["daemon-reload", "daemon-reload", f"disable {TIMER}", f"stop {TIMER}"]
    for wrong in ("interval: soon", "last: true", "environments: 1"):
        machine.say(f"services: {{watch: {{enabled: true, {wrong}}}}}\n")
        run("apply", Exit.USAGE)


def test_the_watch_takes_its_settings_as_a_service_alone(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CONFIGDB_SYNC_CONFIGDB_DATABASE")
    file = tmp_path / "watch.prom"
    machine.say(f"services: {{watch: {{enabled: true, interval: 1h, text_file: {file}, from: {tmp_path}}}}}\n")
    assert machine.product("watch").code == Exit.OK
    assert not file.exists()
    assert machine.product("watch", "--service").code == Exit.OK, "once: the interval is the timer's"
    assert file.exists()
