"""A command's standard streams and arguments as a shell may give them (F5): closed, full, left by their reader, odd."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from configdb_sync.exits import Exit
from tests.support import processes
from tests.support.product import MEANT
from tests.support.trees import make_trees


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    return make_trees(tmp_path / "trees", "1", "2")


def in_shell(state: Path, line: str, *arguments: object, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a shell's line in which ``"$@"`` is ``configdb-sync`` with these arguments."""
    return subprocess.run(
        ["sh", "-c", line, "sh", *processes.command(*arguments)],
        env=processes.environ(state, **more),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=processes.LIMIT_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "code", "joined"),
    [(("plan", "--exit-code"), Exit.DRIFT, ""), (("sync",), Exit.OK, "2>&1"), (("--help",), Exit.OK, "")],
)
def test_a_reader_that_left_changes_nothing(
    tmp_path: Path, trees: Path, command: tuple[str, ...], code: Exit, joined: str
) -> None:
    """As after ``| head -1``: the reader has gone before anything is printed."""
    arguments = (*command, "--env", 5, "--from", trees) if command != ("--help",) else command
    line = f'{{ "$@" {joined}; echo $? >&3; }} 3>"$CODE" | true'
    done = in_shell(tmp_path / "state", line, *arguments, CODE=str(tmp_path / "code"))
    assert (tmp_path / "code").read_text() == f"{int(code)}\n"
    assert done.stderr == ""


@pytest.mark.parametrize("command", [("plan", "--env", 5, "--from", "trees"), ("--version",)])
def test_output_that_cannot_be_written_is_said(tmp_path: Path, trees: Path, command: tuple[object, ...]) -> None:
    arguments = [trees if argument == "trees" else argument for argument in command]
    done = in_shell(tmp_path / "state", '"$@" >/dev/full', *arguments)
    assert done.returncode == Exit.USAGE
    assert done.stderr.splitlines() == [
        "configdb-sync: the output can't be written: No space left on device (redirect it elsewhere)"
    ]


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-"])
def test_a_run_without_streams_is_a_run(tmp_path: Path, trees: Path, closed: str) -> None:
    """No database gets the number that messages are printed to."""
    arguments = ("sync", "--env", 5, "--from", trees, "--report", tmp_path / "report.txt")
    done = in_shell(tmp_path / "state", f'"$@" {closed}', *arguments)
    assert done.returncode == Exit.OK, done.stderr
    assert "all in step" in (tmp_path / "report.txt").read_text()


def test_a_terminal_that_lacks_a_character_shows_its_number(tmp_path: Path, trees: Path) -> None:
    state = tmp_path / "state"
    assert processes.run(state, "sync", "--env", 5, "--from", trees).returncode == Exit.OK
    place = ("--env", 5, "-r", "astute", "--level", "nodes=2", "--key", "ключ")
    assert processes.run(state, "override", *MEANT, *place, "--value", "Ключ", "--type", "str").returncode == Exit.OK
    shown = processes.run(state, "get", *place, PYTHONIOENCODING="latin-1")
    assert (shown.returncode, shown.stdout) == (Exit.OK, "\\u041a\\u043b\\u044e\\u0447\n")
    assert processes.run(state, "get", *place, LC_ALL="C").stdout == "Ключ\n"


def test_arguments_that_are_no_text_are_refused_and_odd_folders_are_not(tmp_path: Path, trees: Path) -> None:
    odd = Path(os.fsdecode(os.fsencode(tmp_path) + b"/trees\xff"))
    trees.rename(odd)
    state = tmp_path / "state"
    for command in ("plan", "sync"):
        done = processes.run(state, command, "--env", 5, "--from", odd, LOGNAME="\udcff")
        assert done.returncode == Exit.OK, done.stderr
    assert r"trees\xff" in processes.run(state, "runs", "last", "--format", "json").stdout.replace(r"\\", "\\")
    for arguments in (("runs", "\udcff"), ("get", "--env", 5, "-r", "astute", "--level", "nodes=\udcff")):
        done = processes.run(state, *arguments)
        assert done.returncode == Exit.USAGE
        assert done.stderr.splitlines()[-1].startswith("configdb-sync: ")
        assert r"\xff is not UTF-8 text" in done.stderr
