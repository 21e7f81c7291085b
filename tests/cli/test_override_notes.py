"""U27: an override's reason, author, time and end through the commands, on our server and on tuning-box."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.clock import SystemClock
from configdb_sync.configdb import changes, connect
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.exits import Exit
from configdb_sync.failpoints import VARIABLE
from configdb_sync.store.opening import open_store
from configdb_sync.store.schema import OVERRIDE_NOTES
from tests.support import processes
from tests.support.product import MEANT, Product, Result, contents
from tests.support.trees import make_trees

GLOBALS = ("--env", 5, "-r", "globals", "--level", "nodes=1")
LATER = "2099-12-31"


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    return make_trees(tmp_path / "trees", "1", "2")


@pytest.fixture(params=["ours", "tuning-box"])
def synced(request: pytest.FixtureRequest, product: Product, trees: Path) -> Product:
    """An environment with two nodes."""
    product.plain = request.param == "tuning-box"
    good(product, "sync", "--env", 5, "--from", trees)
    return product


def good(product: Product, *arguments: object) -> Result:
    done = product(*arguments)
    assert done.code == Exit.OK, done.out + done.err
    return done


def override(product: Product, key: str, *more: object, value: object = 1) -> Result:
    return good(product, "override", *MEANT, *GLOBALS, "-k", key, "-t", "json", "-v", value, *more)


def notes(product: Product, *more: object) -> dict[str, Any]:
    """The notes that ``overrides`` shows of node 1, by key."""
    listed = good(product, "overrides", "--env", 5, "-f", "json", *more).json["overrides"]
    return {".".join(one["key"]): one for document in listed for one in document["notes"]}


def test_an_override_says_why_by_whom_and_until_when(synced: Product) -> None:
    done = override(synced, "debug", "--reason", "ticket 7", "--until", f"{LATER}T18:00+00:00")
    assert "It ends at 2099-12-31 18:00 UTC: the first run after that removes it." in done.out
    note = notes(synced)["debug"]
    assert (note["reason"], note["until"]) == ("ticket 7", "2099-12-31T18:00:00+00:00")
    assert note["author"]
    assert datetime.fromisoformat(note["time"]) <= datetime.now(UTC)
    shown = good(synced, "overrides", "--env", 5).out
    assert "globals at /nodes/1/" in shown
    assert "        debug = 1, " + note["author"] in shown
    assert note["value"] == 1
    assert ", until 2099-12-31 18:00 UTC: ticket 7\n" in shown
    assert "ticket 7" in good(synced, "history", *GLOBALS).out


def test_what_another_data_source_hides_has_no_effect(synced: Product) -> None:
    hidden = ("override", *MEANT, "--env", 5, "-r", "astute", "-t", "bool", "-v", "false", "--reason", "x", "-k")
    good(synced, *hidden, "use_syslog", "--level", "nodes=1")
    good(synced, *hidden, "block.new", "--level", "nodes=1")
    shown = good(synced, "overrides", "--env", 5).out
    assert "    use_syslog  (no effect: Puppet reads it from globals)\n" in shown
    assert "    block\n" in shown
    (document,) = good(synced, "overrides", "--env", 5, "-f", "json").json["overrides"]
    found = {one["key"]: (one["reason"], one["data_source"]) for one in document["keys"]}
    assert found == {"use_syslog": ("other data source", "globals"), "block": (None, None)}


def test_the_plan_shows_it_beside_the_key(synced: Product, trees: Path) -> None:
    override(synced, "block.a", "--reason", "ticket 7", "--until", f"{LATER}T18:00+00:00")
    override(synced, "debug", value="[true]")
    (note,) = (one for one in notes(synced).values() if "reason" in one)
    shown = good(synced, "plan", "--env", 5, "--from", trees).out
    about = f"(override by {note['author']}, "
    (line,) = (line for line in shown.splitlines() if "block.a: 1" in line)
    assert about in line
    assert line.endswith(", until 2099-12-31 18:00 UTC: ticket 7)")
    planned = good(synced, "plan", "--env", 5, "--from", trees, "--format", "json").json
    (document,) = planned["nodes"][0]["documents"]
    found = {".".join(one["key"]): one.get("override") for one in document["written"]}
    assert found["block.a"] == {
        **{name: note[name] for name in ("author", "time", "reason", "until")},
        "level": "/nodes/1/",
    }
    assert "reason" not in found["debug"]
    # Of a change that no override makes nobody is named.
    file = trees / "node-2/etc/hiera/globals.yaml"
    file.write_text(file.read_text("utf-8") + "own: 1\n", "utf-8")
    shown = good(synced, "plan", "--env", 5, "--from", trees).out
    assert "    + own: 1\n" in shown


def test_the_value_is_shown_without_secrets(synced: Product) -> None:
    secret = ("-k", "admin.password", "-t", "str", "--value-file", "-", "--reason", "new")
    done = synced("override", *MEANT, *GLOBALS, *secret, stdin="CANARY")
    assert done.code == Exit.OK, done.err
    for form in ("text", "json"):
        shown = good(synced, "overrides", "--env", 5, "-f", form).out
        assert "CANARY" not in shown
        assert "<masked" in shown
    assert "        admin.password = " in good(synced, "overrides", "--env", 5).out


def test_a_comment_is_a_reason(synced: Product) -> None:
    override(synced, "debug", "--comment", "ticket 8")
    assert notes(synced)["debug"]["reason"] == "ticket 8"
    override(synced, "debug", "--comment", "for the history", "--reason", "for the key", value=2)
    assert notes(synced)["debug"]["reason"] == "for the key"
    assert "for the history" in good(synced, "history", *GLOBALS).out.splitlines()[0]


def test_other_keys_lose_nothing(synced: Product) -> None:
    override(synced, "block", "--reason", "the block", "--for", "8h", value='{"a": 1, "b": 2}')
    override(synced, "debug", "--reason", "first")
    override(synced, "block.a", "--reason", "the leaf", value=5)
    override(synced, "use_syslog")
    found = notes(synced)
    assert {key: one.get("reason") for key, one in found.items()} == {
        "block": "the block",
        "block.a": "the leaf",
        "debug": "first",
        "use_syslog": None,
    }
    assert found["block"]["until"]
    assert "until" not in found["block.a"]
    good(synced, "rm-override", *GLOBALS, "-k", "use_syslog")
    good(synced, "rm-override", *GLOBALS, "-k", "block")
    assert list(notes(synced)) == ["debug"]
    good(synced, "rm-override", *GLOBALS, "--all-keys")
    good(synced, "sync", "--env", 5, "--from", synced.state.parent / "trees")
    override(synced, "debug", "--until", LATER)
    assert list(notes(synced)) == ["debug"]


def test_what_others_change_drops_the_note(synced: Product) -> None:
    override(synced, "debug", "--until", LATER)
    override(synced, "use_syslog", "--reason", "stays")
    good(synced, "revert", *GLOBALS, "--to", 0)
    assert good(synced, "overrides", "--env", 5, "--expiring", "99999w").out.startswith(
        "environment 5 has no overrides"
    )
    override(synced, "debug", value=2)
    assert "until" not in notes(synced)["debug"]


def test_a_document_written_as_a_whole(synced: Product) -> None:
    override(synced, "debug", "--reason", "old")
    good(synced, "override", *MEANT, *GLOBALS, "-t", "json", "-v", '{"a": 1, "b": 2}', "--reason", "whole")
    assert {key: one["reason"] for key, one in notes(synced).items()} == {"a": "whole", "b": "whole"}


def test_only_those_that_end_soon(synced: Product) -> None:
    override(synced, "debug", "--for", "2d", "--reason", "soon")
    override(synced, "use_syslog", "--for", "3w")
    override(synced, "block")
    assert list(notes(synced, "--expiring", "7d")) == ["debug"]
    shown = good(synced, "overrides", "--env", 5, "--expiring", "7d").out
    assert "    debug\n" in shown
    assert "use_syslog" not in shown
    assert list(notes(synced, "--expiring", "4w")) == ["debug", "use_syslog"]
    assert "has no overrides that end within 1h" in good(synced, "overrides", "--env", 5, "--expiring", "1h").out


def test_copied_overrides_keep_their_notes(synced: Product) -> None:
    override(synced, "debug", "--until", LATER, "--reason", "old")
    override(synced, "use_syslog", "--until", LATER, "--reason", "node 1")
    other = ("--env", 5, "-r", "globals", "--level", "nodes=2")
    good(synced, "override", *MEANT, *other, "-k", "debug", "-t", "json", "-v", "1", "--reason", "own")
    # Without a data source all that have overrides are copied, also what another one overrides.
    more = ("--env", 5, "-r", "astute", "--level", "nodes=1")
    good(synced, "override", *MEANT, *more, "-k", "a", "-t", "int", "-v", 1, "--reason", "all")
    good(synced, "override", "--env", 5, "--level", "nodes=2", "--copy-from", 1)
    assert good(synced, "get", "--env", 5, "-r", "astute", "--level", "nodes=2", "-k", "a").out == "1\n"
    listed = good(synced, "overrides", "--env", 5, "-f", "json").json["overrides"]
    found = {".".join(n["key"]): n for one in listed if one["level"] == "/nodes/2/" for n in one["notes"]}
    assert {key: (one["reason"], "until" in one) for key, one in found.items()} == {
        "debug": ("own", False),
        "use_syslog": ("node 1", True),
        "a": ("all", False),
    }


@pytest.mark.parametrize("step", ["override-noted", "override-changed"])
def test_no_kill_leaves_an_override_without_its_end(product: Product, trees: Path, step: str) -> None:
    good(product, "sync", "--env", 5, "--from", trees)
    override(product, "debug", "--for", "8h", "--reason", "first")
    again = ("override", *MEANT, *GLOBALS, "-k", "debug", "-t", "json", "-v", 2, "--for", "9d", "--reason", "second")
    killed = processes.run(product.state, *again, **{VARIABLE: step})
    assert killed.returncode < 0
    value = good(product, "get", *GLOBALS, "--overrides", "-k", "debug").json
    reason = notes(product)["debug"]["reason"]
    assert (value, reason) == ((1, "first") if step == "override-noted" else (2, "second"))
    assert notes(product)["debug"]["until"]
    good(product, *again)
    assert notes(product)["debug"]["reason"] == "second"


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Moves this machine's clock on."""

    def move(**more: float) -> None:
        moment = datetime.now(UTC) + timedelta(**more)
        monkeypatch.setattr(SystemClock, "now", lambda _: moment)

    return move


