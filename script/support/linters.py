"""Runs the linters: style, form, types, who imports whom, what a commit must not hold. Standard library only.

Usage: ``linters.py``. Exit code 1 if one of them found something; it is named last.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[2]
_BIN = Path(sys.executable).parent
COMMANDS: dict[str, list[str | Path]] = {
    # mypy takes the longest: it begins first. Its cache makes later runs short.
    "mypy": [_BIN / "mypy"],
    "ruff check": [_BIN / "ruff", "check", "."],
    "ruff format": [_BIN / "ruff", "format", "--check", "."],
    "import-linter": [_BIN / "lint-imports"],
    "check_files": [sys.executable, ROOT / "script/support/check_files.py"],
}


@dataclass(frozen=True)
class Linter:
    """A linter at work; what it says is kept until it is asked for."""

    name: str
    process: subprocess.Popen[bytes]
    said: IO[bytes]

    def failed(self) -> bool:
        """Wait for its end; print what it said if it found something, and tell whether it did."""
        if self.process.wait() == 0:
            return False
        self.said.seek(0)
        sys.stdout.write(f"{self.name}:\n{self.said.read().decode(errors='replace')}\n")
        sys.stdout.flush()
        return True


def start(commands: dict[str, list[str | Path]] | None = None, root: Path = ROOT) -> list[Linter]:
    """Start the linters beside each other and return them at once."""
    started = []
    for name, command in (COMMANDS if commands is None else commands).items():
        said = tempfile.TemporaryFile()  # noqa: SIM115  # it outlives this function, with its linter
        process = subprocess.Popen(command, cwd=root, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT)
        started.append(Linter(name, process, said))
    return started


def finish(linters: list[Linter]) -> bool:
    """Wait for the linters; tell whether all found nothing, and name those that did."""
    failed = [linter.name for linter in linters if linter.failed()]
    if failed:
        print(f"linters that found something: {', '.join(failed)}")
    return not failed


if __name__ == "__main__":
    sys.exit(not finish(start()))
