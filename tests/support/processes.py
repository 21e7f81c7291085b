"""The command line as a process of its own: what only a real process shows, such as being killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

LIMIT_S = 120


def environ(state: Path, **more: str) -> dict[str, str]:
    """Return the variables for a process: none of this one's settings, no HOME, as Fuel's deployment calls it (F5)."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "CONFIGDB_SYNC_"))}
    for name in ("HOME", "USER", "LOGNAME"):
        kept.pop(name, None)
    return kept | {"CONFIGDB_SYNC_STATE": str(state)} | more


def command(*arguments: object) -> list[str]:
    """Return the command line of ``configdb-sync`` with these arguments."""
    return [sys.executable, "-m", "configdb_sync", *map(str, arguments)]


def run(state: Path, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    """Run ``configdb-sync`` to its end; ``more`` are environment variables."""
    return subprocess.run(
        command(*arguments),
        env=environ(state, **more),
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
        stdin=subprocess.DEVNULL,
    )


def start(state: Path, *arguments: object, **more: str) -> subprocess.Popen[str]:
    """Start it."""
    return subprocess.Popen(
        command(*arguments), env=environ(state, **more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
