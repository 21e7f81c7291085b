"""Packages of a lock file, downloaded once, so that set-ups in tests need no index."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

LIMIT_S = 300
# What a set-up reads from its environment and must not, in a test.
_KEPT_OUT = ("HOME", "PIP_FIND_LINKS", "PYTHONPATH")


def download(lock: Path, folder: Path) -> Path:
    """Download what ``lock`` names into ``folder``; return it. Skips the test where no index can be reached."""
    command = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--dest", str(folder), "-r", str(lock)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode:
        pytest.skip(f"no package index can be reached: {done.stderr.strip()[-200:]}")
    return folder


def environ(folder: Path, **more: str) -> Mapping[str, str]:
    """Return the environment for a set-up that takes its packages from ``folder`` alone."""
    kept = {name: value for name, value in os.environ.items() if name not in _KEPT_OUT}
    return kept | {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PYTHON": sys.executable} | more
