"""history, diff, revert and overrides on an embedded ConfigDB (U17)."""

from __future__ import annotations

import json

import pytest

from configdb_sync.errors import MissingError, SettingsError, UnsupportedError
from tests.cli.support import Run


@pytest.fixture
def overridden(run: Run) -> Run:
    """The overrides of the node have three versions."""
    run("override", "-k", "debug", "-t", "int", "-v", "1", "--comment", "ticket ∑ 5%\nmore")
    run("override", "-k", "admin.password", "-t", "str", "--value-file", "-", stdin="CANARY-new")
    run("rm-override", "-k", "debug")
    return run


def test_the_history_knows_who_when_which_run_and_why(overridden: Run) -> None:
    lines = overridden("history").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["3", "2", "1"]
    assert "ticket ∑ 5%" in lines[2]
    assert lines[2].endswith("5%?more")
    found = json.loads(overridden("history", "-f", "json").stdout)["versions"]
    assert found[2]["comment"].startswith("ticket ∑ 5%")
    assert all(version["run"].startswith("req-") and version["author"] and version["time"] for version in found)
    assert "has no overrides" in overridden("history", node="47").stdout
    assert len(overridden("history", "--values").stdout.splitlines()) == 1


def test_a_diff_masks_secrets(overridden: Run) -> None:
    text = overridden("diff").stdout
    assert text.splitlines()[0] == "globals at /nodes/46/, overrides: version 2 to 3"
    assert "- debug: 1" in text
    text = overridden("diff", "--old", "1", "--new", "2").stdout
    assert "CANARY" not in text
    assert "+ admin.password: " in text
    assert "+ debug: 1" in overridden("diff", "--new", "1").stdout
    assert "version 0 to 1" in overridden("diff", "--values").stdout


def test_going_back(overridden: Run) -> None:
    result = overridden("revert")
    assert "reverted: debug." in result.stdout
    assert result.stderr == ""
    assert json.loads(overridden("get", "--overrides", "--key", "debug").stdout) == 1
    assert "reverted: admin." in overridden("revert", "--to", "1", "--comment", "too much").stdout
    assert json.loads(overridden("get", "--overrides").stdout) == {"debug": 1}
    assert "too much" in overridden("history").stdout.splitlines()[0]
    assert "nothing to do" in overridden("revert", "--to", "1").stdout


def test_going_back_before_the_first_override(run: Run) -> None:
    run("override", "-k", "debug", "-t", "int", "-v", "1")
    run("revert")
    assert json.loads(run("get", "--overrides").stdout) == {}


def test_values_go_back_only_when_asked_and_with_a_warning(run: Run) -> None:
    run("set", "-k", "debug", "-t", "int", "-v", "5")
    assert "next run replaces values" in run("revert", "--values").stderr
    assert json.loads(run("get", "--values", "--key", "debug").stdout) is False


def test_versions_that_are_not_kept(overridden: Run) -> None:
    with pytest.raises(MissingError, match="version 99 of the overrides of globals at /nodes/46/ isn't kept"):
        overridden("revert", "--to", "99")
    with pytest.raises(SettingsError, match=r"no version 99 \(kept: 3, 2, 1\)"):
        overridden("diff", "--old", "99")
    with pytest.raises(SettingsError, match="no versions"):
        overridden("revert", node="47")


def test_all_overrides_and_their_effect(overridden: Run) -> None:
    overridden("override", "-k", "debug", "-t", "bool", "-v", "true", node=None)
    overridden("override", "-k", "region", "-t", "str", "-v", "x", node=None)
    text = overridden.bare("overrides", "--env", "7").stdout
    root, node = text.index("globals at /  "), text.index("globals at /nodes/46/  ")
    assert root < node
    assert "debug  (no effect: the value below it is the same)" in text
    assert "    region\n" in text
    assert "    admin\n" in text
    assert "CANARY" not in text
    found = json.loads(overridden.bare("overrides", "--env", "7", "-f", "json").stdout)["overrides"]
    assert [note["level"] for note in found] == ["/", "/nodes/46/"]
    with pytest.raises(MissingError, match="environment 8 isn't there"):
        overridden.bare("overrides", "--env", "8")


def test_no_overrides_are_said_so(run: Run) -> None:
    assert run.bare("overrides", "--env", "7").stdout == "environment 7 has no overrides.\n"


def test_a_server_without_versions_is_told(run: Run, legacy_url: str) -> None:
    legacy = Run(run.state, ("--configdb", legacy_url))
    with pytest.raises(UnsupportedError, match=r"tuning-box 0\.1\.0, which keeps no versions"):
        legacy.bare("overrides", "--env", "7")
