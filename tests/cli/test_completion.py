"""Completion in the shell: values by click's protocol, quick and silent whatever is missing or away."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import threading
from pathlib import Path
from typing import Any

import click
import pytest
from click.shell_completion import ShellComplete

from configdb_sync.cli import completion
from configdb_sync.cli.completion import ConfigDBSyncBash
from configdb_sync.cli.main import VARIABLE, cli
from configdb_sync.errors import ConnectionLostError
from configdb_sync.http.transport import HttpRequest
from tests.cli.test_help import LEAVES
from tests.support import processes
from tests.support.product import Product, make_product, snapshot
from tests.support.trees import make_trees

DOCUMENT = ("get", "--env", "5", "-r", "globals")


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("completion")
    with pytest.MonkeyPatch.context() as patch:
        product = make_product(folder / "state", patch)
        assert product("sync", "--env", 5, "--from", make_trees(folder / "trees", "2", "10")).code == 0
        assert product("tenants", "create", "acme").code == 0
        # How long it takes says something of the machine.
        patch.setattr(completion, "_PATIENCE", 60)
        yield product


def completed(product: Product, *words: str) -> list[str]:
    *args, incomplete = words
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CONFIGDB_SYNC_STATE", str(product.state))
        found = ShellComplete(cli, {}, "configdb-sync", VARIABLE).get_completions(args, incomplete)
    return [item.value for item in found]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("plan", "--env", ""), ["5"]),
        (("compare", "--env", ""), ["5"]),
        (("plan", "--env", "5", "--node", "1"), ["10"]),
        (("plan", "--env", "5", "--node", "10,"), ["10,2", "10,10", "10,node-2.example.com", "10,node-10.example.com"]),
        (("lookup", "--env", "5", "--node", "node-2"), ["node-2.example.com"]),
        (("override", "--env", "5", "--copy-from", "2"), ["2"]),
        (("get", "--env", "5", "--data-source", "glo"), ["globals"]),
        ((*DOCUMENT, "--level", ""), ["nodes=2", "nodes=10"]),
        ((*DOCUMENT, "--level", "nodes=2", "--key", ""), ["use_syslog", "nova_hash"]),
        ((*DOCUMENT, "--level", "nodes=2", "--key", "nova_hash."), ["nova_hash.user_password", "nova_hash.rates"]),
        (("override", "--env", "5", "--key", "use"), ["use_syslog"]),
        (("lookup", "--env", "5", "--node", "2", "nova."), ["nova.debug", "nova.workers", "nova.db_password"]),
        (("find", "--env", "5", "use"), ["use_syslog"]),
        (("tenants", "show", "a"), ["acme", "admin"]),
        (("runs", "--column", "out"), ["outcome"]),
        (("runs", "la"), ["last"]),
    ],
)
def test_values_are_completed(cloud: Product, words: tuple[str, ...], expected: list[str]) -> None:
    assert sorted(completed(cloud, *words)) == sorted(expected)


def test_runs_are_completed(cloud: Product) -> None:
    assert completed(cloud, "runs", "req-") == [cloud("runs", "--format", "json").json["runs"][0]["run"]]


def test_every_option_that_names_a_thing_completes_it() -> None:
    """One way for each thing, in all commands."""
    lacking = [
        (" ".join(path), name)
        for path, command in LEAVES.items()
        for one in command.params
        for name in ("--env", "--node", "--level", "--data-source", "--key")
        if name in one.opts and one._custom_shell_complete is None
    ]
    assert lacking == []


def test_what_is_not_there_is_neither_made_nor_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONFIGDB_SYNC_STATE", str(tmp_path / "state"))
    complete = ShellComplete(cli, {}, "configdb-sync", VARIABLE).get_completions
    for args in (["plan", "--env"], ["get", "--env", "5", "-k"], ["get", "--level"], ["plan", "--env", "x", "--node"]):
        assert complete(args, "") == []
    assert complete(["get", "--env", "5", "--settings", "/none", "-r"], "") == []
    assert complete(["get", "--env", "5", "--database", "nodb://x", "-k"], "") == []
    assert not (tmp_path / "state").exists()
    assert capfd.readouterr() == ("", "")


def test_nothing_changes(cloud: Product) -> None:
    before = snapshot(cloud.state)
    completed(cloud, *DOCUMENT, "--level", "nodes=2", "--key", "")
    assert {path: facts for path, facts in snapshot(cloud.state).items() if "-shm" not in path} == {
        path: facts for path, facts in before.items() if "-shm" not in path
    }


def test_a_database_without_todays_tables_stays_as_it_is(cloud: Product, tmp_path: Path) -> None:
    old = tmp_path / "configdb.sqlite"
    with contextlib.closing(sqlite3.connect(old)) as database:
        database.execute("CREATE TABLE older (x)")
    before = old.read_bytes()
    assert completed(cloud, *DOCUMENT[:3], "--configdb-database", f"sqlite:///{old}", "-r", "") == []
    assert old.read_bytes() == before


def test_a_peer_that_hangs_or_is_away_is_not_waited_for(cloud: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "_PATIENCE", 0.05)
    ended = threading.Event()

    def hang(_: HttpRequest) -> None:
        ended.wait(30)

    cloud.fault = hang
    assert completed(cloud, *DOCUMENT, "--key", "") == []
    ended.set()

    def away(_: HttpRequest) -> None:
        raise ConnectionLostError("x")

    cloud.fault = away
    monkeypatch.setattr(completion, "_PATIENCE", 60)
    assert completed(cloud, *DOCUMENT, "--key", "") == []
    cloud.fault = None


@pytest.mark.parametrize(
    ("line", "words", "incomplete", "shown"),
    [
        ("configdb-sync get --level nodes=1", ["get", "--level"], "nodes=1", "10"),
        ("configdb-sync get --level ", ["get", "--level"], "", "nodes=10"),
        ("configdb-sync 'a b", [], "a b", "nodes=10"),
    ],
)
def test_bash_4_2_gets_what_follows_its_word_break(
    monkeypatch: pytest.MonkeyPatch, line: str, words: list[str], incomplete: str, shown: str
) -> None:
    monkeypatch.setenv("COMP_LINE", line)
    bash = ConfigDBSyncBash(cli, {}, "configdb-sync", VARIABLE)
    assert bash.get_completion_args() == (words, incomplete)
    assert bash.format_completion(click.shell_completion.CompletionItem("nodes=10")) == f"plain,{shown}"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_with_the_script(cloud: Product, tmp_path: Path) -> None:
    """As a user has it: the documented line, then a word completed by the function that it defines."""
    tool = tmp_path / "configdb-sync"
    tool.write_text(f'#!/bin/sh\nexec {" ".join(processes.command())} "$@"\n')
    tool.chmod(0o755)
    script = f"""
eval "$({VARIABLE}=bash_source configdb-sync)"
COMP_LINE="configdb-sync runs la"
COMP_POINT=${{#COMP_LINE}}; _configdb_sync_completion configdb-sync
echo "${{COMPREPLY[@]}}"
"""
    environ = processes.environ(cloud.state) | {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-eu", "-c", script], env=environ, capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("last\n", "")
