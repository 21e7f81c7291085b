"""What is installed has every file of the package: those that aren't Python are listed in ``pyproject.toml``."""

from __future__ import annotations

import tomllib
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "configdb_sync"


def test_every_file_of_the_package_is_installed() -> None:
    whole = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    patterns = whole["tool"]["setuptools"]["package-data"]["*"]
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and path.suffix not in {".py", ".pyc"}]
    assert files
    assert [str(path) for path in files if not any(fnmatch(path.name, pattern) for pattern in patterns)] == []
