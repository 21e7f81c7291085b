"""history, diff and revert on servers that keep no versions: from the product's own records (U17)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.connect import connect
from configdb_sync.exits import Exit
from configdb_sync.store.versions import BY_OTHERS
from tests.support.product import MEANT, Product, Result
from tests.support.trees import make_trees

ENV = 71
NODE = (("nodes", "46"),)
VALUES = {"debug": False, "block": {"x": 1}, "admin": {"password": "CANARY-p"}}


@dataclass(frozen=True)
class Elsewhere:
    """The product on a server without versions, and somebody else's client of the same server."""

    product: Product
    where: tuple[str, ...]
    other: ConfigDBClient
    definition: int

    def __call__(self, command: str, *arguments: str, stdin: str = "") -> Result:
        place = ("--env", ENV, "-r", "globals", "--level", "nodes=46")
        return self.product(command, *self.where, *place, *arguments, stdin=stdin)

    def good(self, command: str, *arguments: str, stdin: str = "") -> Result:
        result = self(command, *arguments, stdin=stdin)
        assert result.code == Exit.OK, result.err
        return result

    def history(self, *arguments: str) -> Any:
        return self.good("history", *arguments, "-f", "json").json["versions"]

    def overrides(self) -> Any:
        return self.other.overrides(ENV, NODE, self.definition)

    def meddle(self, document: dict[str, Any]) -> None:
        self.other.put_overrides(ENV, NODE, self.definition, document)


def prepared(client: ConfigDBClient) -> int:
    environment = client.environment(ENV)
    if environment is None:
        component = client.create_component(f"admin/{ENV}", ["globals"])
        environment = client.create_environment(ENV, [component.id], ["nodes"])
    definition = client.definitions(environment)["globals"].id
    client.put_values(ENV, NODE, definition, VALUES)
    client.put_overrides(ENV, NODE, definition, {})
    return definition


@pytest.fixture(params=["tuning-box 0.1.0", "tuning-box master"])
def elsewhere(request: pytest.FixtureRequest, product: Product, tmp_path: Path) -> Iterator[Elsewhere]:
    if request.param == "tuning-box 0.1.0":
        url = request.getfixturevalue("legacy_url")
        with connect(url) as other:
            yield Elsewhere(product, ("--configdb", url), other, prepared(other))
        return
    product.plain = True
    database = f"sqlite:///{tmp_path}/configdb.sqlite"
    with connect("embedded", database_url=database) as other:
        yield Elsewhere(product, ("--configdb-database", database), other, prepared(other))


@pytest.fixture
def overridden(elsewhere: Elsewhere) -> Elsewhere:
    """The overrides of the node have three versions."""
    elsewhere.good("override", *MEANT, "-k", "debug", "-t", "int", "-v", "1", "--comment", "ticket ∑ 5%\nmore")
    elsewhere.good("override", *MEANT, "-k", "admin.password", "-t", "str", "--value-file", "-", stdin="CANARY-new")
    elsewhere.good("rm-override", "-k", "debug")
    return elsewhere


def test_the_history_knows_who_when_which_run_and_why(overridden: Elsewhere) -> None:
    lines = overridden.good("history").out.splitlines()
    assert [line.split()[0] for line in lines] == ["3", "2", "1"]
    assert lines[2].endswith("ticket ∑ 5%?more")
    found = overridden.history()
    assert set(found[0]) == {"number", "time", "author", "run", "comment", "digest"}
    assert len({version["run"] for version in found}) == 3
    assert all(version["run"].startswith("req-") and version["author"] for version in found)
    assert found[2]["time"] < found[1]["time"] < found[0]["time"]


def test_a_diff_masks_secrets(overridden: Elsewhere) -> None:
    text = overridden.good("diff").out
    assert text.splitlines()[0] == "globals at /nodes/46/, overrides: version 2 to 3"
    assert "- debug: 1" in text
    text = overridden.good("diff", "--old", "1", "--new", "2").out
    assert "+ admin.password: " in text
    assert "CANARY" not in text
    assert "+ debug: 1" in overridden.good("diff", "--new", "1").out


