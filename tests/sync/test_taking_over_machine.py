"""U31 as a state machine: people override files in a folder's document and by themselves, runs are killed anywhere.

No override is ever lost, taken for another's or decided between; after a whole run each stands once, in its file too.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from configdb_sync import failpoints
from configdb_sync.configdb.level_merge import effective
from configdb_sync.jsonvalues import same
from tests.support import lcm
from tests.support.product import make_product
from tests.support.taken_over import FQDN, ROWS, Cloud, level, make

POINTS = sorted(failpoints.TAKEOVER_NAMES | failpoints.NAMES)
CHOSEN = [row for row in ROWS if row[0] in {"plugins", "override/node", "override/configuration"}]
Document = dict[str, Any]


class TakingOver(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="taking-over-"))
        self.patch = pytest.MonkeyPatch()
        self.product = make_product(self.folder / "state", self.patch)
        self.numbers = itertools.count(1000)

    def teardown(self) -> None:
        self.patch.undo()
        shutil.rmtree(self.folder)

    @initialize(plain=st.booleans())
    def begin(self, *, plain: bool) -> None:
        self.product.plain = plain
        self.cloud: Cloud = make(self.product, self.folder, 5).fill()
        self.own = {row: self.cloud.file(f"{row[0]}/{row[1]}") for row in CHOSEN}
        self.uploaded = {folder: self.cloud.values(folder) for folder in ("plugins", "override/configuration")}
        self.paths = self.cloud.paths()

    def documents(self, row: tuple[str, str, str], node: str | None) -> tuple[Document | None, Document]:
        """The override of a file in its folder's document (None: there is none), and that of its own data source."""
        folder, stem, name = row
        with self.cloud.client() as client:
            environment = client.environment(5)
            assert environment is not None
            known = client.definitions(environment)
            old = client.overrides(5, level(node), known[folder].id)
            new = client.overrides(5, level(node), known[name].id) if name in known else {}
        return old.get(stem), {key: value for key, value in new.items() if name != folder or key not in (stem, "x.y")}

    @property
    def places(self) -> list[tuple[tuple[str, str, str], str | None]]:
        return [(row, node) for row in CHOSEN for node in ("1", None) if node == "1" or FQDN not in row[1]]

    @rule(
        row=st.sampled_from(CHOSEN),
        keys=st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2, unique=True),
        everywhere=st.booleans(),
    )
    def someone_overrides_a_file_in_its_folder(
        self, row: tuple[str, str, str], keys: list[str], *, everywhere: bool
    ) -> None:
        folder, stem, _ = row
        node = None if everywhere and FQDN not in stem else "1"
        there = self.cloud.overrides(folder, node)
        self.cloud.override(folder, {**there, stem: {key: next(self.numbers) for key in keys}}, node)

    @rule(row=st.sampled_from(CHOSEN), key=st.sampled_from(["a", "b"]), away=st.booleans())
    def someone_overrides_the_file_itself(self, row: tuple[str, str, str], key: str, *, away: bool) -> None:
        folder, stem, name = row
        old, new = self.documents(row, "1")
        if not new and old is None and name not in lcm.DATA_SOURCES:
            return  # there may be no such data source yet
        new.pop(key, None)
        if not away:
            new[key] = next(self.numbers)
        keep = {stem: old} if folder == name and old is not None else {}
        with self.cloud.client() as client:
            environment = client.environment(5)
            assert environment is not None
            known = client.definitions(environment)
            if name in known:
                client.put_overrides(5, level("1"), known[name].id, {**keep, **new})

    @rule(point=st.sampled_from(POINTS), count=st.integers(1, 3))
    def a_run_is_killed(self, point: str, count: int) -> None:
        before = {place: self.documents(*place) for place in self.places}
        child = os.fork()
        if child == 0:
            try:
                failpoints._failpoint = failpoints.Failpoint(f"{point}:{count}")
                self.cloud.sync("--parallel", 1)
            finally:
                os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
        for place in self.places:
            self.moved_or_not(before[place], self.documents(*place))

    def moved_or_not(self, before: tuple[Document | None, Document], after: tuple[Document | None, Document]) -> None:
        (old, new), both = before, {**before[1], **(before[0] or {})}
        if after == before:
            return
        assert old is not None
        assert all(key not in new or new[key] == old[key] for key in old)
        assert after in ((old, both), (None, both))

    @rule()
    def whole_run(self) -> None:
        before = {place: self.documents(*place) for place in self.places}
        contradicting = {
            place
            for place, (old, new) in before.items()
            if old is not None and any(key in new and new[key] != value for key, value in old.items())
        }
        result = self.cloud.sync("--parallel", 1)
        assert result.code == (3 if contradicting else 0), result.out + result.err
        for place, (old, new) in before.items():
            after = self.documents(*place)
            if place in contradicting:
                assert after == (old, new)
            elif any(row == place[0] for row, _ in contradicting):
                self.moved_or_not((old, new), after)
            else:
                assert after == (None, {**new, **(old or {})})
        for row in CHOSEN:
            if not any(other == row for other, _ in contradicting):
                levels = [({}, self.documents(row, None)[1]), (self.own[row], self.documents(row, "1")[1])]
                assert same(self.cloud.file(f"{row[0]}/{row[1]}"), effective(levels)), row
                assert same(self.cloud.values(row[2]), self.own[row]), row
        assert {folder: self.cloud.values(folder) for folder in self.uploaded} == self.uploaded
        assert self.cloud.paths() == self.paths
        if not contradicting:
            self.product.changing()
            assert self.cloud.sync("--parallel", 1).code == 0
            assert self.product.changing() == []

    @rule(row=st.sampled_from(CHOSEN))
    def the_node_writes_a_file_anew(self, row: tuple[str, str, str]) -> None:
        """Only after a whole run: before it nothing could tell the node's word from the older plugin's writing."""
        self.settle()
        self.own[row] = {**self.own[row], "own": next(self.numbers), "a": next(self.numbers)}
        path = self.cloud.trees / f"node-1/etc/hiera/{row[0]}/{row[1]}.yaml"
        path.write_text(yaml.safe_dump(self.own[row]))

    def settle(self) -> None:
        """The folder's side of what contradicts is taken away, then a run has nothing left to ask."""
        for folder in {row[0] for row in CHOSEN}:
            for node in ("1", None):
                stems = {stem for home, stem, _ in CHOSEN if home == folder}
                there = self.cloud.overrides(folder, node)
                kept = {key: value for key, value in there.items() if key not in stems}
                if kept != there:
                    self.cloud.override(folder, kept, node)
        self.whole_run()


TestTakingOver = TakingOver.TestCase
TestTakingOver.settings = settings(
    max_examples=4,
    stateful_step_count=6,
    deadline=None,
    report_multiple_bugs=False,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.long
def test_taking_over_at_length() -> None:
    """The same, as long as one has patience for."""
    run_state_machine_as_test(
        TakingOver, settings=settings(TakingOver.TestCase.settings, max_examples=200, stateful_step_count=15)
    )
