"""A master that systemd runs: the real one, as process 1 of namespaces of its own, in the root that the plugin is in.

It sees the plugin's units and a few empty targets, none of this machine's: nothing but the services is ever started.
Its control groups lie below one of ours, its network is a loopback of its own, and what it mounts is gone with it.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.plugin.jail import MOUNTED, Jail

WAIT_S = 120.0
SYSTEMD = "/usr/lib/systemd/systemd"
TARGETS = ("sysinit", "basic", "multi-user", "shutdown", "network-online", "empty")
COMMANDS = ("systemctl", "touch", "kill", "umount")
GROUPS = Path("/sys/fs/cgroup")

_SCRIPT = """
set -e
for group in {groups}; do echo $$ > $group/cgroup.procs; done
exec unshare --kill-child=KILL --pid --fork --mount --propagation private --ipc --uts --net --cgroup sh -ec '
mount --bind {root} {root}
cd {root}
for name in {mounted}; do mount --rbind /$name $name; mount -o remount,bind,ro $name; done
mount -t proc proc proc
mount --rbind /dev dev
mount --rbind /sys sys
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
ip link set lo up
pivot_root . old
umount -l old
exec /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=test SYSTEMD_UNIT_PATH=/units:/etc/systemd/system \
    SYSTEMD_GENERATOR_PATH=/nonexistent {systemd} --system --unit=empty.target --log-target=console
'
"""


@dataclass(frozen=True)
class Machine:
    """A running one; ``first`` is its process 1, by this machine's count."""

    first: int
    root: Path

    def run(self, command: str) -> subprocess.CompletedProcess[str]:
        """Run a shell command in it."""
        line = ["nsenter", f"--target={self.first}", "--mount", "--pid", "--net", "--ipc", "--uts", "--root", "--wd"]
        line += ["/usr/bin/env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "/bin/sh", "-c", command]
        return subprocess.run(line, capture_output=True, text=True, check=False, timeout=WAIT_S)

    def shown(self, unit: str, name: str) -> str:
        """Return one of systemd's own facts about a unit."""
        return self.run(f"systemctl show --property={name} {unit}").stdout.strip().removeprefix(f"{name}=")


@contextlib.contextmanager
def running(jail: Jail) -> Iterator[Machine]:
    """Yield the jail as a machine that systemd runs; skips the test where that can't be."""
    why = unavailable()
    if why is not None:
        pytest.skip(f"systemd can't be tried here: {why}")
    for name in COMMANDS:
        shutil.copy(str(shutil.which(name)), jail.root / "usr/bin" / name)
    for name in ("sys", "run", "tmp", "old", "units"):
        (jail.root / name).mkdir(exist_ok=True)
    # Without it systemd takes this for a machine's first start, and switches all units on.
    (jail.root / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    for name in TARGETS:
        (jail.root / f"units/{name}.target").write_text(f"[Unit]\nDescription={name}\nDefaultDependencies=no\n")
    groups = [top / "configdb-sync-test" for top in (GROUPS / "systemd", GROUPS / "unified") if top.is_dir()]
    groups = groups or [GROUPS / "configdb-sync-test"]
    try:
        for group in groups:
            group.mkdir(exist_ok=True)
    except OSError as error:
        pytest.skip(f"systemd can't be tried here: {error.strerror}")
    mounted = [name for name in MOUNTED if "lib" in name and not (jail.root / name).is_symlink()]
    script = _SCRIPT.format(
        groups=" ".join(map(str, groups)),
        root=jail.root,
        mounted=" ".join(name for name in mounted if (jail.root / name).is_dir()),
        systemd=SYSTEMD,
    )
    with (jail.root / "console").open("wb") as console:
        process = subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL, stdout=console, stderr=console)
        try:
            yield _started(process, jail.root)
        finally:
            process.kill()
            process.wait()
            _clear(groups)


def unavailable() -> str | None:
    """Return why it can't be had here, None if it can."""
    if not Path(SYSTEMD).exists() or not all(map(shutil.which, (*COMMANDS, "nsenter", "pivot_root", "ip"))):
        return "it isn't installed"
    if Path("/run/systemd/system").is_dir():
        return "one runs this machine"
    return None


def _started(process: subprocess.Popen[bytes], root: Path) -> Machine:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline and process.poll() is None:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        if children and Path(f"/proc/{children[0]}/comm").read_text().strip() == "systemd":
            machine = Machine(int(children[0]), root)
            if machine.run("systemctl is-active --quiet empty.target").returncode == 0:
                return machine
        time.sleep(0.2)
    pytest.skip(f"systemd can't be tried here: it didn't start: {(root / 'console').read_text()[-500:]!r}")


def _clear(groups: list[Path]) -> None:
    deadline = time.monotonic() + WAIT_S
    for group in groups:
        while group.exists() and time.monotonic() < deadline:
            for path in sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True):
                with contextlib.suppress(OSError):
                    path.rmdir()
            with contextlib.suppress(OSError):
                group.rmdir()
            time.sleep(0.1)
