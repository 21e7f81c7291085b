"""README and docs: every command runs as it is printed, on a machine that has the project and nothing else of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import packages
from tests.support.documents import commands, missing

ROOT = Path(__file__).resolve().parents[1]
STORIES = ROOT / "docs/stories.md"
"""Its commands run in ``test_stories``, which puts the clock forward."""
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
LIMIT_S = 180


@pytest.fixture(scope="session")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packages.download(ROOT / "requirements.txt", tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory, wheels: Path) -> Path:
    """The project's files in another folder, set up to run and no more."""
    top = tmp_path_factory.mktemp("clone") / "configdb-sync"
    for name in ("configdb_sync", "docs", "examples", "script", "benchmarks"):
        shutil.copytree(ROOT / name, top / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, top / path.name)
    subprocess.run([top / "script/bootstrap"], env=packages.environ(wheels), check=True, timeout=LIMIT_S)
    return top


@pytest.fixture
def machine(clone: Path, wheels: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a user who has nothing yet; the project's folder is as it was afterwards."""
    there = set(clone.iterdir())
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("CONFIGDB_SYNC_", "OS_"))}
    mine |= {f"GIT_{role}_{what}": "ann@example.com" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    mine |= packages.environ(wheels, HOME=str(tmp_path), CONFIGDB_SYNC_STATE=str(tmp_path / "state"))
    mine["PATH"] = f"{clone / '.venv/bin'}{os.pathsep}{mine['PATH']}"
    yield mine
    for path in set(clone.iterdir()) - there:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    shutil.rmtree(clone / "examples")
    shutil.copytree(ROOT / "examples", clone / "examples", symlinks=True)


@pytest.mark.parametrize("document", [path for path in DOCUMENTS if path != STORIES], ids=lambda path: path.name)
def test_commands_run_as_printed(document: Path, clone: Path, machine: dict[str, str]) -> None:
    for command in commands(document.read_text(encoding="utf-8")):
        place = f"{document.name}, line {command.line}: {command.text}"
        done = subprocess.run(
            ["bash", "-c", command.text],
            cwd=clone,
            env=machine,
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_S,
        )
        assert done.returncode == 0, f"{place}\n{done.stdout}\n{done.stderr}"
        lacking = missing(command.output, done.stdout)
        assert lacking is None, f"{place}\nnot printed: {lacking}\n{done.stdout}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", text)
    assert [target for target in targets if not (document.parent / target).exists()] == []
