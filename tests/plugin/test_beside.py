"""F2, F5: versions beside each other, and what the package's scripts trust: with small packages of the real builder."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.plugin import jail as jails
from tests.plugin.conftest import ROOT
from tests.plugin.jail import Jail

OTHER = 12345
UNITS = tuple(
    f"configdb-sync-{name}" for name in ("configdb.service", "tenants.service", "watch.service", "watch.timer")
)
SHARED = (*(f"etc/systemd/system/{unit}" for unit in UNITS), "etc/logrotate.d/configdb-sync")
LINKS = ("usr/share/bash-completion/completions/configdb-sync", "usr/share/man/man1/configdb-sync.1")
Small = Callable[[str], Path]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Small:
    """Give ``small(version)``: a package with the real scripts, a command that says its version, and no Python."""
    import build_plugin

    lacking = [program for program in build_plugin.PROGRAMS if shutil.which(program) is None]
    if lacking:
        pytest.skip(f"{lacking[0]} is not installed here")
    made: dict[str, Path] = {}

    def make(version: str) -> Path:
        if version not in made:
            folder = tmp_path_factory.mktemp("small")
            for name in ("services", "repositories", "deployment_scripts"):
                shutil.copytree(ROOT / name, folder / name)
            for name in (*build_plugin.FILES, "repositories/ubuntu/.keep"):
                if name != "pre_build_hook" and (ROOT / name).exists():
                    shutil.copy(ROOT / name, folder / name)
            (folder / "repositories/ubuntu").mkdir(exist_ok=True)
            metadata = folder / "metadata.yaml"
            metadata.write_text(metadata.read_text().replace("version: '0.1.0'", f"version: '{version}'"))
            (folder / "deployment_scripts/configdb-sync").write_text(
                f'#!/bin/sh\necho "$@" >> /calls\necho {version}\n'
            )
            for path in (*folder.glob("services/*.service"), *folder.glob("services/*.timer")):
                path.write_text(f"# of {version}\n{path.read_text()}")
            build_plugin.run_fpb("build", folder)
            (made[version],) = folder.glob("configdb-sync-*.noarch.rpm")
        return made[version]

    return make


@pytest.fixture
def machine(tmp_path: Path) -> Jail:
    """An empty root with a systemd, as far as a package's scripts see it."""
    jail = jails.make(tmp_path)
    (jail.root / "run/systemd/system").mkdir(parents=True)
    (jail.root / "usr/bin/systemctl").write_text('#!/bin/sh\necho "$*" >> /systemctl.calls\n')
    (jail.root / "usr/bin/systemctl").chmod(0o755)
    return jail


def install(jail: Jail, rpm: Path, *more: str) -> str:
    done = jail.rpm("--install", "--nodeps", "--nosignature", *more, rpm)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def erase(jail: Jail, *versions: str) -> None:
    (jail.root / "systemctl.calls").unlink(missing_ok=True)
    done = jail.rpm("--erase", "--nodeps", *(f"configdb-sync-{version}" for version in versions))
    assert (done.returncode, "failed" in done.stderr) == (0, False), done.stderr


def calls(jail: Jail) -> list[str]:
    path = jail.root / "systemctl.calls"
    return [line.split(" ")[0] for line in path.read_text().splitlines()] if path.exists() else []


def used(jail: Jail) -> set[str]:
    """Which versions the machine's command and units are of."""
    units = {(jail.root / f"etc/systemd/system/{unit}").read_text().splitlines()[0][5:] for unit in UNITS}
    return {jail.run("configdb-sync").stdout.strip(), *units}


def left(jail: Jail) -> list[str]:
    return [name for name in (*SHARED, *LINKS, "usr/bin/configdb-sync") if os.path.lexists(jail.root / name)]


def test_the_version_that_stays_takes_over_from_one_that_is_removed(machine: Jail, small: Small) -> None:
    for version in ("0.1.0", "0.2.0"):
        install(machine, small(version))
        assert used(machine) == {version}
    (machine.root / SHARED[-1]).write_text("# an operator's own\n")
    erase(machine, "0.2")
    assert used(machine) == {"0.1.0"}
    assert [(machine.root / name).readlink().parts[5] for name in LINKS] == ["configdb-sync-0.1"] * 2
    assert (machine.root / SHARED[-1]).read_text() == "# an operator's own\n"
    # Services that run go on, as those of the version that stays; what is on stays on.
    assert calls(machine) == ["daemon-reload", "try-restart"]
    # The links in the Fuel UI lead to these services still.
    assert "dashboard-link" not in (machine.root / "calls").read_text()
    erase(machine, "0.1")
    assert left(machine) == []
    assert calls(machine) == ["disable", "stop", "daemon-reload"]


