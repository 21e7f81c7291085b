"""Gets the peers that tests need, then runs pytest, and the linters beside it. Standard library only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import bus
import linters
import peers

ROOT = Path(__file__).resolve().parents[2]


def set_path(folders: list[Path]) -> None:
    """Have these folders searched for programs first."""
    path = [*map(str, folders), os.environ.get("PATH", os.defpath)]
    # Debian keeps root's programs apart from a user's, and a bare environment names neither.
    os.environ["PATH"] = os.pathsep.join([*path, "/usr/sbin", "/sbin"])


def main() -> int:
    """Run the tests that the arguments name; without any, all of them and the linters. Return the exit code."""
    master = peers.MASTER if os.geteuid() == 0 else ()
    set_path(peers.obtain(ROOT / ".cache", (*peers.PEERS, *peers.PACKAGING, *master)))
    bus.obtain(ROOT / ".cache")
    sys.stdout.flush()
    # Without it each process of the tests, and there are hundreds, would compile all its modules anew.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # Three workers for two cores (tests/conftest.py); a file's tests stay with one, which starts the peers that they
    # share. `-n 0` for none.
    workers = ["-n", "auto", "--dist", "loadfile"]
    command = [sys.executable, "-m", "pytest", *workers, *sys.argv[1:]]
    if set(sys.argv[1:]) - {"--long"}:
        os.execv(sys.executable, command)
    started = linters.start()
    tests = subprocess.call(command)
    return tests if linters.finish(started) else tests or 1


if __name__ == "__main__":
    sys.exit(main())
