"""U15: the one change to a node's hiera.yaml adds text and loses none; taken out, the file is as it was."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hiera_backend.backend import Driver

FUEL = """\
---
:backends:
  - yaml

:hierarchy:
  - plugins/ldap
  - override/node/%{::fqdn}
  - astute

:yaml:
  :datadir: /etc/hiera
:merge_behavior: deeper
:logger: noop
"""


def edit(ruby: Driver, action: str, text: str) -> str:
    return str(ruby.ok("hiera_yaml", action=action, text=text))


def test_fuels_own_file(ruby: Driver) -> None:
    made = edit(ruby, "inserted", FUEL)
    assert made == FUEL.replace("  - yaml\n", "  - configdb # configdb-sync: - yaml\n")
    assert edit(ruby, "inserted", made) == made
    assert edit(ruby, "removed", made) == FUEL
    assert edit(ruby, "removed", FUEL) == FUEL


@pytest.mark.parametrize(
    ("text", "backends"),
    [
        (":backends:\n- yaml\n", ["configdb"]),
        (':backends:\n  - "yaml"   # ours\n  - json\n', ["configdb", "json"]),
        (":backends:\n  # first\n\n  - eyaml\n  - yaml\n:hierarchy: [a]\n", ["eyaml", "configdb"]),
        (":backends: # those\n  - yaml", ["configdb"]),
        (":backends:\n  - json\n:logger: noop\n", ["configdb", "json"]),
        (":backends: yaml\n", ["configdb"]),
        (":backends:   [eyaml, yaml] # two\n:x: 1\n", ["eyaml", "configdb"]),
        (":backends: json", ["configdb", "json"]),
        (":backends:\r\n  - yaml\r\n:logger: noop\r\n", ["configdb"]),
        ("---\n:hierarchy: [common]\n", ["configdb"]),
        (":hierarchy: [common]", ["configdb"]),
        ("", ["configdb"]),
        ("# é\n:backends:\n  - yaml\n", ["configdb"]),
    ],
)
def test_other_ways_to_write_it(ruby: Driver, text: str, backends: list[str]) -> None:
    made = edit(ruby, "inserted", text)
    assert yaml.safe_load(made)[":backends"] == backends
    without = {key: value for key, value in (yaml.safe_load(text) or {}).items() if key != ":backends"}
    assert {key: value for key, value in yaml.safe_load(made).items() if key != ":backends"} == without
    assert edit(ruby, "inserted", made) == made
    assert edit(ruby, "removed", made) == text
    beside = edit(ruby, "beside", text)
    had_yaml = "yaml" in text or ":backends" not in text
    expected = backends[: backends.index("configdb") + 1] + ["yaml"] * had_yaml
    assert yaml.safe_load(beside)[":backends"] == expected + backends[backends.index("configdb") + 1 :]
    assert edit(ruby, "removed", beside) == text


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version: 5\nhierarchy: []\n", "of version 5"),
        ("- a\n", "is no mapping"),
        (":backends: [yaml\n", "isn't YAML"),
        (":backends: [\n  yaml]\n", "in a way that this does not know"),
        ("{':backends': [yaml]}\n", "in a way that this does not know"),
        (":a: 1\n...\n", "in a way that this does not know"),
        (":backends: &b\n  - yaml\n:x: *b\n", "in a way that this does not know"),
    ],
)
def test_what_can_not_be_changed_without_loss_is_refused(ruby: Driver, text: str, reason: str) -> None:
    answer = ruby("hiera_yaml", action="inserted", text=text)
    assert answer["error"] == "SettingsError"
    assert reason in answer["text"]


_ITEM = st.sampled_from(["- yaml", "  - yaml", "- json", "  - 'yaml'", "  - eyaml # x", "", "  # - yaml", "  "])
_LINE = st.sampled_from([":hierarchy:", "  - a", ":backends:", ":yaml: {}", ":backends: yaml", "x: '# - yaml'", "---"])


@settings(max_examples=150)
@given(st.lists(_LINE | _ITEM, max_size=8), st.booleans())
def test_whatever_it_is_nothing_is_lost(ruby: Driver, lines: list[str], end: bool) -> None:
    text = "\n".join(lines) + ("\n" if end else "")
    for action in ("inserted", "beside"):
        check(ruby, text, ruby("hiera_yaml", action=action, text=text))
    assert edit(ruby, "removed", text) == text


def check(ruby: Driver, text: str, answer: dict[str, Any]) -> None:
    if "ok" in answer:
        assert edit(ruby, "removed", answer["ok"]) == text
        # Ruby reads the first of several documents.
        assert "configdb" in next(iter(yaml.safe_load_all(answer["ok"])))[":backends"]
