"""The backend's Ruby: its own code call by call, Hiera 3 and Puppet with it, and the settings that they read."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
MODULES = ROOT / "deployment_scripts/puppet"
LIBRARY = MODULES / "configdb/lib"
LIMIT_S = 240


def require(*programs: str) -> None:
    """Skip the test where one of the programs isn't here, or is where Ruby doesn't find its library."""
    for program in programs:
        if shutil.which(program) is None or not _usable(program):
            pytest.skip(f"{program} is not installed here for ruby")


@functools.cache
def _usable(program: str) -> bool:
    library = "json" if program == "ruby" else program
    done = subprocess.run(["ruby", "-r", library, "-e", ""], check=False, capture_output=True, timeout=LIMIT_S)
    return done.returncode == 0


class Driver:
    """Asks one Ruby process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def __call__(self, call: str, **asked: Any) -> dict[str, Any]:
        """Return ``{"ok": ..., "said": [warnings]}`` or ``{"error": class, "text": ..., "said": ...}``."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"call": call, **asked}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        assert not answer.get("error", "").startswith("unforeseen"), answer
        return answer

    def ok(self, call: str, **asked: Any) -> Any:
        """Return what it gave; fails if it was refused."""
        answer = self(call, **asked)
        assert "ok" in answer, answer
        return answer["ok"]


@contextlib.contextmanager
def driving() -> Iterator[Driver]:
    """Give a running driver. Its zone is UTC, so that times without a zone can be compared."""
    require("ruby")
    command = ["ruby", "-W1", str(HERE / "driver.rb")]
    environ = {**os.environ, "TZ": "UTC"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ) as process:
        yield Driver(process)
        assert process.stdin is not None
        process.stdin.close()


def told(value: Any) -> Any:
    """Return JSON as the driver tells it."""
    from tests.hiera import ruby_oracle

    return ruby_oracle.told(value)


def private(path: Path, text: str) -> Path:
    """Write a file of mode 0600."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(0o600)
    path.write_text(text)
    return path


def settings(folder: Path, **values: Any) -> Path:
    """Write the backend's settings for node 1 of environment 5, with a cache of its own; return the file."""
    whole = {"environment": 5, "levels": "nodes=1", "auth": "none", "cache": str(folder / "cache"), **values}
    return private(folder / "hiera-settings.yaml", yaml.safe_dump(whole))


def run_ruby(script: Path | str, asked: Any, *options: str, **environ: str) -> Any:
    """Run a script with JSON on its standard input; return the JSON that it prints last."""
    done = subprocess.run(
        ["ruby", "-W1", *options, str(script)],
        input=json.dumps(asked),
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def lookups3(cases: Sequence[Mapping[str, Any]]) -> Any:
    """Look keys up by Hiera 3 in two ways each; return what differs."""
    return run_ruby(HERE / "lookups3.rb", cases, "-I", str(LIBRARY))


def lookups5(work: Path, environments: Path, cases: Sequence[Mapping[str, Any]]) -> Any:
    """Look keys up by Puppet's Hiera 5 in two environments each; return what differs."""
    asked = {"environments": str(environments), "modules": str(MODULES), "work": str(work), "cases": cases}
    return run_ruby(HERE / "lookups5.rb", asked)
