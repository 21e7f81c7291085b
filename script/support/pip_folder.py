"""Installs pinned packages into a folder of their own. Standard library and pip."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path


class PipError(Exception):
    """pip can't install the packages; the text says which and why."""


def obtain(pins: Path, folder: Path, *more: str) -> Path:
    """Return ``folder`` with the packages of the lock file ``pins`` in it, installed if they aren't there.

    ``more``: further arguments for pip. Raises ``PipError``.
    """
    stamp = folder / "stamp"
    if not stamp.exists() or stamp.read_text() != pins.read_text():
        shutil.rmtree(folder, ignore_errors=True)
        command = [sys.executable, "-m", "pip", "install", "-qq", "--require-hashes", "--no-deps", *more]
        command += [f"--target={folder}", f"--requirement={pins}"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            said = (done.stderr.strip() or "no reason given").splitlines()[-1]
            raise PipError(f"pip can't install what {pins.name} names: {said}")
        stamp.write_text(pins.read_text())
    return folder
