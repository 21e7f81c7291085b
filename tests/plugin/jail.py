"""An empty root to install the plugin into: a Fuel Master as far as a package sees it, with ``sh`` and no Python.

What is in it: copies of a few of this machine's commands, its libraries (mounted), ``/proc`` and ``/dev``. Each command
runs in a mount namespace of its own and is confined to it; loopback is this machine's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

LIMIT_S = 600
COMMANDS = (
    *("sh", "env", "id", "dirname", "readlink", "mkdir", "ln", "cp", "rm", "chmod", "ls", "cat", "test", "true"),
    *("flock", "setpriv", "stat", "timeout", "basename", "grep", "sort", "tail"),
)
MOUNTED = ("usr/lib", "usr/lib64", "usr/lib32", "lib", "lib64", "proc", "dev")
ASTUTE = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "en_US.UTF-8"}
"""The environment in which Astute has a task run: no HOME, no USER (F5)."""


@dataclass(frozen=True)
class Jail:
    """A root folder that commands can be run in."""

    root: Path

    def run(self, command: str, stdin: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        """Run a shell command confined to the root, as Astute does."""
        return self._namespace(self._confined(command, environ), stdin)

    def start(self, command: str, **environ: str) -> subprocess.Popen[str]:
        """Start a shell command so, in a process group of its own."""
        return subprocess.Popen(
            self._command(self._confined(command, environ)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )

    def _confined(self, command: str, environ: Mapping[str, str]) -> str:
        inside = " ".join(f"{name}='{value}'" for name, value in {**ASTUTE, **environ}.items())
        quoted = command.replace("'", "'\\''")
        return f"exec chroot '{self.root}' /usr/bin/env -i {inside} /bin/sh -c '{quoted}'"

    def rpm(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """Run this machine's rpm on the root; the package's own scripts run confined to it."""
        words = " ".join(f"'{argument}'" for argument in arguments)
        return self._namespace(f"exec rpm --root '{self.root}' {words}")

    def _namespace(self, script: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self._command(script), capture_output=True, text=True, check=False, timeout=LIMIT_S, input=stdin
        )

    def sandboxed(self, command: str, writable: Iterable[str], **environ: str) -> list[str]:
        """Return the command line that runs a command as systemd's hardening has a service run: the root is read-only
        but for some folders, ``/tmp`` is its own, it has no capability and gets none, its files are its owner's."""
        places = [f"'{self.root}{path}'" for path in writable]
        inside = " ".join(f"{name}='{value}'" for name, value in environ.items())
        script = [
            *(f"mkdir -p -m 0700 {place}" for place in places),
            f"mount --bind '{self.root}' '{self.root}'",
            *self._mounts(),
            *(f"mount --bind {place} {place}" for place in places),
            f"mount -t tmpfs tmpfs '{self.root}/tmp'",
            f"mount -o remount,bind,ro '{self.root}'",
            "umask 0077",
            f"exec chroot '{self.root}' /usr/bin/setpriv --no-new-privs --inh-caps=-all --bounding-set=-all"
            f" /usr/bin/env -i {inside} {command}",
        ]
        return _in_namespace(script)

    def _command(self, script: str) -> list[str]:
        return _in_namespace([*self._mounts(), script])

    def _mounts(self) -> list[str]:
        return [
            # This machine's own files are nobody's to write, not even a package's scripts'.
            f"mount --rbind '/{name}' '{self.root}/{name}'"
            + (f" && mount -o remount,bind,ro '{self.root}/{name}'" if "lib" in name else "")
            for name in MOUNTED
            if (self.root / name).is_dir() and not (self.root / name).is_symlink()
        ]


def _in_namespace(script: list[str]) -> list[str]:
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", "\n".join(script)]


def make(root: Path) -> Jail:
    """Make an empty root. Skips the test where namespaces can't be had."""
    if os.geteuid() != 0:
        pytest.skip("no mount namespaces here: needs root")
    for name in MOUNTED:
        here = Path("/") / name
        if here.is_symlink():
            (root / name).symlink_to(here.readlink())
        elif here.is_dir():
            (root / name).mkdir(parents=True)
    for name in ("usr/bin", "tmp", "etc", "var/lib"):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "bin").symlink_to("usr/bin")
    for name in COMMANDS:
        found = shutil.which(name, path="/usr/bin:/bin")
        assert found is not None
        shutil.copy(found, root / "usr/bin" / name)
    jail = Jail(root)
    done = jail.run("ls /proc/self")
    if done.returncode:
        pytest.skip(f"no mount namespaces here: {done.stderr.strip()}")
    return jail
