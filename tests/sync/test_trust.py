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
from configdb_sync.configdb.exchange import Answer, Request
from configdb_sync.configdb.merge import effective
from configdb_sync.hiera import Reader
from configdb_sync.jsonvalues import same
from tests.support.product import Product, make_product

ENV = 5
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
        self.lost = False

    def teardown(self) -> None:
        try:
            if self.own:
                self.take_all_overrides_away()
                self.whole_run()
                for (node, source), own in self.own.items():
                    path = self.path(node, source)
                    assert (path.read_text() if path.exists() else None) == own.text or not own.exact
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
        base.write_text(f"uid: '{node}'\ndeployment_id: {ENV}\nfqdn: node-{node}.example.com\n")
        self.node_writes(node, "globals", ["flat", "block"])
        self.own[node, "override/common"] = Own(None)

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
        return ("--env", ENV, "-r", source, "--level", f"nodes={node}")

    def overrides(self, node: str, source: str) -> dict[str, Any]:
        found: dict[str, Any] = self.product("get", *self.where(node, source), "--overrides", "--format", "json").json
        return found

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

    @precondition(lambda self: self.there)
    @rule(node=st.sampled_from(NODES), source=st.sampled_from(SOURCES))
    def someone_takes_overrides_away(self, node: str, source: str) -> None:
        self.product("rm-override", *self.where(node, source), "--all-keys")

    def take_all_overrides_away(self) -> None:
        if self.there:
            for node, source in self.own:
                self.someone_takes_overrides_away(node, source)

    # Runs

    def sync(self, *more: str) -> Any:
        return self.product("sync", "--env", ENV, "--from", self.trees, "--parallel", 1, *more)

    @rule()
    def whole_run(self) -> None:
        result = self.sync()
        if result.code == 3 and self.lost and "--accept-node" in result.out:
            self.settle()
        else:
            assert result.code in {0, 5}, result.out + result.err
        if result.code == 5:
            digest = result.out.split("sync --force ")[1].split()[0]
            result = self.sync("--force", digest)
            assert result.code == 0, result.out
        self.lost = False
        self.check()

    def settle(self) -> None:
        """Ambiguous keys are still as the node has them; then the user takes the node's side."""
        before = {key: self.path(*key).read_bytes() for key in self.own if self.path(*key).exists()}
        again = self.sync()
        assert again.code in {3, 5}
        assert {key: self.path(*key).read_bytes() for key in self.own if self.path(*key).exists()} == before
        assert self.sync("--accept-node").code in {0, 5}
        for node, source in self.own:
            stored = self.product("get", *self.where(node, source), "--values", "--format", "json").json
            if not same(stored, self.own[node, source].values):
                lines = [f"{key}: {value!r}\n".replace("None", "null") for key, value in stored.items()]
                self.own[node, source] = Own("".join(lines) or None, exact=False)

    def check(self) -> None:
        for (node, source), own in self.own.items():
            path = self.path(node, source)
            file = dict(Reader().read(path.read_bytes()).values) if path.exists() else {}
            assert same(file, effective([(own.values, self.overrides(node, source))])), (node, source)
            stored = self.product("get", *self.where(node, source), "--values", "--format", "json").json
            assert same(stored, own.values), (node, source)
        left = [path.name for path in self.trees.rglob("*") if path.name.startswith(".") and path.is_file()]
        assert [name for name in left if not name.endswith(".folder")] == []

    @rule(name=st.sampled_from(sorted(failpoints.NAMES)), count=st.integers(1, 4))
    def a_run_is_killed(self, name: str, count: int) -> None:
        self.forked(self.sync, f"{name}:{count}")

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
        self.forked(lambda: self.sync("--node", node), f"{name}:1")

    @rule()
    def two_runs_at_once(self) -> None:
        children = [self.fork(self.sync, None) for _ in range(2)]
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

    @rule(digests=st.booleans())
    def the_records_are_lost(self, digests: bool) -> None:
        for path in self.product.state.glob("configdb-sync.sqlite*"):
            path.unlink()
        self.lost = True
        for key, own in self.own.items():
            path = self.path(*key)
            own.exact = own.exact and (path.read_text() if path.exists() else None) == own.text
        if not digests and self.there:
            for node in NODES:
                self.product("del", "--env", ENV, "-r", "records", "--level", f"nodes={node}", "--all-keys")

    @rule(after=st.integers(0, 12))
    def configdb_fails_for_a_while(self, after: int) -> None:
        seen = itertools.count()

        def fault(request: Request) -> Answer | None:
            refused = Answer(400, {"content-type": "text/html"}, b"<html>gateway</html>")
            return refused if "/nodes/" in request.path and next(seen) >= after else None

        self.product.fault = fault
        self.sync()
        self.product.fault = None


TestTrust = Trust.TestCase
TestTrust.settings = settings(
    max_examples=15,
    stateful_step_count=12,
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
