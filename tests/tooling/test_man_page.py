"""The man page is made from the help: complete, and nothing in a text is a request to troff."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.cli.options import SETTINGS
from tests.cli.test_help import LEAVES

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "script/support"))

import man_page  # noqa: E402

REQUESTS = {".TH", ".SH", ".SS", ".TP", ".PP", ".B", ".nf", ".fi"}


@pytest.fixture(scope="module")
def page() -> str:
    return man_page.page()


def test_every_command_and_option_is_in_it(page: str) -> None:
    plain = page.replace("\\-", "-").replace("\\&", "").replace("\\f", "\n\\f")
    assert [name for path in LEAVES if (name := f".SS {' '.join(path)}\n") not in plain] == []
    names = {name for command in LEAVES.values() for one in command.params for name in one.opts if name.startswith("-")}
    assert [name for name in sorted(names) if not re.search(rf"(?:^\\fB|, ){name}(?![\w-])", plain, re.MULTILINE)] == []
    # Once, not with each command.
    flags = [one.flag for one in SETTINGS.values()]
    assert [name for name in flags if len(re.findall(rf"^\\fB{name}(?![\w-])", plain, re.MULTILINE)) != 1] == []


def test_it_has_only_the_requests_that_are_meant(page: str) -> None:
    found = {line.split()[0] for line in page.splitlines() if line.startswith((".", "'"))}
    assert found == REQUESTS


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"])))
def test_what_is_escaped_reads_back(text: str) -> None:
    shown = man_page.escaped(text)
    assert not shown.startswith((".", "'"))
    for sign, meant in (("\\&", ""), ("\\-", "-"), ("\\(aq", "'"), ("\\(ga", "`"), ("\\(ha", "^"), ("\\(ti", "~")):
        shown = shown.replace(sign, meant)
    assert shown.replace("\\e", "\\") == text


def test_groff_and_bash_have_nothing_to_say(tmp_path: Path) -> None:
    man_page.write(tmp_path)
    checks = {"groff": ("-man", "-Tutf8", "-ww", "-z", man_page.MAN), "bash": ("-n", man_page.COMPLETION)}
    for tool, words in checks.items():
        if shutil.which(tool):
            done = subprocess.run([tool, *words], cwd=tmp_path, capture_output=True, text=True, check=True)
            assert done.stderr == ""
