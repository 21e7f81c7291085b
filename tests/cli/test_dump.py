"""dump and load between the servers."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from configdb_sync.configdb.connect import connect
from configdb_sync.errors import ConflictError, DocumentError, EnvironmentMismatchError, MissingError, SettingsError
from tests.cli.support import Run


@pytest.fixture
def other(tmp_path: Path) -> Run:
    """A second, empty ConfigDB."""
    return Run(tmp_path / "state", ("--configdb", "embedded", "--configdb-database", f"sqlite:///{tmp_path}/other.db"))


@pytest.fixture
def dumped(run: Run, tmp_path: Path) -> Path:
    run("override", "-k", "debug", "-t", "int", "-v", "1")
    run("set", "--new-node", "-k", "é/☃", "-t", "null", node="node 47", source="override/plugins")
    result = run.bare("dump", "--env", "7", str(tmp_path / "dump"))
    assert result.stdout == f"environment 7: 3 documents are in {tmp_path / 'dump'}.\n"
    return tmp_path / "dump"


def contents(run: Run, env: str = "7") -> list[str]:
    return [
        run.bare("get", "--env", env, "-r", source, *level, *kind).stdout
        for source in ("globals", "override/plugins")
        for level in ([], ["--level", "nodes=46"], ["--level", "nodes=node 47"])
        for kind in ([], ["--values"], ["--overrides"])
    ]


@pytest.fixture(autouse=True)
def names_are_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("configdb_sync.addresses.Addresses.named", lambda _self, given, _seen: given)


def test_what_was_dumped_is_loaded_elsewhere(run: Run, other: Run, dumped: Path) -> None:
    assert other.bare("load", str(dumped)).stdout == "environment 7: 4 documents written, 0 unchanged.\n"
    assert contents(other) == contents(run)
    assert other.bare("load", str(dumped)).stdout == "environment 7: 0 documents written, 4 unchanged.\n"


def test_a_dump_is_for_its_owner_alone(dumped: Path) -> None:
    """It holds every password of the cloud."""
    assert stat.S_IMODE(dumped.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in dumped.iterdir()} == {0o600}
    assert all(path.name.isascii() for path in dumped.iterdir())


def test_what_is_there_and_differs_is_replaced_only_when_asked(run: Run, other: Run, dumped: Path) -> None:
    other.bare("load", str(dumped))
    other("override", "-k", "debug", "-t", "int", "-v", "2")
    other("set", "-k", "debug", "-t", "int", "-v", "3")
    before = contents(other)
    with pytest.raises(ConflictError, match=r"globals at /nodes/46/ .* has other values already; nothing was written"):
        other.bare("load", str(dumped))
    assert contents(other) == before
    assert "2 documents written" in other.bare("load", "--replace", str(dumped)).stdout
    assert contents(other) == contents(run)


def test_another_number(run: Run, dumped: Path) -> None:
    run.bare("load", "--env", "8", str(dumped))
    assert contents(run, "8") == contents(run, "7")
    run("set", "-k", "debug", "-t", "int", "-v", "3")
    assert contents(run, "8") != contents(run, "7")


def test_to_0_1_0_and_back(run: Run, other: Run, dumped: Path, legacy_url: str, tmp_path: Path) -> None:
    """0.1.0 doesn't list its nodes: they are named."""
    legacy = Run(run.state, ("--configdb", legacy_url))
    assert "4 documents written" in legacy.bare("load", str(dumped)).stdout
    with pytest.raises(SettingsError, match="name them: --level"):
        legacy.bare("dump", "--env", "7", str(tmp_path / "second"))
    legacy.bare("dump", "--env", "7", "--level", "nodes=46", "--level", "nodes=node 47", str(tmp_path / "second"))
    other.bare("load", str(tmp_path / "second"))
    assert contents(other) == contents(run)


def test_levels_below_levels(run: Run, other: Run, tmp_path: Path) -> None:
    """The way to a document doesn't count, only its own level does."""
    with connect("embedded", database_url=run.configdb[-1]) as client:
        component = client.create_component("c", ["s"])
        client.create_environment(9, [component.id], ["cluster", "nodes"])
        number = component.definitions[0].id
        client.put_values(9, (("cluster", "c1"),), number, {"a": 1})
        client.put_overrides(9, (("cluster", "c2"), ("nodes", "3")), number, {"a": 3})
    run.bare("dump", "--env", "9", str(tmp_path / "dump"))
    other.bare("load", str(tmp_path / "dump"))
    with connect("embedded", database_url=other.configdb[-1]) as client:
        number = client.components()[0].definitions[0].id
        assert client.effective(9, (("cluster", "c1"), ("nodes", "3")), number) == {"a": 3}
        assert client.effective(9, (("cluster", "c1"),), number) == {"a": 1}


def test_what_can_not_be_loaded(run: Run, other: Run, dumped: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="holds no dump"):
        other.bare("load", str(tmp_path / "nothing"))
    with pytest.raises(SettingsError, match="isn't empty"):
        run.bare("dump", "--env", "7", str(dumped))
    with pytest.raises(MissingError, match="environment 99 isn't in ConfigDB"):
        run.bare("dump", "--env", "99", str(tmp_path / "new"))
    with pytest.raises(SettingsError, match=r"--level is for tuning-box 0\.1\.0"):
        run.bare("dump", "--env", "7", "--level", "nodes=46", str(tmp_path / "new"))
    with connect("embedded", database_url=other.configdb[-1]) as client:
        client.create_environment(7, [], ["role"])
    with pytest.raises(EnvironmentMismatchError, match=r"levels \['role'\], the dump \['nodes'\]"):
        other.bare("load", str(dumped))


@pytest.mark.parametrize(
    "change",
    [
        {"levels": "x"},
        {"levels": [["nodes"]]},
        {"levels": [["nodes", 1]]},
        {"data_source": None},
        {"data_source": "unknown"},
        {"values": []},
        {"overrides": None},
    ],
)
def test_a_broken_file_is_found_before_anything_is_sent(other: Run, dumped: Path, change: dict[str, object]) -> None:
    file = next(path for path in sorted(dumped.iterdir()) if path.name != "environment.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(DocumentError):
        other.bare("load", str(dumped))
    with connect("embedded", database_url=other.configdb[-1]) as client:
        assert client.components() == []


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format": 2}', '{"format": 1, "environment": 1, "levels": [1]}'])
def test_a_broken_outline(other: Run, dumped: Path, text: str) -> None:
    (dumped / "environment.json").write_text(text)
    with pytest.raises(DocumentError):
        other.bare("load", str(dumped))