def test_a_version_that_is_not_used_takes_nothing_along(machine: Jail, small: Small) -> None:
    for version in ("0.1.0", "0.2.0"):
        install(machine, small(version))
    erase(machine, "0.1")
    assert used(machine) == {"0.2.0"}
    assert calls(machine) == []


def test_of_versions_removed_at_once_nothing_is_left(machine: Jail, small: Small) -> None:
    for version in ("0.1.0", "0.2.0"):
        install(machine, small(version))
    erase(machine, "0.1", "0.2")
    assert left(machine) == []


def test_the_wait_for_runs_is_one_of_five_minutes_for_all(machine: Jail, small: Small, tmp_path: Path) -> None:
    """With two runs at work that don't end, and a clock that makes five minutes one second."""
    state = machine.root / "var/lib/configdb-sync"
    state.mkdir(mode=0o700)
    (machine.root / "usr/bin/timeout").rename(machine.root / "usr/bin/timeout.real")
    (machine.root / "usr/bin/timeout").write_text(
        '#!/bin/sh\necho "$1" >> /waits\nshift\nexec /usr/bin/timeout.real 1 "$@"\n'
    )
    (machine.root / "usr/bin/timeout").chmod(0o755)
    with ExitStack() as stack:
        for number in (5, 6):
            lock = stack.enter_context((state / f"environment-{number}.lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        assert "a run is at work still" in install(machine, small("0.1.0"))
        assert (machine.root / "waits").read_text() == "300\n"
    assert "at work" not in install(machine, small("0.1.0"), "--replacepkgs")


@pytest.mark.parametrize("what", ["a link", "another user", "open to others"])
def test_locks_in_a_folder_that_is_not_roots_alone_are_nothing_to_wait_for(
    machine: Jail, small: Small, what: str
) -> None:
    state = machine.root / "var/lib/configdb-sync"
    real = machine.root / "real" if what == "a link" else state
    real.mkdir(mode=0o700)
    with (real / "environment-5.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if what == "a link":
            state.symlink_to("/real")
            os.lchown(state, OTHER, OTHER)
        elif what == "another user":
            os.chown(state, OTHER, OTHER)
        else:
            state.chmod(0o755)
        install(machine, small("0.1.0"))


@pytest.mark.parametrize("place", ["var/log/configdb-sync", "etc/configdb-sync"])
def test_no_link_of_another_user_is_followed(machine: Jail, small: Small, place: str) -> None:
    """Where a folder's parent is open to a group, as `/var/log` is on some systems."""
    target = machine.root / "srv/target"
    target.mkdir(parents=True, mode=0o755)
    target.chmod(0o755)
    link = machine.root / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to("/srv/target")
    os.lchown(link, OTHER, OTHER)
    assert f"/{place} is another user's" in install(machine, small("0.1.0"))
    assert target.stat().st_mode & 0o777 == 0o755
    # Root's own may lead to a bigger disk.
    os.lchown(link, 0, 0)
    assert "another user" not in install(machine, small("0.1.0"), "--replacepkgs")
    assert target.stat().st_mode & 0o777 == 0o700


def test_what_an_operator_made_a_link_is_not_written_through(machine: Jail, small: Small) -> None:
    """A unit that is masked is a link to `/dev/null`, whose mode is everybody's concern."""
    for name in SHARED:
        (machine.root / name).parent.mkdir(parents=True, exist_ok=True)
        (machine.root / name).symlink_to("/masked")
    (machine.root / "masked").touch(mode=0o666)
    (machine.root / "masked").chmod(0o666)
    install(machine, small("0.1.0"))
    assert (machine.root / "masked").read_text() == ""
    assert (machine.root / "masked").stat().st_mode & 0o777 == 0o666
    assert all((machine.root / name).is_symlink() for name in SHARED)
