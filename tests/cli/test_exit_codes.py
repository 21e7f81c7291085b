"""F5: the same kind of mistake has the same exit code in all commands, and is named on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from configdb_sync.errors import ConnectionLostError
from configdb_sync.exits import Exit
from configdb_sync.http.transport import HttpAnswer, HttpRequest
from tests.cli.test_help import LEAVES
from tests.support.product import MEANT, Product, make_product
from tests.support.trees import make_trees

DOCUMENT = ("-r", "globals", "--level", "nodes=1")
KEY = (*DOCUMENT, "-k", "use_syslog")
VALUE = (*KEY, "-t", "bool", "-v", "false")
TREES = "TREES"
COMMANDS: dict[str, tuple[str, ...]] = {
    "plan": ("--from", TREES),
    "sync": ("--from", TREES),
    "gc": ("--from", TREES),
    "lookup": ("use_syslog", "--node", "1"),
    "find": ("use_syslog",),
    "compare": (),
    "get": DOCUMENT,
    "override": (*MEANT, *VALUE),
    "rm-override": KEY,
    "overrides list": (),
    "overrides export": (),
    "overrides apply": ("--file", "FILE"),
    "set": VALUE,
    "del": KEY,
    "history": DOCUMENT,
    "diff": DOCUMENT,
    "revert": DOCUMENT,
    "dump": ("FOLDER",),
    "tenants adopt": ("admin",),
}
"""Commands on an environment of ConfigDB, with what else they need."""
OTHERS = {
    *("load", "tenants move"),  # they need a dump, and a second tenant
    *("status", "doctor", "tenants show", "watch"),  # they show what is wrong, or what they know without ConfigDB
}
OF_RUNS = {"plan", "sync", "gc"}
"""Commands for which an environment may be new, or gone."""


def options(path: tuple[str, ...]) -> set[str]:
    return {name for one in LEAVES[path].params for name in one.opts}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    folder = tmp_path_factory.mktemp("codes")
    with pytest.MonkeyPatch.context() as patch:
        product = make_product(folder / "state", patch)
        assert product("sync", "--env", 5, "--from", make_trees(folder / "TREES", "1")).code == Exit.OK
        (folder / "FILE").write_text("{version: 1, overrides: [{data_source: globals, key: use_syslog, value: false}]}")
        yield product


def call(cloud: Product, name: str, *more: object) -> tuple[int, str]:
    folder = cloud.state.parent
    words = [str(folder / word) if word in {TREES, "FILE", "FOLDER"} else word for word in COMMANDS[name]]
    done = cloud(*name.split(), *words, *more)
    return done.code, done.err.splitlines()[-1] if done.err else ""


def away(_: HttpRequest) -> HttpAnswer | None:
    raise ConnectionLostError("embedded: Connection refused")


def test_every_command_on_configdb_is_in_the_table() -> None:
    found = {" ".join(path) for path in LEAVES if {"--env", "--configdb"} <= options(path)}
    assert found == COMMANDS.keys() | OTHERS


@pytest.mark.parametrize("name", COMMANDS)
def test_a_mistake_has_its_code(cloud: Product, name: str) -> None:
    here = ("--env", 5)
    missing = cloud.state.parent / "none"
    assert call(cloud, name, *here, "--xyzzy")[0] == Exit.USAGE
    assert call(cloud, name, "--env", "five")[0] == Exit.USAGE
    code, said = call(cloud, name, *here, "--settings", missing)
    assert (code, str(missing) in said) == (Exit.USAGE, True)
    code, said = call(cloud, name, *here, "--configdb", "ftp://x")
    assert (code, "--configdb" in said) == (Exit.USAGE, True)
    if name not in OF_RUNS:
        code, said = call(cloud, name, "--env", 99)
        assert (code, "environment 99" in said) == (Exit.USAGE, True)
    cloud.fault = away
    code, said = call(cloud, name, *here)
    cloud.fault = None
    assert (code, "Connection refused" in said) == (Exit.CONFIGDB, True), said


NOT_THERE = [
    *[("get", "--env", "5", "-r", "none"), ("override", *MEANT, "--env", "5", "-r", "none", "-k", "a", "-t", "null")],
    *[("history", "--env", "5", "-r", "none"), ("get", "--env", "5", "-r", "globals", "-k", "none")],
    *[
        ("rm-override", "--env", "5", "-r", "globals", "-k", "none"),
        ("del", "--env", "5", "-r", "globals", "-k", "none"),
    ],
    *[("lookup", "none", "--env", "5", "--node", "1"), ("lookup", "debug", "--env", "5", "--node", "none")],
    *[("compare", "--env", "5", "--key", "none"), ("compare", "--env", "5", "--node", "1,none")],
    *[("find", "debug", "--env", "5", "--node", "none"), ("get", "--env", "5", "-r", "globals", "--level", "none=1")],
    *[("revert", "--env", "5", *DOCUMENT, "--to", "77"), ("runs", "none"), ("status", "--env", "77")],
    *[("tenants", "show", "none"), ("tenants", "delete", "none"), ("tenants", "show", "admin", "--env", "77")],
]


@pytest.mark.parametrize("words", NOT_THERE, ids=" ".join)
def test_what_is_named_and_not_there_is_2_and_named(cloud: Product, words: tuple[str, ...]) -> None:
    done = cloud(*words)
    assert done.code == Exit.USAGE
    assert "none" in done.err.splitlines()[-1] or "77" in done.err.splitlines()[-1]


def test_a_node_that_a_run_was_told_of_and_is_not_there(cloud: Product, tmp_path: Path) -> None:
    """The others are worked on, so it is the report that names it."""
    done = cloud("plan", "--env", 5, "--from", cloud.state.parent / "TREES", "--node", "1,77")
    assert (done.code, "77" in done.out) == (Exit.PARTIAL, True)
