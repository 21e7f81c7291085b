"""Virtual environments under ``.cache`` for peers from PyPI, each made by the first test that wants it."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / ".cache"
LIMIT_S = 600.0


def interpreter(name: str, requirements: Sequence[str]) -> Path:
    """Return the Python of the environment ``name``, with these packages in it.

    Raises ``RuntimeError`` if it can't be made.
    """
    folder = CACHE / f"{name}-{sys.version_info.major}.{sys.version_info.minor}"
    python = folder / "bin/python"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            # Debian's Python may lack ensurepip; the pip of this environment does for all.
            run([sys.executable, "-m", "venv", "--clear", "--without-pip", folder])
            run([sys.executable, "-m", "pip", "--python", python, "install", "-q", *requirements])
            (folder / "ready").touch()
    return python


def run(command: Sequence[str | Path]) -> None:
    """Run a command that makes a part of it. Raises ``RuntimeError`` with what it said if it fails."""
    done = subprocess.run(command, check=False, timeout=LIMIT_S, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {(done.stdout + done.stderr)[-2000:]}")
