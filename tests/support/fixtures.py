"""The real environments that tests run on. They are not part of the project and may be absent."""

from __future__ import annotations

import os
import shutil
from pathlib import Path, PurePosixPath

import pytest

ROOT = Path(__file__).resolve().parents[2]
VARIABLE = "CONFIGDB_SYNC_FIXTURES"
_LONGEST_LINK = 200


def data_folder() -> Path | None:
    """Return the folder that holds ``clusters/`` and ``nailgun/``, or None if this machine has none."""
    named = os.environ.get(VARIABLE)
    folder = Path(named) if named else ROOT.parent / "shared/data"
    return folder.absolute() if (folder / "clusters").is_dir() else None


def require_data() -> Path:
    """Return the same folder; skip the test if there is none."""
    folder = data_folder()
    if folder is None:
        pytest.skip(f"no real environments here: set {VARIABLE} to their folder")
    return folder


def copy_environment(number: int, destination: Path) -> Path:
    """Copy the node trees of environment ``number`` to ``destination`` (not there yet), writable; return it.

    Symbolic links that became small text files on their way here are links again. Skips without the data.
    """
    source = require_data() / f"clusters/env-{number}"
    shutil.copytree(source, destination, symlinks=True)
    make_writable(destination)
    for node in sorted(destination.iterdir()):
        restore_links(node)
    return destination


def make_writable(top: Path) -> None:
    """Let the owner write everything in ``top``; modes stay as they are otherwise."""
    for folder, _, files in os.walk(top):
        Path(folder).chmod(Path(folder).stat().st_mode | 0o700)
        for path in (Path(folder, name) for name in files):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | 0o600)


def restore_links(node: Path) -> None:
    """Turn each file below ``node/etc`` that holds nothing but the path of another file of this tree into a link."""
    found: dict[Path, str] = {}
    for path in sorted((node / "etc").rglob("*")):
        if path.is_file() and not path.is_symlink() and path.stat().st_size <= _LONGEST_LINK:
            text = path.read_bytes()
            if _leads_to_a_file(path, text, node):
                found[path] = os.fsdecode(text)
    for path, target in found.items():
        path.unlink()
        path.symlink_to(target)


def _leads_to_a_file(path: Path, text: bytes, node: Path) -> bool:
    if not text or b"\n" in text or b"\0" in text or PurePosixPath(os.fsdecode(text)).is_absolute():
        return False
    target = Path(os.path.normpath(path.parent / os.fsdecode(text)))
    return target != path and target.is_relative_to(node) and target.is_file()
