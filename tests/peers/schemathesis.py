"""schemathesis, from PyPI, in a virtual environment of its own under ``.cache``, made on demand."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

CACHE = Path(__file__).resolve().parents[2] / ".cache"
INSTALL = 600.0
# Its checks and its settings file are of this generation.
WANTED = "schemathesis>=4,<5"


def program() -> Path:
    """Return its command, installed if it isn't there."""
    folder = CACHE / f"schemathesis-{sys.version_info.major}.{sys.version_info.minor}"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "schemathesis.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, timeout=INSTALL)
            command = [str(folder / "bin/python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", WANTED]
            subprocess.run(command, check=True, timeout=INSTALL, capture_output=True)
            (folder / "ready").touch()
    return folder / "bin/schemathesis"
