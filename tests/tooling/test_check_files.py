"""What a commit must not hold, and that the ban on clocks in pure code works."""

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
        (b"as ``gone" + b".md`` says", "notes.txt:1: cites gone"),
        (b"(U3; issu" + b"e 7, part 8)", "notes.txt:1: cites"),
        (b"(issu" + b'e "Documents", Speed)', "notes.txt:1: cites"),
        (b"merged (fact" + b"s 3)", "notes.txt:1: cites"),
        (b"(U3; fact" + b"s/fuel.txt 2)", "notes.txt:1: cites"),
    ],
    ids=["tool", "home", "merge", "binary", "big", "page", "tracker", "title", "notes", "folder"],
)
def test_what_must_not_be_committed_is_named(tmp_path: Path, content: bytes, named: str) -> None:
    done = check(tmp_path, "notes.txt", content)
    assert done.returncode == 1
    assert named in done.stdout


def test_a_class_name_stands_once_and_modules_are_short(tmp_path: Path) -> None:
    (tmp_path / "configdb_sync/a").mkdir(parents=True)
    (tmp_path / "configdb_sync/a/one.py").write_text("class Place:\n    pass\n")
    assert check(tmp_path, "configdb_sync/two.py", b"class Places:\n    pass\n").returncode == 0
    done = check(tmp_path, "configdb_sync/two.py", b"class Place:\n    pass\n")
    assert done.returncode == 1
    assert "configdb_sync/two.py: class Place stands in configdb_sync/a/one.py, too" in done.stdout
    assert "longer than 450 lines" in check(tmp_path, "configdb_sync/two.py", b"x = 1\n" * 451).stdout


def test_ordinary_paths_pass(tmp_path: Path) -> None:
    content = b"/etc/hiera/astute.yaml and /srv/work/x and /workers/y and $HOME/x and https://host/work/items"
    assert check(tmp_path, "notes.txt", content).returncode == 0


def test_pages_that_are_there_may_be_cited(tmp_path: Path) -> None:
    (tmp_path / "docs/decisions").mkdir(parents=True)
    (tmp_path / "docs/decisions/locks.md").write_text("See [the API](../hiera.md) and https://host/other.md.\n")
    (tmp_path / "docs/hiera.md").write_text("Its facts, told(facts, 3): decisions/locks.md, `--report README.md`\n")
    (tmp_path / "README.md").touch()
    assert check(tmp_path, "notes.txt", b"docs/hiera.md, hiera.md and locks.md").returncode == 0


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
