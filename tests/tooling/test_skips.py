"""The rule about skips: every skip is shown; in CI only listed ones pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import skips

ROOT = Path(__file__).resolve().parents[2]
CONFTEST = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from pathlib import Path
from tests.support import skips

def pytest_configure(config):
    rules = skips.load(Path(__file__).with_name("skips.txt"))
    config.pluginmanager.register(skips.Plugin(rules, {{"always", "no-root"}}, strict=STRICT))
"""
TESTS = """
import pytest

def test_runs():
    pass

@pytest.mark.skip(reason="no ruby here")
def test_mark():
    pass

def test_inside():
    pytest.skip("no broker here")

@pytest.mark.xfail(reason="known", strict=True)
def test_known_fault():
    assert False
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(test_it=TESTS)
    return pytester


def outcome(project: pytest.Pytester, rules: str, *, strict: bool) -> pytest.RunResult:
    (project.path / "skips.txt").write_text(rules, encoding="utf-8")
    project.makeconftest(CONFTEST.replace("STRICT", str(strict)))
    return project.runpytest_subprocess("-p", "no:cacheprovider")


def test_every_skip_is_shown_with_its_reason(project: pytest.Pytester) -> None:
    result = outcome(project, "no-root | * | no ruby*", strict=False)
    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(
        [
            "test_it.py::test_mark: no ruby here",
            "test_it.py::test_inside: no broker here (not allowed by tests/skips.txt)",
        ]
    )


def test_a_skip_that_is_not_listed_fails_ci(project: pytest.Pytester) -> None:
    result = outcome(project, "no-root | * | no ruby*\nno-fixtures | * | no broker*", strict=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["FAILED: a skip*"])
    result.assert_outcomes(passed=1, skipped=2, xfailed=1)


def test_listed_skips_pass_ci(project: pytest.Pytester) -> None:
    rules = "# why\n\nno-root | test_it.py::test_mark | no ruby*\nalways | * | no broker here"
    assert outcome(project, rules, strict=True).ret == pytest.ExitCode.OK


def test_a_module_skipped_whole_counts(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it='import pytest\npytest.skip("no peer", allow_module_level=True)')
    result = outcome(pytester, "", strict=True)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["test_it.py: no peer (not allowed*"])


def test_failures_stay_failures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_it="def test_it(): assert False")
    assert outcome(pytester, "", strict=True).ret == pytest.ExitCode.TESTS_FAILED


@pytest.mark.parametrize("line", ["no-root | *", "sometimes | * | *", "no-root || *", "python>3 | * | *"])
def test_a_malformed_rule_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "skips.txt"
    path.write_text(f"always | * | *\n{line}\n", encoding="utf-8")
    with pytest.raises(pytest.UsageError, match=r"skips\.txt, line 2"):
        skips.load(path)


@pytest.mark.parametrize(
    ("condition", "version", "expected"),
    [
        ("python>=3.13", (3, 13), True),
        ("python>=3.13", (3, 12), False),
        ("python<3.12", (3, 11), True),
        ("python<3.12", (3, 12), False),
        ("no-root", (3, 11), True),
        ("no-fixtures", (3, 11), False),
    ],
)
def test_conditions(condition: str, version: tuple[int, int], *, expected: bool) -> None:
    assert skips.known(condition)
    assert skips.holds(condition, {"always", "no-root"}, version) is expected


def test_whatever_needs_root_may_be_skipped_without_it() -> None:
    rules = skips.load(ROOT / "tests/skips.txt")
    needing = [path for path in (ROOT / "tests").rglob("test_*.py") if '"no root"' in path.read_text(encoding="utf-8")]
    assert len(needing) > 4
    for path in needing:
        skip = skips.Skip(f"{path.relative_to(ROOT)}::test", "no root")
        assert any(rule.allows(skip, {"no-root"}) for rule in rules), path
