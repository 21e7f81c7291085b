"""U10, U11, U18, U23 as a state machine: whatever happens, after the next whole run nothing is frozen, doubled or lost.

The model is small: for each file, the text that its node last wrote (``Own``). Each number in them is used once,
so what a node writes can't be mistaken for anything else. Overrides are read from ConfigDB itself.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from configdb_sync import failpoints
from configdb_sync.configdb.level_merge import effective
from configdb_sync.hiera.documents import Reader
from configdb_sync.http.transport import HttpAnswer, HttpRequest
from configdb_sync.jsonvalues import same
from tests.support.product import Product, make_product
from tests.sync.editing import EMPTY, commented, reordered, restyled

ENV, OTHER = 5, 6
SOURCES = ("globals", "override/common")
NODES = ("1", "2")


@dataclass
class Own:
    """What a node means by one file. ``exact``: its bytes are known too, not only their value."""

    text: str | None
    exact: bool = True

    @property
    def values(self) -> dict[str, Any]:
        return {} if self.text is None else dict(Reader().read(self.text.encode()).values)


class Trust(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="trust-"))
        self.patch = pytest.MonkeyPatch()
        self.product: Product = make_product(self.folder / "state", self.patch)
        self.trees = self.folder / "trees"
        self.numbers = itertools.count(1000)
        self.own: dict[tuple[str, str], Own] = {}
        self.lost, self.digests = False, True
        self.env = dict.fromkeys(NODES, ENV)
        self.in_step = True  # Whether the last run wrote all overrides that there are.
        self.precise = True  # Whether something tells of all that we wrote what it is.

    def teardown(self) -> None:
        try:
            if self.own:
                self.take_all_overrides_away()
                self.whole_run()
                for (node, source), own in self.own.items():
                    path = self.path(node, source)
                    assert (path.read_text() if path.exists() else None) == own.text or not own.exact
                    assert path.exists() or own.text is None
        finally:
            self.patch.undo()
            shutil.rmtree(self.folder)

    # The nodes

    def path(self, node: str, source: str) -> Path:
        return self.trees / f"node-{node}/etc/hiera/{source}.yaml"

    def fresh_text(self, keys: list[str]) -> str:
        lines = ["# written by the node\n"]
        for key in keys:
            one, two = next(self.numbers), next(self.numbers)
            lines.append(f"{key}: {one}\n" if key == "flat" else f"{key}:\n  x: {one}   # first\n  y:\n  - {two}\n")
        return "".join(lines)

    def node_writes(self, node: str, source: str, keys: list[str]) -> None:
        text = self.fresh_text(keys)
        self.path(node, source).parent.mkdir(parents=True, exist_ok=True)
        self.path(node, source).write_text(text)
        self.own[node, source] = Own(text)

    @initialize()
    def begin(self) -> None:
        for node in NODES:
            self.node_comes(node)

    def node_comes(self, node: str) -> None:
        base = self.trees / f"node-{node}/etc/hiera/astute.yaml"
        base.parent.mkdir(parents=True)
        self.settles_in(node)
        self.node_writes(node, "globals", ["flat", "block"])
        self.own[node, "override/common"] = Own(None)

    def settles_in(self, node: str) -> None:
        base = self.trees / f"node-{node}/etc/hiera/astute.yaml"
        base.write_text(f"uid: '{node}'\ndeployment_id: {self.env[node]}\nfqdn: node-{node}.example.com\n")

    @precondition(lambda self: not self.lost)
    @rule(node=st.sampled_from(NODES), edits=st.booleans(), back=st.booleans())
    def node_moves_to_another_environment(self, node: str, *, edits: bool, back: bool) -> None:
        """It takes its files along, with overrides of the environment that it leaves in them."""
        self.env[node] = ENV if self.env[node] == OTHER else OTHER
        self.settles_in(node)
        if edits:
            self.node_edits_around(node, "globals", self.restyle(3, first=False))
            self.lost, self.precise = True, False
            self.forget_bytes()
        if back:
            self.whole_run()
            self.node_moves_to_another_environment(node, edits=False, back=False)

    def restyle(self, step: int, *, first: bool) -> Callable[[str], str]:
        return restyled(next(self.numbers), step, first=first)

    @rule(
        node=st.sampled_from(NODES),
        source=st.sampled_from(SOURCES),
        edit=st.one_of(st.sampled_from([reordered, commented]), st.tuples(st.integers(1, 4), st.booleans())),
    )
    def node_edits_a_file(self, node: str, source: str, edit: Any) -> None:
        self.node_edits_around(node, source, self.restyle(edit[0], first=edit[1]) if isinstance(edit, tuple) else edit)

    def node_edits_around(self, node: str, source: str, edit: Callable[[str], str]) -> None:
        path, own = self.path(node, source), self.own[node, source]
        text = path.read_text() if path.exists() else EMPTY
        if text != EMPTY and edit(text) != text:
            whole = own.text is not None
            path.write_text(edit(text))
            self.own[node, source] = Own(edit(own.text or ""), exact=own.exact and whole)

    @rule(node=st.sampled_from(NODES))
    def node_goes_and_comes_back_new(self, node: str) -> None:
        shutil.rmtree(self.trees / f"node-{node}")
        self.node_comes(node)

    @rule(node=st.sampled_from(NODES), source=st.sampled_from(SOURCES), keys=st.sampled_from(["flat", "block", "both"]))
    def node_writes_a_file_anew(self, node: str, source: str, keys: str) -> None:
        self.node_writes(node, source, ["flat", "block"] if keys == "both" else [keys])

    @rule(node=st.sampled_from(NODES), source=st.sampled_from(SOURCES))
    def node_changes_a_leaf_where_it_stands(self, node: str, source: str) -> None:
        own, path = self.own[node, source], self.path(node, source)
        text = path.read_text() if path.exists() else ""
        shown = [number for number in range(1000, 9999) if str(number) in text and str(number) in (own.text or "")]
        if shown:
            old, new = str(shown[0]), str(next(self.numbers))
            self.own[node, source] = Own((own.text or "").replace(old, new), exact=own.exact and text == own.text)
            path.write_text(text.replace(old, new))

    @rule(node=st.sampled_from(NODES))
    def node_removes_a_file(self, node: str) -> None:
        self.path(node, "override/common").unlink(missing_ok=True)
        self.own[node, "override/common"] = Own(None)

    # ConfigDB

    def where(self, node: str, source: str) -> tuple[object, ...]:
        return ("--env", self.env[node], "-r", source, "--level", f"nodes={node}")

    def overrides(self, node: str, source: str) -> dict[str, Any]:
        return self.held(node, source, "--overrides")

    def values(self, node: str, source: str) -> dict[str, Any]:
        return self.held(node, source, "--values")

    def held(self, node: str, source: str, kind: str) -> dict[str, Any]:
        found = self.product("get", *self.where(node, source), kind, "--format", "json")
        document: dict[str, Any] = found.json if found.code == 0 else {}
        return document

    @property
    def there(self) -> bool:
        return self.product("get", *self.where("1", "globals")).code == 0

    @precondition(lambda self: self.there)
    @rule(
        node=st.sampled_from(NODES),
        source=st.sampled_from(SOURCES),
        key=st.sampled_from(["flat", "block", "block.x", "block.y", "added"]),
    )
    def someone_overrides(self, node: str, source: str, key: str) -> None:
        value = "".join(chr(ord("a") + int(digit)) for digit in str(next(self.numbers)))
        self.product("override", *self.where(node, source), "--key", key, "--type", "str", "--value", value)
        self.overrides_changed()

    @precondition(lambda self: self.there)
    @rule(node=st.sampled_from(NODES), source=st.sampled_from(SOURCES))
    def someone_takes_overrides_away(self, node: str, source: str) -> None:
        self.product("rm-override", *self.where(node, source), "--all-keys")
        self.overrides_changed()

    def overrides_changed(self) -> None:
        self.in_step = False
        if self.lost and not self.digests:
            self.precise = False

    def take_all_overrides_away(self) -> None:
        for node, source in self.own:
            self.someone_takes_overrides_away(node, source)

    # Runs

    def here(self, env: int) -> list[str]:
        return [node for node in NODES if self.env[node] == env]

    def sync(self, *more: object, env: int = ENV) -> Any:
        some = () if self.here(env) == list(NODES) else ("--node", ",".join(self.here(env)))
        return self.product("sync", "--env", env, "--from", self.trees, "--parallel", 1, *some, *more)

    def every_sync(self, *more: object) -> None:
        for env in sorted(set(self.env.values())):
            self.sync(*more, env=env)

    @rule(side=st.sampled_from(["node", "configdb"]))
    def whole_run(self, side: str = "node") -> None:
        for env in sorted(set(self.env.values())):
            result = self.sync(env=env)
            if result.code == 3 and self.lost and "--accept-node" in result.out:
                self.settle(env, side)
            else:
                assert result.code in {0, 5}, result.out + result.err
            if result.code == 5:
                digest = result.out.split("sync --force ")[1].split()[0]
                result = self.sync("--force", digest, env=env)
                assert result.code == 0, result.out
        self.lost, self.in_step, self.precise = False, True, True
        self.check()

    def settle(self, env: int, side: str) -> None:
        """Ambiguous keys are still as both sides have them; then the user takes one side."""
        files = {key: self.path(*key) for key in self.own if key[0] in self.here(env)}
        before = {key: path.read_bytes() for key, path in files.items() if path.exists()}
        stored = {key: self.values(*key) for key in files}
        again = self.sync(env=env)
        assert again.code in {3, 5}
        assert {key: path.read_bytes() for key, path in files.items() if path.exists()} == before
        assert {key: self.values(*key) for key in files} == stored
        assert self.sync(f"--accept-{side}", env=env).code in {0, 5}
        for key in files:
            values, own = self.values(*key), self.own[key]
            if self.precise:
                self.is_of_a_side(values, own.values, None if side == "node" else stored[key])
            if not same(values, own.values):
                lines = [f"{name}: {value!r}\n".replace("None", "null") for name, value in values.items()]
                self.own[key] = Own("".join(lines) or None, exact=False)

    def is_of_a_side(self, found: dict[str, Any], own: dict[str, Any], stored: dict[str, Any] | None) -> None:
        """What was taken is what the node means; with ConfigDB's side, key by key, this or what was stored."""
        if stored is None:
            assert same(found, own)
            return
        for key in {**found, **own, **stored}:
            sides = [{key: side[key]} if key in side else {} for side in (own, stored)]
            value: dict[str, Any] = {key: found[key]} if key in found else {}
            assert any(same(value, side) for side in sides), key

    def check(self) -> None:
        for (node, source), own in self.own.items():
            path = self.path(node, source)
            file = dict(Reader().read(path.read_bytes()).values) if path.exists() else {}
            assert same(file, effective([(own.values, self.overrides(node, source))])), (node, source)
            assert same(self.values(node, source), own.values), (node, source)
        left = [path.name for path in self.trees.rglob("*") if path.name.startswith(".") and path.is_file()]
        assert [name for name in left if not name.endswith(".folder")] == []

    @rule(name=st.sampled_from(sorted(failpoints.NAMES)), count=st.integers(1, 4))
    def a_run_is_killed(self, name: str, count: int) -> None:
        self.in_step = False
        self.forked(self.every_sync, f"{name}:{count}")

    @precondition(lambda self: self.there)
    @rule(
        node=st.sampled_from(NODES),
        keys=st.lists(st.sampled_from(["flat", "block", "block.x", None]), min_size=2, max_size=2),
        name=st.sampled_from(["after-upload", "before-record", "after-record", "before-write", "after-write"]),
    )
    def a_run_is_killed_while_it_writes(self, node: str, keys: list[str | None], name: str) -> None:
        """One override is on the node, another one is on its way when the kill comes."""
        for key in keys:
            if key is None:
                self.someone_takes_overrides_away(node, "globals")
            else:
                self.someone_overrides(node, "globals", key)
            if key is keys[0]:
                self.whole_run()
        self.forked(lambda: self.sync("--node", node, env=self.env[node]), f"{name}:1")

    @rule()
    def two_runs_at_once(self) -> None:
        children = [self.fork(self.every_sync, None) for _ in range(2)]
        for child in children:
            os.waitpid(child, 0)

    def forked(self, work: Any, point: str | None) -> None:
        os.waitpid(self.fork(work, point), 0)

    def fork(self, work: Any, point: str | None) -> int:
        child = os.fork()
        if child == 0:
            try:
                if point is not None:
                    failpoints._failpoint = failpoints.Failpoint(point)
                work()
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        return child

    @precondition(lambda self: set(self.env.values()) == {ENV})
    @rule(digests=st.booleans())
    def the_records_are_lost(self, *, digests: bool) -> None:
        for path in self.product.state.glob("configdb-sync.sqlite*"):
            path.unlink()
        self.digests = digests and (self.digests or not self.lost)
        self.lost = True
        self.precise = self.precise and (digests or self.in_step)
        self.forget_bytes()
        if not digests and self.there:
            for node in NODES:
                self.product("del", "--env", ENV, "-r", "records", "--level", f"nodes={node}", "--all-keys")

    def forget_bytes(self) -> None:
        for key, own in self.own.items():
            path = self.path(*key)
            own.exact = own.exact and (path.read_text() if path.exists() else None) == own.text

    @precondition(lambda self: self.there and not self.lost and set(self.env.values()) == {ENV})
    @rule(
        node=st.sampled_from(NODES),
        key=st.sampled_from(["flat", "block", "block.x", "block.y", "added"]),
        digests=st.booleans(),
        side=st.sampled_from(["node", "configdb"]),
    )
    def records_are_lost_and_the_node_goes_on(self, node: str, key: str, *, digests: bool, side: str) -> None:
        """With an override in its file the node changes another leaf; someone takes a side, then the override away."""
        self.someone_overrides(node, "globals", key)
        self.whole_run()
        self.the_records_are_lost(digests=digests)
        self.node_changes_a_leaf_where_it_stands(node, "globals")
        self.whole_run(side)
        self.take_all_overrides_away()
        self.whole_run()

    @rule(after=st.integers(0, 12))
    def configdb_fails_for_a_while(self, after: int) -> None:
        seen = itertools.count()

        def fault(request: HttpRequest) -> HttpAnswer | None:
            refused = HttpAnswer(400, {"content-type": "text/html"}, b"<html>gateway</html>")
            return refused if "/nodes/" in request.path and next(seen) >= after else None

        self.product.fault = fault
        self.in_step = False
        self.every_sync()
        self.product.fault = None


TestTrust = Trust.TestCase
TestTrust.settings = settings(
    max_examples=5,
    stateful_step_count=10,
    deadline=None,
    report_multiple_bugs=False,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.long
def test_trust_at_length() -> None:
    """The same, as long as one has patience for."""
    run_state_machine_as_test(
        Trust, settings=settings(Trust.TestCase.settings, max_examples=300, stateful_step_count=25)
    )
