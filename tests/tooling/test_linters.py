"""The linters run beside the tests: a failure is named, fails the run, and a rule of the rooms is a rule."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINTERS = ROOT / "script/support"
SHELL = "import sys, linters; sys.exit(not linters.finish(linters.start({})))"
RUN = """
import sys, linters, run_tests
linters.COMMANDS = {{"strict": [sys.executable, "-c", "raise SystemExit('no')"]}}
run_tests.peers.obtain = run_tests.bus.obtain = lambda *_: []
run_tests.sys.executable = {python!r}
sys.argv[1:] = {arguments!r}
sys.exit(run_tests.main())
"""


def python(code: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    environ = {"PYTHONPATH": str(LINTERS), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=300)


@pytest.mark.parametrize(("codes", "failed"), [((0, 0), ""), ((0, 1), "b"), ((2, 1), "a, b")])
def test_who_found_something_is_named(codes: tuple[int, int], failed: str) -> None:
    commands = {
        name: [sys.executable, "-c", f"print('said by {name}'); raise SystemExit({code})"]
        for name, code in zip("ab", codes, strict=True)
    }
    told = python(SHELL.format(commands))
    assert told.returncode == bool(failed)
    assert ("said by a" in told.stdout, "said by b" in told.stdout) == ("a" in failed, "b" in failed)
    assert told.stdout.endswith(f"linters that found something: {failed}\n" if failed else "")


@pytest.mark.parametrize(
    ("arguments", "tests", "code", "linted"),
    [
        ([], 0, 1, True),
        (["--long"], 0, 1, True),
        ([], 5, 5, True),
        (["tests/hiera"], 0, 0, False),
        (["tests/hiera"], 3, 3, False),
    ],
)
def test_the_run_fails_with_its_linters(
    tmp_path: Path, arguments: list[str], tests: int, code: int, *, linted: bool
) -> None:
    """With arguments given only the tests that they name run. Their processes find modules compiled."""
    fake = tmp_path / "python"
    run = f'[ "$1" = -c ] && exec {sys.executable} "$@"\n[ -z "$PYTHONDONTWRITEBYTECODE" ] && exit {tests}\nexit 99'
    fake.write_text(f"#!/bin/sh\n{run}\n")
    fake.chmod(0o755)
    told = python(RUN.format(python=str(fake), arguments=arguments))
    assert told.returncode == code, told.stderr
    assert ("linters that found something: strict" in told.stdout) == linted


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("clock", "import configdb_sync.sync.plan"),
        ("hiera/facts", "import configdb_sync.configdb.model"),
        ("sync/plan", "import configdb_sync.tenants.rows"),
        ("new_room", "import configdb_sync.errors"),
    ],
)
def test_an_import_from_above_or_a_room_without_a_place_is_found(tmp_path: Path, module: str, line: str) -> None:
    for path in (ROOT / "configdb_sync").rglob("*.py"):
        copy = tmp_path / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    changed = tmp_path / f"configdb_sync/{module}.py"
    before = changed.read_text() if changed.exists() else ""
    changed.write_text(f"{before}\n{line}\n")
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert told.returncode == 1, told.stdout
    assert module.replace("/", ".").partition(".")[0] in told.stdout