def test_going_back(overridden: Elsewhere) -> None:
    assert "reverted: debug." in overridden.good("revert").out
    assert overridden.overrides()["debug"] == 1
    assert overridden.history()[0]["comment"] == "revert to version 2"
    assert "reverted: admin." in overridden.good("revert", "--to", "1", "--comment", "too much").out
    assert overridden.overrides() == {"debug": 1}
    assert overridden.history()[0]["comment"] == "too much"
    assert "nothing to do" in overridden.good("revert", "--to", "1").out
    overridden.good("revert", "--to", "0")
    assert overridden.overrides() == {}
    assert [version["number"] for version in overridden.history()] == [6, 5, 4, 3, 2, 1]


def test_what_someone_else_changed_is_a_version_too(overridden: Elsewhere) -> None:
    ours = overridden.overrides()
    overridden.meddle({"theirs": 1})
    newest = overridden.history()[0]
    assert (newest["number"], newest["author"], newest["run"], newest["comment"]) == (4, None, None, BY_OTHERS)
    assert BY_OTHERS in overridden.good("history").out.splitlines()[0]
    assert "+ theirs: 1" in overridden.good("diff").out
    assert "nothing to do" in overridden.good("revert", "--to", "4").out
    overridden.good("revert")
    assert overridden.overrides() == ours
    assert [(found["number"], found["comment"]) for found in overridden.history()[:2]] == [
        (5, "revert to version 3"),
        (4, BY_OTHERS),
    ]
    overridden.good("revert", "--to", "4")
    assert overridden.overrides() == {"theirs": 1}


def test_what_was_there_before_us_is_someone_elses(elsewhere: Elsewhere) -> None:
    assert "has no overrides" in elsewhere.good("history").out
    assert [found["comment"] for found in elsewhere.history("--values")] == [BY_OTHERS]
    elsewhere.good("set", "-k", "debug", "-t", "bool", "-v", "true")
    assert [found["comment"] for found in elsewhere.history("--values")] == [None, BY_OTHERS]
    back = elsewhere.good("revert", "--values")
    assert "next run replaces values" in back.err
    assert elsewhere.other.values(ENV, NODE, elsewhere.definition) == VALUES


def test_versions_that_are_not_kept(overridden: Elsewhere) -> None:
    missing = overridden("revert", "--to", "99")
    assert missing.code != Exit.OK
    assert "version 99 of the overrides of globals at /nodes/46/ isn't kept" in missing.err
    wrong = overridden("diff", "--old", "99")
    assert wrong.code == Exit.USAGE
    assert "no version 99 (kept: 3, 2, 1)" in wrong.err


def test_only_so_many_are_kept(elsewhere: Elsewhere) -> None:
    for number in range(5):
        elsewhere.good("override", *MEANT, "-k", "debug", "-t", "int", "-v", str(number), "--keep-versions", "3")
    assert [version["number"] for version in elsewhere.history()] == [5, 4, 3]
    assert len(elsewhere.history("--keep-versions", "2")) == 2


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    return make_trees(tmp_path / "trees", "1", "2")


@pytest.fixture
def past(product: Product) -> Callable[..., Any]:
    """Give ``past(node, data_source)``: the history of overrides, or of values with ``--values``."""
    product.plain = True

    def history(node: str, data_source: str, *more: str) -> Any:
        result = product("history", "--env", 5, "-r", data_source, "--level", f"nodes={node}", *more, "-f", "json")
        assert result.code == Exit.OK, result.err
        return result.json["versions"]

    return history


def run_of(product: Product) -> str:
    return str(product("runs", "last", "--format", "json").json["run"])


