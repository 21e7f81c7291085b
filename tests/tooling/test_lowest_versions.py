"""The lower bounds in ``pyproject.toml`` are true: with the oldest versions that they allow the product runs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 600
IMPORT_ALL = """
import importlib, pkgutil, configdb_sync
for module in pkgutil.walk_packages(configdb_sync.__path__, "configdb_sync."):
    if not module.name.endswith("__main__") and ".migrations." not in module.name:
        importlib.import_module(module.name)
"""


def oldest() -> list[str]:
    """The project's own requirements, each at its lower bound; theirs are the newest that go with these."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [*project["dependencies"], *project["optional-dependencies"]["postgresql"]]
    found = []
    for wanted in map(Requirement, texts):
        bounds = {each.operator: each for each in wanted.specifier}
        assert bounds.keys() - {"<"} == {">="}, f"{wanted} has no lower bound"
        bound = bounds[">="]
        found.append(f"{wanted.name}{'[binary]' if wanted.extras else ''}=={bound.version}")
    return found


@pytest.mark.long
def test_the_oldest_versions_allowed_do(tmp_path: Path) -> None:
    python = tmp_path / "venv/bin/python"
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}

    def run(*command: object) -> str:
        words = list(map(str, command))
        told = subprocess.run(
            words, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=LIMIT_S
        )
        assert told.returncode == 0, told.stdout + told.stderr
        return told.stdout

    run(sys.executable, "-m", "venv", tmp_path / "venv")
    run(python, "-m", "pip", "install", "--quiet", "setuptools", *oldest())
    run(python, "-c", IMPORT_ALL)
    nodes = shutil.copytree(ROOT / "examples/small-cloud", tmp_path / "nodes", symlinks=True)
    where = ("--env", 1, "--state", tmp_path / "state")
    product = (python, "-m", "configdb_sync")
    run(*product, "sync", *where, "--from", nodes)
    key = ("--level", "nodes=2", "--data-source", "astute", "--key", "debug", "--type", "bool", "--value", "true")
    run(*product, "override", *where, *key)
    run(*product, "sync", *where, "--from", nodes)
    assert "debug: true" in (nodes / "node-2/etc/astute.yaml").read_text()