def file_of(product: Product, node: str = "1") -> str:
    return (product.state.parent / f"trees/node-{node}/etc/hiera/globals.yaml").read_text("utf-8")


def test_a_run_removes_what_has_ended(synced: Product, trees: Path, later: Callable[..., None]) -> None:
    sync = ("sync", "--env", 5, "--from", trees)
    before = contents(trees)
    override(synced, "use_syslog", "--for", "8h", "--reason", "ticket 7", value="false")
    override(synced, "block", "--for", "2d", value='{"a": 1}')
    assert "expired" not in good(synced, *sync).out
    assert "use_syslog: false" in file_of(synced)
    later(hours=9)
    synced.changing()
    plan = good(synced, "plan", "--env", 5, "--from", trees)
    assert synced.changing() == []
    assert (
        "Overrides to be removed, since their end has come:\n  use_syslog of globals at /nodes/1/, until " in plan.out
    )
    assert "~ use_syslog: false -> true" in plan.out
    planned = good(synced, "plan", "--env", 5, "--from", trees, "--format", "json").json
    (expired,) = planned["expired"]
    assert (expired["level"], expired["data_source"], expired["key"]) == ("/nodes/1/", "globals", ["use_syslog"])
    assert expired["reason"] == "ticket 7"
    assert (
        "use_syslog of globals at /nodes/1/"
        in good(synced, "plan", "--env", 5, "--from", trees, "--format", "markdown").out
    )
    assert synced("plan", "--env", 5, "--from", trees, "--exit-code").code == Exit.DRIFT
    report = trees.parent / "report.json"
    done = good(synced, *sync, "--digest", planned["digest"], "--report", report)
    assert "Overrides removed, since their end has come:\n  use_syslog of globals at /nodes/1/, until " in done.out
    found = json.loads(report.read_text())
    assert (found["expired"], found["digest"]) == ([expired], planned["digest"])
    assert "use_syslog: true" in file_of(synced)
    assert list(notes(synced)) == ["block"]
    assert "expired" in good(synced, "history", *GLOBALS).out.splitlines()[0]
    assert good(synced, "plan", "--env", 5, "--from", trees, "--format", "json").json["expired"] == []
    later(days=3)
    good(synced, *sync)
    assert contents(trees) == before