def test_a_runs_uploads_are_its_versions(product: Product, past: Callable[..., Any], trees: Path) -> None:
    sync = ("sync", "--env", 5, "--from", trees)
    assert product(*sync).code == Exit.OK
    first = run_of(product)
    for node in "12":
        for name in ("astute", "globals"):
            assert [(one["number"], one["run"]) for one in past(node, name, "--values")] == [(1, first)]
    astute = trees / "node-1/etc/fuel/cluster/5/astute.yaml"
    astute.write_text(astute.read_text().replace("workers: 4", "workers: 5"))
    assert product(*sync).code == Exit.OK
    assert [one["run"] for one in past("1", "astute", "--values")] == [run_of(product), first]
    assert len(past("1", "globals", "--values")) == 1
    shown = product("diff", "--env", 5, "-r", "astute", "--level", "nodes=1", "--values").out
    assert "~ nova.workers: 4 -> 5" in shown
    assert "CANARY" not in shown


def test_a_standing_order_is_the_runs_that_carried_it_out(
    product: Product, past: Callable[..., Any], trees: Path
) -> None:
    sync = ("sync", "--env", 5, "--from", trees)
    assert product(*sync).code == Exit.OK
    key = ("--env", 5, "-r", "globals", "--key", "use_syslog")
    assert (
        product("override", *MEANT, *key, "--all-nodes", "-t", "bool", "-v", "false", "--comment", "all").code
        == Exit.OK
    )
    assert [one["comment"] for one in past("1", "globals")] == ["all"]
    make_trees(trees, "3")
    assert product(*sync).code == Exit.OK
    assert [one["run"] for one in past("3", "globals")] == [run_of(product)]
    product("rm-override", *key, "--all-nodes", "--comment", "over")
    assert [one["comment"] for one in past("3", "globals")] == ["over", None]


def test_the_removal_of_a_node_is_kept(product: Product, past: Callable[..., Any], trees: Path) -> None:
    assert product("sync", "--env", 5, "--from", trees).code == Exit.OK
    (trees / "node-2").rename(trees.parent / "gone")
    assert product("gc", "--env", 5, "--from", trees, "--remove").code == Exit.OK
    assert past("2", "globals", "--values")[0]["comment"] == "gc: the node is no more"
    back = ("revert", "--env", 5, "-r", "globals", "--level", "nodes=2", "--values")
    assert "reverted: use_syslog, nova_hash." in product(*back).out


def test_a_load_is_in_the_history(elsewhere: Elsewhere, product: Product, tmp_path: Path) -> None:
    nodes = ("--level", "nodes=46") if "0.1.0" in elsewhere.other.server().value else ()
    dump = product("dump", *elsewhere.where, "--env", ENV, *nodes, tmp_path / "dump")
    assert dump.code == Exit.OK, dump.err
    elsewhere.good("set", "-k", "debug", "-t", "int", "-v", "5")
    load = product("load", *elsewhere.where, "--replace", "--comment", "back", tmp_path / "dump")
    assert load.code == Exit.OK, load.err
    assert [found["comment"] for found in elsewhere.history("--values")] == ["back", None, BY_OTHERS]


def test_the_products_own_bookkeeping_has_none(product: Product, trees: Path) -> None:
    product.plain = True
    assert product("sync", "--env", 5, "--from", trees).code == Exit.OK
    result = product("history", "--env", 5, "-r", "records")
    assert result.code != Exit.OK
    assert "no versions are kept of them here" in result.err


def test_an_embedded_server_keeps_them_itself(product: Product, trees: Path) -> None:
    assert product("sync", "--env", 5, "--from", trees).code == Exit.OK
    place = ("--env", 5, "-r", "globals", "--level", "nodes=1")
    assert product("override", *MEANT, *place, "--key", "use_syslog", "-t", "int", "-v", "1").code == Exit.OK
    with closing(sqlite3.connect(product.state / "configdb-sync.sqlite")) as connection:
        assert connection.execute("SELECT COUNT(*) FROM document_versions").fetchone() == (0,)
    assert len(product("history", *place).out.splitlines()) == 1
