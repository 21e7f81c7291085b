"""Gets the peers that tests need, then becomes pytest. Standard library only."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import bus
import peers

ROOT = Path(__file__).resolve().parents[2]


def set_path(folders: list[Path]) -> None:
    """Have these folders searched for programs first."""
    path = [*map(str, folders), os.environ.get("PATH", os.defpath)]
    # Debian keeps root's programs apart from a user's, and a bare environment names neither.
    os.environ["PATH"] = os.pathsep.join([*path, "/usr/sbin", "/sbin"])


def main() -> None:
    master = peers.MASTER if os.geteuid() == 0 else ()
    set_path(peers.obtain(ROOT / ".cache", (*peers.PEERS, *peers.PACKAGING, *master)))
    bus.obtain(ROOT / ".cache")
    sys.stdout.flush()
    # A worker for each core; a file's tests stay with one, which starts the peers that they share. `-n 0` for none.
    workers = ["-n", "auto", "--dist", "loadfile"]
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *workers, *sys.argv[1:]])


if __name__ == "__main__":
    main()
