"""docs/stories.md runs as it is printed, in a folder that has the examples and nothing else (U24-U28).

Commands of the product alone run in this process, whose clock the document may put forward; all others in a shell.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from configdb_sync.clock import SystemClock
from tests.support import processes
from tests.support.documents import commands, missing
from tests.support.product import Product, Result

ROOT = Path(__file__).resolve().parents[1]
STORIES = ROOT / "docs/stories.md"


def test_stories_run_as_printed(product: Product, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(ROOT / "examples", tmp_path / "examples", symlinks=True)
    monkeypatch.chdir(tmp_path)
    for command in commands(STORIES.read_text(encoding="utf-8")):
        with monkeypatch.context() as patch:
            if command.hours:
                ahead = datetime.now(UTC) + timedelta(hours=command.hours)
                patch.setattr(SystemClock, "now", lambda _, ahead=ahead: ahead)
            done = _run(command.text, product)
        place = f"{STORIES.name}, line {command.line}: {command.text}"
        assert done.code == 0, f"{place}\n{done.out}\n{done.err}"
        lacking = missing(command.output, done.out)
        assert lacking is None, f"{place}\nnot printed: {lacking}\n{done.out}"


def _run(command: str, product: Product) -> Result:
    if command.startswith("configdb-sync ") and not re.search(r"[|&;<>()$`]", command):
        return product(*shlex.split(command)[1:])
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        env=processes.environ(product.state, PATH=path),
        capture_output=True,
        text=True,
        check=False,
        timeout=processes.LIMIT_S,
    )
    return Result(done.returncode, done.stdout, done.stderr)