def test_a_leaf_and_its_block(synced: Product, trees: Path, later: Callable[..., None]) -> None:
    override(synced, "block", "--for", "2d", value='{"a": 1, "b": 2}')
    override(synced, "block.a", "--for", "8h", value=5)
    later(hours=9)
    good(synced, "sync", "--env", 5, "--from", trees)
    # Nothing is beneath the block, so its leaf goes.
    assert good(synced, "get", *GLOBALS, "--overrides").json == {"block": {"b": 2}}
    assert list(notes(synced)) == ["block"]
    later(days=3)
    good(synced, "sync", "--env", 5, "--from", trees)
    assert good(synced, "get", *GLOBALS, "--overrides").json == {}
    assert records(synced) == []


def records(product: Product) -> list[object]:
    """All notes that are stored, also those that don't hold."""
    found = "" if product.plain else product("get", "--env", 5, "-r", "records", "-k", "notes").out
    with closing(open_store(f"sqlite:///{product.state}/configdb-sync.sqlite")) as database:
        kept = database.read(lambda connection: connection.execute(OVERRIDE_NOTES.select()).all())
    return [*json.loads(found or "[]"), *kept]


def test_what_was_changed_since_stays(synced: Product, trees: Path, later: Callable[..., None]) -> None:
    override(synced, "use_syslog", "--for", "8h", value="false")
    good(synced, "revert", *GLOBALS, "--to", 0)
    with synced_client(synced) as client:
        place = changes.find(client, 5, (("nodes", "1"),), "globals")
        changes.override(client, place, ("use_syslog",), "someone's")
    later(hours=9)
    assert "come" not in good(synced, "plan", "--env", 5, "--from", trees).out
    done = good(synced, "sync", "--env", 5, "--from", trees)
    assert "come" not in done.out
    assert good(synced, "get", *GLOBALS, "--overrides").json == {"use_syslog": "someone's"}
    assert records(synced) == []


def synced_client(product: Product) -> ConfigDBClient:
    return connect.connect("embedded", database_url=f"sqlite:///{product.state}/configdb.sqlite")


def test_overrides_over_the_nodes_end_too(synced: Product, trees: Path, later: Callable[..., None]) -> None:
    root = ("--env", 5, "-r", "globals")
    good(synced, "override", *MEANT, *root, "-k", "added", "-t", "int", "-v", 1, "--for", "8h")
    good(synced, "sync", "--env", 5, "--from", trees)
    assert "added: 1" in file_of(synced, "2")
    later(hours=9)
    plan = good(synced, "plan", "--env", 5, "--from", trees)
    assert "- added: 1" in plan.out
    good(synced, "sync", "--env", 5, "--from", trees)
    assert "added" not in file_of(synced, "2")
