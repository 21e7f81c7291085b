"""The rule about skips: each is shown with its reason; in CI, one not allowed by ``tests/skips.txt`` fails the run."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.support import fixtures


@dataclass(frozen=True)
class Rule:
    """One line of ``skips.txt``: under ``condition``, skips that match ``test`` and ``reason`` are allowed."""

    condition: str
    test: str
    reason: str

    def allows(self, skip: Skip, conditions: Collection[str]) -> bool:
        """Tell whether this rule allows ``skip`` where ``conditions`` hold."""
        return (
            self.condition in conditions and fnmatchcase(skip.test, self.test) and fnmatchcase(skip.reason, self.reason)
        )


@dataclass(frozen=True)
class Skip:
    """A test (or a whole module) that didn't run, and why."""

    test: str
    reason: str


def load(path: Path) -> list[Rule]:
    """Read the rules: ``condition | test id pattern | reason pattern`` a line, ``#`` starts a comment line."""
    rules = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != 3 or not all(parts) or not known(parts[0]):
            raise pytest.UsageError(f"{path}, line {number}: not 'condition | test id pattern | reason pattern'")
        rules.append(Rule(*parts))
    return rules


NAMED = ("always", "no-root", "no-fixtures", "not-debian")
_PYTHON = re.compile(r"python(>=|<)(\d+)\.(\d+)")


def known(condition: str) -> bool:
    """Tell whether a condition is one that ``holds`` understands."""
    return condition in NAMED or _PYTHON.fullmatch(condition) is not None


def holds(condition: str, named: Collection[str], version: tuple[int, int]) -> bool:
    """Tell whether ``condition`` holds, given the named ones that do and Python's version."""
    compared = _PYTHON.fullmatch(condition)
    if not compared:
        return condition in named
    than = (int(compared[2]), int(compared[3]))
    return version >= than if compared[1] == ">=" else version < than


def conditions() -> set[str]:
    """Return the named conditions that hold on this machine."""
    found = {
        "no-root": os.geteuid() != 0,
        "no-fixtures": fixtures.data_folder() is None,
        "not-debian": not Path("/etc/debian_version").exists(),
    }
    return {"always", *(name for name, true in found.items() if true)}


class Plugin:
    """Collects skips as they are reported, shows them at the end and judges them."""

    def __init__(self, rules: Sequence[Rule], named: Collection[str], *, strict: bool) -> None:
        self._rules = [rule for rule in rules if holds(rule.condition, named, sys.version_info[:2])]
        self._holding = {rule.condition for rule in self._rules}
        self._strict = strict
        self._skips: list[Skip] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._skips.append(Skip(report.nodeid, _reason(report)))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._skips.append(Skip(report.nodeid, _reason(report)))

    def _allowed(self, skip: Skip) -> bool:
        return any(rule.allows(skip, self._holding) for rule in self._rules)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        bad = not all(map(self._allowed, self._skips))
        if self._strict and bad and session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._skips:
            return
        terminalreporter.section("skipped")
        for skip in self._skips:
            verdict = "" if self._allowed(skip) else " (not allowed by tests/skips.txt)"
            terminalreporter.write_line(f"{skip.test}: {skip.reason}{verdict}")
        if self._strict and not all(map(self._allowed, self._skips)):
            terminalreporter.write_line("FAILED: a skip that tests/skips.txt does not allow fails CI", red=True)


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    text = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return text.removeprefix("Skipped: ")
