"""The pipeline of docs/overrides-file.md: its jobs, as GitLab runs them, on a real repository and server (U28)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from configdb_sync.exits import Exit
from tests.support import processes, service

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/overrides-file.md"
TOKEN = "token-of-the-pipeline"
AUTHOR = ("-c", "user.name=ann", "-c", "user.email=ann@example.com")


def pipeline() -> dict[str, Any]:
    """Return the document's ``.gitlab-ci.yml``."""
    blocks = re.findall(r"^```yaml\n(.*?)^```$", DOCUMENT.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    (found,) = [content for block in blocks if "script" in block and (content := yaml.safe_load(block))]
    return found  # type: ignore[no-any-return]


def holds(condition: str, variables: dict[str, str]) -> bool:
    """Evaluate a rule of GitLab's, as far as the document uses them."""

    def value(text: str) -> str:
        return variables.get(text[1:], "") if text.startswith("$") else text.strip('"')

    sides = [part.split(" == ") for part in condition.split(" && ")]
    return all(value(left) == value(right) for left, right in sides)


@dataclass
class Runner:
    """Runs a pipeline's jobs, each in a fresh clone of the repository."""

    folder: Path
    url: str

    def __call__(self, source: str, branch: str = "main") -> dict[str, tuple[int, str]]:
        """Return the exit code and the output of each job of such a pipeline."""
        content = pipeline()
        checkout = self.folder / "checkout"
        shutil.rmtree(checkout, ignore_errors=True)
        self.git("clone", "--quiet", "cloud.git", "checkout")
        # Files of variables are open to everybody, as GitLab's runner makes them.
        (self.folder / "variable").write_text(TOKEN)
        (self.folder / "variable").chmod(0o644)
        given = {"CI_PIPELINE_SOURCE": source, "CI_COMMIT_BRANCH": branch, "CI_DEFAULT_BRANCH": "main"}
        given |= {"CI_COMMIT_SHA": self.git("-C", "checkout", "rev-parse", "HEAD")}
        given |= {"CONFIGDB_TOKEN": str(self.folder / "variable")}
        variables = content.pop("variables") | {"CONFIGDB_SYNC_CONFIGDB": self.url}
        given |= {name: given.get(text.removeprefix("$"), text) for name, text in variables.items()}
        before = content.pop("default")["before_script"]
        results = {}
        for name, job in content.items():
            if any(holds(rule["if"], given) for rule in job["rules"]):
                code, out = self._shell("\n".join([*before, *job["script"]]), given)
                allowed = code == job.get("allow_failure", {}).get("exit_codes")
                results[name] = (0 if allowed else code, out)
        return results

    def _shell(self, script: str, variables: dict[str, str]) -> tuple[int, str]:
        state = self.folder / "runner-has-no-state"
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-ec", script],
            cwd=self.folder / "checkout",
            env=processes.environ(state, PATH=path, **variables),
            capture_output=True,
            text=True,
            check=False,
            timeout=processes.LIMIT_S,
        )
        shutil.rmtree(state, ignore_errors=True)
        return done.returncode, done.stdout + done.stderr

    def git(self, *arguments: str) -> str:
        return subprocess.run(
            ["git", *AUTHOR, *arguments], cwd=self.folder, check=True, capture_output=True, text=True
        ).stdout.strip()

    def commit(self, text: str) -> None:
        """Commit the overrides file and push it to the default branch."""
        (self.folder / "work/compute.yaml").write_text(text)
        self.git("-C", "work", "add", "compute.yaml")
        self.git("-C", "work", "commit", "--quiet", "--message", "Overrides")
        self.git("-C", "work", "push", "--quiet", "origin", "HEAD:main")


@pytest.fixture
def runner(tmp_path: Path) -> Iterator[Runner]:
    """A repository, and a server that has the example cloud."""
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(TOKEN)
    master = tmp_path / "master"
    arguments = ("--state", str(master), "--token-file", str(token), "--workers", "1")
    with service.serving(*arguments, environ=processes.environ(master)) as (url, _):
        found = Runner(tmp_path, url)
        cloud = ROOT / "examples/small-cloud"
        done = processes.run(master, "sync", "--env", 1, "--from", cloud)
        assert done.returncode == Exit.OK, done.stderr
        found.git("init", "--quiet", "--bare", "--initial-branch=main", "cloud.git")
        found.git("clone", "--quiet", "cloud.git", "work")
        yield found


def test_the_pipeline_shows_applies_prunes_and_finds_drift(runner: Runner) -> None:
    text = (ROOT / "examples/overrides.yaml").read_text("utf-8")
    runner.commit(text)
    (shown,) = runner("merge_request_event", branch="").items()
    assert shown[0] == "difference"
    assert (shown[1][0], "3 changes to make" in shown[1][1]) == (0, True), shown
    assert runner("schedule")["drift"][0] == Exit.DRIFT
    (applied,) = runner("push").items()
    assert applied[0] == "apply"
    assert (applied[1][0], applied[1][1].count("written.")) == (0, 2), applied
    assert runner("push", branch="feature") == {}
    assert runner("schedule")["drift"][0] == Exit.OK
    place = ("--env", 1, "--level", "nodes=2", "-r", "globals")
    master = runner.folder / "master"
    history = processes.run(master, "history", *place).stdout
    assert runner.git("-C", "work", "rev-parse", "HEAD") in history
    by_hand = processes.run(master, "override", *place, "-k", "max_pool_size", "-t", "int", "-v", "99")
    assert by_hand.returncode == Exit.OK, by_hand.stderr
    code, out = runner("schedule")["drift"]
    assert (code, "+ max_pool_size: 99 -> 40" in out) == (Exit.DRIFT, True), out
    runner.commit(text[: text.index("- level: nodes=3")])
    code, out = runner("push")["apply"]
    assert (code, "- cinder_rate_limits.POST" in out, "+ max_pool_size: 99 -> 40" in out) == (0, True, True), out
    assert runner("schedule")["drift"][0] == Exit.OK
