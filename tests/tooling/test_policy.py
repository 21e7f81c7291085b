"""Packages for tests start no service and leave the machine's own policy as it was; where Debian's archive is."""

from __future__ import annotations

import importlib
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

SUPPORT = Path(__file__).resolve().parents[2] / "script/support"
OWN = "#!/bin/sh\nexit 7\n"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a module of the scripts by name."""
    monkeypatch.syspath_prepend(str(SUPPORT))
    return importlib.import_module


def answer(file: Path) -> int:
    return subprocess.run([file], check=False).returncode


def test_no_service_is_started_and_nothing_is_left(tool: Any, tmp_path: Path) -> None:
    file = tmp_path / "policy-rc.d"
    with tool("policy").services_kept_down(file):
        assert answer(file) == 101
    assert list(tmp_path.iterdir()) == []


def test_the_machines_own_policy_is_put_back(tool: Any, tmp_path: Path) -> None:
    file = tmp_path / "policy-rc.d"
    file.write_text(OWN)
    file.chmod(0o755)
    with pytest.raises(ZeroDivisionError), tool("policy").services_kept_down(file):  # noqa: PT012
        assert answer(file) == 101
        raise ZeroDivisionError
    assert (file.read_text(), stat.S_IMODE(file.stat().st_mode)) == (OWN, 0o755)
    assert list(tmp_path.iterdir()) == [file]


def test_what_a_killed_run_left_is_put_right_by_the_next(tool: Any, tmp_path: Path) -> None:
    file = tmp_path / "policy-rc.d"
    file.write_text(OWN)
    file.rename(tmp_path / "policy-rc.d.before-tests")
    file.write_text("#!/bin/sh\nexit 101\n")
    with tool("policy").services_kept_down(file):
        assert answer(file) == 101
    assert file.read_text() == OWN
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("sources", "address"),
    [
        ("", "http://deb.debian.org/debian"),
        ("deb http://mirror.example/debian trixie main\n", "http://mirror.example/debian"),
        (
            "# deb http://old/debian x\ndeb [arch=amd64] https://m.example/x/debian/ trixie main\n",
            "https://m.example/x/debian/",
        ),
        (
            "Types: deb\nURIs: http://m.example/debian-security\n\nTypes: deb\nURIs: http://m.example/debian\n",
            "http://m.example/debian",
        ),
        ("deb https://deb.nodesource.com/node_20.x nodistro main\n", "http://deb.debian.org/debian"),
    ],
)
def test_the_archive_is_the_one_that_the_machine_uses(tool: Any, sources: str, address: str) -> None:
    assert tool("debian").mirror(sources) == address
