"""What a commit must not hold, and that the ban on clocks in pure code works (``style.md``, Habits)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "script/support/check_files.py"


def check(folder: Path, name: str, content: bytes) -> subprocess.CompletedProcess[str]:
    copy = folder / "script/support/check_files.py"
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(SCRIPT.read_bytes())
    (folder / name).write_bytes(content)
    return subprocess.run([sys.executable, copy], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"see\n" + b"/wor" + b"k/main/x.py", "notes.txt:2"),
        (b"cd /hom" + b"e/joe/src", "notes.txt:1"),
        (b"<" * 7 + b" HEAD\n", "notes.txt:1"),
        (b"\xff\xfe", "notes.txt: neither"),
        (b"a" * 400_001, "notes.txt: bigger"),
    ],
    ids=["tool", "home", "merge", "binary", "big"],
)
def test_what_must_not_be_committed_is_named(tmp_path: Path, content: bytes, named: str) -> None:
    done = check(tmp_path, "notes.txt", content)
    assert done.returncode == 1
    assert named in done.stdout


def test_ordinary_paths_pass(tmp_path: Path) -> None:
    content = b"/etc/hiera/astute.yaml and /srv/work/x and /workers/y and $HOME/x and https://host/work/items"
    assert check(tmp_path, "notes.txt", content).returncode == 0


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("import time\n\ntime.sleep(1)\n", "TID251"),
        ("from time import monotonic\n\nx = monotonic()\n", "TID251"),
        ("import datetime\n\nx = datetime.datetime.now(datetime.UTC)\n", "TID251"),
        ("import random\n\nx = random.random()\n", "TID251"),
        ('print("x")\n', "T201"),
    ],
)
def test_pure_code_has_no_clock_and_no_print(code: str, rule: str) -> None:
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=concise"]
    command += ["--stdin-filename=configdb_sync/sync/example.py", "-"]
    done = subprocess.run(command, input=code, cwd=ROOT, capture_output=True, text=True, check=False)
    assert rule in done.stdout
