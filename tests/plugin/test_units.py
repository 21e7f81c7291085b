"""U3: the services' units, and what is done to make them as the settings say."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from configdb_sync.plugin.units import (
    TIMERS,
    UNITS,
    WRITABLE,
    UnitGoal,
    UnitState,
    UnitStep,
    drop_in,
    fingerprint,
    steps,
    timer_drop_in,
)
from tests.plugin.conftest import ROOT

# What the systemd of CentOS 7 (219) knows of what the units use, by its own table of options.
KNOWN_TO_219 = {
    *("Description", "After", "Wants", "ConditionPathExists", "Type", "ExecStart", "Restart", "RestartSec"),
    *("RestartPreventExitStatus", "TimeoutStartSec", "TimeoutStopSec", "KillMode", "UMask", "NoNewPrivileges"),
    *("CapabilityBoundingSet", "PrivateTmp", "PrivateDevices", "ProtectHome", "ProtectSystem", "LimitCORE"),
    *("RestrictAddressFamilies", "SystemCallArchitectures", "LimitNOFILE", "WantedBy", "SuccessExitStatus"),
    *("OnActiveSec", "OnUnitInactiveSec", "AccuracySec"),
}
# What came later: 219 leaves it out with a warning, and the service is whole without it.
KNOWN_LATER = {
    *("ReadWritePaths", "StateDirectory", "StateDirectoryMode", "CacheDirectory", "CacheDirectoryMode"),
    *("LogsDirectory", "LogsDirectoryMode", "ProtectKernelTunables", "ProtectKernelModules", "ProtectKernelLogs"),
    *("ProtectControlGroups", "ProtectClock", "ProtectHostname", "ProtectProc", "RestrictNamespaces"),
    *("RestrictRealtime", "RestrictSUIDSGID", "LockPersonality", "RandomizedDelaySec"),
}


def options(service: str) -> list[tuple[str, str]]:
    text = (ROOT / "services" / UNITS[service]).read_text(encoding="ascii")
    return re.findall(r"^(\w+)=(.*)$", text, flags=re.MULTILINE)


@pytest.mark.parametrize("service", UNITS)
def test_a_unit_holds_what_centos_7_knows_and_what_it_may_leave_out(service: str) -> None:
    found = options(service)
    assert {name for name, _ in found} <= KNOWN_TO_219 | KNOWN_LATER
    # 219 refuses `strict`, and only that line: the one before must stand.
    assert [value for name, value in found if name == "ProtectSystem"] == ["full", "strict"]
    told = dict(found)
    command = "watch --service --quiet" if service == "watch" else f"{service} serve"
    assert told["ExecStart"] == f"/usr/bin/configdb-sync {command}"
    assert (told["NoNewPrivileges"], told["CapabilityBoundingSet"], told["UMask"]) == ("yes", "", "0077")
    assert {Path(path.removeprefix("-")) for path in told["ReadWritePaths"].split()} == {
        *WRITABLE[service],
        Path("/var/cache/configdb-sync"),
    }
    assert "User" not in told  # root, as the task


@pytest.mark.parametrize("service", UNITS)
def test_systemd_finds_no_fault_in_it(service: str, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed here")
    text = (ROOT / "services" / UNITS[service]).read_text()
    unit = tmp_path / UNITS[service]
    unit.write_text(text.replace("/usr/bin/configdb-sync", str(shutil.which("true"))))
    more = drop_in(service, [Path("/srv/a folder"), Path("/srv/100%")])
    assert more is not None
    (tmp_path / f"{UNITS[service]}.d").mkdir()
    (tmp_path / f"{UNITS[service]}.d/configdb-sync.conf").write_text(more)
    environ = {"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin"}
    command = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if UNITS[service] in line]
    assert said == []
    assert done.returncode == 0, done.stderr
    security = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=40", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    if "unrecognized option" not in security.stderr:
        assert security.returncode == 0, security.stdout.splitlines()[-1]


@pytest.mark.parametrize("timer", TIMERS.values())
def test_a_timer_holds_what_centos_7_knows_and_systemd_finds_no_fault_in_it(timer: str, tmp_path: Path) -> None:
    text = (ROOT / "services" / timer).read_text(encoding="ascii")
    found = re.findall(r"^(\w+)=(.*)$", text, flags=re.MULTILINE)
    assert {name for name, _ in found} <= KNOWN_TO_219 | KNOWN_LATER
    assert ("RandomizedDelaySec", "60") in found
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed here")
    (tmp_path / timer).write_text(text)
    service = (ROOT / "services" / timer.replace(".timer", ".service")).read_text()
    (tmp_path / timer.replace(".timer", ".service")).write_text(
        service.replace("/usr/bin/configdb-sync", str(shutil.which("true")))
    )
    (tmp_path / f"{timer}.d").mkdir()
    (tmp_path / f"{timer}.d/configdb-sync.conf").write_text(timer_drop_in(3600.0))
    environ = {"SYSTEMD_UNIT_PATH": f"{tmp_path}:", "PATH": "/usr/bin:/bin"}
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / timer)]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert [line for line in done.stderr.splitlines() if "configdb-sync" in line] == []
    assert done.returncode == 0, done.stderr


def test_what_lies_elsewhere_is_opened_and_nothing_else() -> None:
    assert drop_in("configdb", [Path("/var/lib/configdb-sync"), Path("/var/lib/configdb-sync/x")]) is None
    assert drop_in("tenants", [Path("/var/log/configdb-sync")]) is None
    assert "/var/log/configdb-sync" in (drop_in("configdb", [Path("/var/log/configdb-sync")]) or "")
    assert drop_in("configdb", [Path("/srv/b"), Path("/srv/a"), Path("/srv/b")]) == (
        '# Written by `configdb-sync services apply`.\n[Service]\nReadWritePaths="/srv/a" "/srv/b"\n'
    )
    for bad in ("/srv/a\nExecStart=/bin/sh", '/srv/"', "/srv/\\x"):
        with pytest.raises(ValueError, match="a control character"):
            drop_in("configdb", [Path(bad)])


EVERY = [
    (UnitState(True, enabled, active, failed, file, known), UnitGoal(wanted, *told))
    for enabled, active, failed, file, known, wanted, told in itertools.product(
        (True, False),
        (True, False),
        (True, False),
        (None, "x"),
        (None, "f", "g"),
        (True, False),
        ((None, "f"), ("x", "f"), (None, None)),
    )
    if not (active and failed) and (wanted or told == (None, None)) and (not wanted or told != (None, None))
]


def carried_out(found: UnitState, wanted: UnitGoal) -> UnitState:
    enabled, active, failed, file, known = found.enabled, found.active, found.failed, found.drop_in, found.fingerprint
    for step in steps(found, wanted):
        if step in {UnitStep.WRITE, UnitStep.REMOVE}:
            file = wanted.drop_in
        elif step in {UnitStep.ENABLE, UnitStep.DISABLE}:
            enabled = step is UnitStep.ENABLE
        else:
            active = step in {UnitStep.START, UnitStep.RESTART}
            failed = failed and step is UnitStep.STOP
            known = wanted.fingerprint if active else known
    return UnitState(True, enabled, active, failed, file, known)


@pytest.mark.parametrize(("found", "wanted"), EVERY)
def test_whatever_is_found_becomes_what_is_wanted_and_is_left_alone_then(found: UnitState, wanted: UnitGoal) -> None:
    after = carried_out(found, wanted)
    assert (after.enabled, after.active, after.drop_in) == (wanted.enabled, wanted.enabled, wanted.drop_in)
    assert not after.failed
    assert steps(after, wanted) == ()
    # What runs as it should is never touched.
    if wanted.enabled and found == UnitState(True, True, True, False, wanted.drop_in, wanted.fingerprint):
        assert steps(found, wanted) == ()
    if found.active and wanted.enabled:
        assert (UnitStep.RESTART in steps(found, wanted)) is (
            found.fingerprint != wanted.fingerprint or found.drop_in != wanted.drop_in
        )


def test_a_fingerprint_changes_with_settings_and_files_and_shows_neither() -> None:
    one = fingerprint(b"k" * 32, {"login": {"OS_PASSWORD": "CANARY"}}, {"/x": b"CANARY"})
    assert re.fullmatch("[0-9a-f]{64}", one)
    assert fingerprint(b"k" * 32, {"login": {"OS_PASSWORD": "CANARY"}}, {"/x": b"CANARY"}) == one
    assert (
        len(
            {
                one,
                fingerprint(b"l" * 32, {"login": {"OS_PASSWORD": "CANARY"}}, {"/x": b"CANARY"}),
                fingerprint(b"k" * 32, {"login": {"OS_PASSWORD": "CANARy"}}, {"/x": b"CANARY"}),
                fingerprint(b"k" * 32, {"login": {"OS_PASSWORD": "CANARY"}}, {"/x": b"CANARy"}),
            }
        )
        == 4
    )
