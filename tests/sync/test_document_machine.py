"""U10, U11, U18, U23: one document of one node through the pure part of runs, as a state machine.

It is fast, so it goes further than ``test_trust``, which has whole runs: nodes edit around what we wrote, records are
lost, the user takes a side, the node goes to another environment with its files, runs are killed.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from configdb_sync.configdb.level_merge import effective
from configdb_sync.hiera.documents import Reader
from configdb_sync.jsonvalues import EMPTY_DIGEST, same
from configdb_sync.nodes.node_files import NodeFile
from configdb_sync.store.records import Record, decode, encode
from configdb_sync.sync.decide import Accept, Decision, Write, decide, needs_stored, what_node_means
from configdb_sync.sync.node_records import DigestRecord, from_json, to_json
from configdb_sync.sync.node_work import BLANK, DocumentWork, ExaminedDocument, Prepared, prepare
from configdb_sync.sync.record_recovery import NodeRecords
from configdb_sync.sync.remote_node import RemoteNode
from tests.sync.editing import EMPTY, commented, reordered, restyled

NAME = "globals"
ENVIRONMENTS = (5, 6)
READER = Reader()


@dataclass
class Environment:
    """What ConfigDB holds of the document in one environment; as ``RemoteNode`` as far as ``NodeRecords`` asks."""

    stored: dict[str, Any] = field(default_factory=dict)
    overrides: dict[str, Any] = field(default_factory=dict)
    digests: dict[str, Any] = field(default_factory=dict)
    has_values: bool = False

    def records(self) -> dict[str, Any]:
        return self.digests

    def values(self, _name: str) -> dict[str, Any]:
        return self.stored

    def agrees(self, records: dict[str, Any], _hierarchy: object = None) -> bool:
        return not self.digests or same(self.digests, records)


class OneDocument(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.numbers = itertools.count(1000)
        self.order = itertools.count(1)
        self.environments = {number: Environment() for number in ENVIRONMENTS}
        self.env = ENVIRONMENTS[0]
        self.records: dict[int, tuple[int, bytes]] = {}
        self.remembered: set[int] = set()  # The environments of which we remember the node's base file.
        self.raw: str | None = None
        self.own: str | None = None
        self.exact = True
        self.in_step = True  # Whether the last run wrote all overrides that there are.
        self.told = True  # Whether all that we wrote is known to our records or to ConfigDB's digests.
        self.moved = False
        self.lost = False
        self.forgotten: set[int] = set()  # The environments that no run was in since our records of them were lost.
        self.adopted = False  # Whether a value that we wrote may be the node's own by now: elsewhere it is an override.
        self.precise = True  # Whether something tells of all that we wrote what it is.

    @property
    def here(self) -> Environment:
        return self.environments[self.env]

    @property
    def meant(self) -> dict[str, Any]:
        return {} if self.own is None else dict(READER.read(self.own.encode()).values)

    # The node

    @initialize(keys=st.sampled_from(["both", "block"]))
    def begin(self, keys: str) -> None:
        self.node_writes_anew(keys)

    @rule(keys=st.sampled_from(["flat", "block", "both"]))
    def node_writes_anew(self, keys: str) -> None:
        one, two, three = (next(self.numbers) for _ in range(3))
        flat = f"flat: {one} # mine\n" if keys != "block" else ""
        block = f"block:\n  x: {two}   # first\n  y:\n  - {three}\n" if keys != "flat" else ""
        self.raw = self.own = f"# written by the node\n{flat}{block}"
        self.exact, self.adopted = True, False

    @rule(
        edit=st.one_of(st.sampled_from([reordered, commented]), st.tuples(st.integers(1, 4), st.booleans())),
    )
    def node_edits_around(self, edit: Any) -> None:
        change: Callable[[str], str] = (
            restyled(next(self.numbers), edit[0], first=edit[1]) if isinstance(edit, tuple) else edit
        )
        if self.raw is not None and self.raw != EMPTY and change(self.raw) != self.raw:
            # A comment about a key that is not the node's own stays when the key goes.
            known = edit is not commented or ("\nflat:" in self.raw) is ("\nflat:" in (self.own or ""))
            self.raw, self.exact = change(self.raw), self.exact and self.own is not None and known
            self.own = change(self.own or "")

    @rule(which=st.integers(0, 3))
    def node_changes_a_leaf(self, which: int) -> None:
        raw, own = self.raw or "", self.own or ""
        shown = [number for number in range(1000, 2000) if str(number) in raw and str(number) in own]
        if shown:
            old, new = str(shown[which % len(shown)]), str(next(self.numbers))
            self.exact = self.exact and raw == own
            self.raw, self.own = raw.replace(old, new), own.replace(old, new)

    @rule()
    def node_removes_the_file(self) -> None:
        self.raw = self.own = None
        self.exact = True

    @precondition(lambda self: not self.adopted and (self.told or not self.lost))
    @rule()
    def node_moves(self) -> None:
        self.env = sum(ENVIRONMENTS) - self.env
        self.in_step, self.moved = False, True
        self.precise = self.precise and not self.lost

    def raw_is_known(self) -> bool:
        """Whether the file is as the last record says: then it is known wherever it comes to lie."""
        newest = max(self.records.values(), default=None)
        digest = None if self.raw is None else hashlib.sha256(self.raw.encode()).hexdigest()
        return newest is None or digest in decode(newest[1]).files

    # ConfigDB and our records

    @rule(key=st.sampled_from(["flat", "block", "block.x", "block.y", "block.z", "added"]))
    def someone_overrides(self, key: str) -> None:
        top, _, leaf = key.partition(".")
        value: Any = "".join(chr(ord("a") + int(digit)) for digit in str(next(self.numbers)))
        if leaf:
            base = effective([(self.here.stored, self.here.overrides)]).get(top)
            value = {**(base if isinstance(base, dict) else {}), leaf: value}
        self.here.overrides = {**self.here.overrides, top: value}
        self.overrides_changed()

    @rule()
    def someone_takes_overrides_away(self) -> None:
        self.here.overrides = {}
        self.overrides_changed()

    def overrides_changed(self) -> None:
        self.in_step = False
        if self.lost and not self.told:
            self.precise = False

    @rule(digests=st.booleans())
    def records_are_lost(self, *, digests: bool) -> None:
        """Ours, of all environments; ConfigDB's too (not ``digests``) unless they alone know of a node that moved."""
        digests = digests or self.moved
        self.told = digests and (self.told or not self.lost)
        self.precise = self.precise and (digests or self.in_step) and not self.moved
        self.lost = True
        self.records.clear()
        self.forgotten = set(ENVIRONMENTS)
        self.remembered.clear()
        self.exact = self.exact and self.raw == self.own
        if not digests:
            for environment in self.environments.values():
                environment.digests = {}

    # Runs

    def record_of(self) -> tuple[dict[str, Record], dict[str, Record]]:
        own = self.records.get(self.env)
        newest = max(self.records, key=lambda env: self.records[env][0], default=self.env)
        elsewhere = {} if newest == self.env else {NAME: decode(self.records[newest][1])}
        base = {"astute": Record(values=EMPTY_DIGEST, files=("x",))} if self.env in self.remembered else {}
        return base if own is None else {**base, NAME: decode(own[1])}, elsewhere

    def others(self, name: str) -> list[tuple[DigestRecord, dict[str, Any]]]:
        """What ConfigDB keeps in the environment where the node isn't."""
        other = self.environments[sum(ENVIRONMENTS) - self.env]
        digests = from_json(other.digests.get(name))
        return [] if digests is None else [(digests, other.stored)]

    def look(self, accept: Accept) -> tuple[bool, Decision, Prepared, Record | None]:
        content = None if self.raw is None else self.raw.encode()
        document = None if content is None else READER.read(content)
        digest = "" if content is None else hashlib.sha256(content).hexdigest()
        file = None if content is None else NodeFile("globals.yaml", "/x", content, digest, 0o640, 0, 0)
        stored = self.here
        records = NodeRecords(*self.record_of(), cast(RemoteNode, stored), others=self.others)
        strange = records.unknown and stored.has_values
        subject = ExaminedDocument(NAME, "globals.yaml", file, document, None, strange)
        record = records.told(subject).record
        needs = needs_stored(document, record) and (record is not None or strange)
        before = effective([(stored.stored, stored.overrides)])
        known: tuple[Any, Any] = (stored.stored, before) if needs else (None, {})
        meant = what_node_means(document, record, *known, accept)
        decision = decide(document, meant, (), stored.overrides, record)
        work = DocumentWork(NAME, "globals.yaml", file, document, decision, record, None)
        fresh = records.unknown and not strange
        begun = record or Record(values=EMPTY_DIGEST, files=(digest,)) if fresh and file is not None else None
        return fresh, decision, prepare(work), begun

    def remember(self, record: Record) -> None:
        self.records[self.env] = (next(self.order), encode(record))
        self.remembered.add(self.env)
        self.here.digests = {"astute": {}, NAME: to_json(record)}
        if record == BLANK:
            del self.records[self.env], self.here.digests[NAME]

    def one_run(self, accept: Accept, stop: str = "") -> Decision:
        if self.moved and (self.env in self.forgotten or not self.raw_is_known()):
            self.lost, self.precise = True, False
        fresh, decision, prepared, begun = self.look(accept)
        if fresh:
            self.remembered.add(self.env)
            self.here.digests = {**self.here.digests, "astute": {}}
        if begun is not None:
            self.remember(begun)
        if stop == "before the upload":
            return decision
        self.here.stored = dict(decision.meant.values)
        self.here.has_values = True  # Of the node's base file, if of nothing else.
        if stop == "before the record":
            return decision
        self.remember(prepared.pending)
        if stop == "before the write":
            return decision
        if decision.write is Write.REMOVE:
            self.raw = None
        elif decision.write is not Write.NONE and prepared.content is not None:
            self.raw = prepared.content.decode()
        if stop != "before the confirmation":
            self.remember(prepared.done)
        return decision

    @rule(
        stop=st.sampled_from(["before the upload", "before the record", "before the write", "before the confirmation"])
    )
    def a_run_is_killed(self, stop: str) -> None:
        self.one_run(Accept.NEITHER, stop)
        self.in_step = False

    @rule(accept=st.sampled_from([Accept.NODE, Accept.CONFIGDB]))
    def whole_run(self, accept: Accept = Accept.NODE) -> None:
        raw, stored = self.raw, dict(self.here.stored)
        decision = self.one_run(Accept.NEITHER)
        if decision.meant.open:
            assert self.lost
            found = {} if self.raw is None else READER.read(self.raw.encode()).values
            before = {} if raw is None else READER.read(raw.encode()).values
            for key in decision.meant.open:
                assert same(slot(found, key), slot(before, key))
                assert same(slot(self.here.stored, key), slot(stored, key))
            self.one_run(accept)
            self.taken(accept, stored)
        assert same(self.here.stored, self.meant)
        file = {} if self.raw is None else dict(READER.read(self.raw.encode()).values)
        assert same(file, effective([(self.meant, self.here.overrides)]))
        self.lost, self.in_step, self.precise, self.told, self.moved = False, True, True, True, False
        self.forgotten.discard(self.env)

    def taken(self, accept: Accept, stored: dict[str, Any]) -> None:
        """What was taken is what the node means; with ConfigDB's side, key by key, this or what was stored."""
        found, own = self.here.stored, self.meant
        if self.precise and accept is Accept.NODE:
            assert same(found, own)
        elif self.precise:
            for key in {**found, **own, **stored}:
                assert any(same(slot(found, key), slot(side, key)) for side in (own, stored)), key
        if not same(found, own):
            self.own = "".join(f"{key}: {value!r}\n".replace("None", "null") for key, value in found.items()) or None
            self.exact = False
            self.adopted = True

    @precondition(lambda self: not self.lost)
    @rule(
        key=st.sampled_from(["flat", "block", "block.x", "block.y", "added"]),
        digests=st.booleans(),
        accept=st.sampled_from([Accept.NODE, Accept.CONFIGDB]),
        which=st.integers(0, 3),
    )
    def a_side_is_taken_with_an_override_in_the_file(
        self, key: str, accept: Accept, which: int, *, digests: bool
    ) -> None:
        self.someone_overrides(key)
        self.whole_run()
        if not self.moved:
            self.records_are_lost(digests=digests)
        self.node_changes_a_leaf(which)
        self.whole_run(accept)
        self.someone_takes_overrides_away()
        self.whole_run()

    @precondition(lambda self: not self.lost and not self.adopted)
    @rule(
        key=st.sampled_from(["flat", "block", "block.x", "block.y", "added"]),
        accept=st.sampled_from([Accept.NODE, Accept.CONFIGDB]),
        which=st.one_of(st.none(), st.integers(0, 3)),
        back=st.booleans(),
    )
    def a_node_moves_with_an_override_in_its_file_and_comes_to_a_new_master(
        self, key: str, accept: Accept, which: int | None, *, back: bool
    ) -> None:
        if back:
            self.node_moves()
            self.whole_run()
        self.someone_overrides(key)
        self.whole_run()
        self.node_moves()
        self.records_are_lost(digests=True)
        if which is not None:
            self.node_changes_a_leaf(which)
        self.whole_run(accept)

    def teardown(self) -> None:
        self.whole_run()
        self.someone_takes_overrides_away()
        self.whole_run()
        assert self.raw == self.own or not self.exact
        assert self.raw is not None or self.own is None


def slot(document: Mapping[str, Any], key: str) -> list[Any]:
    return [document[key]] if key in document else []


TestOneDocument = OneDocument.TestCase
TestOneDocument.settings = settings(
    max_examples=150,
    stateful_step_count=15,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.parametrize("edit", [reordered, commented, (4, True), (1, False)])
def test_bytes_come_back_whatever_the_node_does_to_other_blocks(edit: Any) -> None:
    one = OneDocument()
    one.begin(keys="both")
    one.someone_overrides(key="block.x")
    one.whole_run(accept=Accept.NODE)
    one.node_edits_around(edit=edit)
    one.someone_takes_overrides_away()
    one.whole_run(accept=Accept.NODE)
    assert (one.raw, one.exact) == (one.own, True)


def test_a_file_that_we_made_and_the_node_wrote_over_stays() -> None:
    one = OneDocument()
    one.begin(keys="both")
    one.node_removes_the_file()
    one.someone_overrides(key="added")
    one.whole_run(accept=Accept.NODE)
    one.node_edits_around(edit=commented)
    one.whole_run(accept=Accept.NODE)
    one.someone_takes_overrides_away()
    one.whole_run(accept=Accept.NODE)
    assert one.raw is not None


@pytest.mark.long
def test_one_document_at_length() -> None:
    run_state_machine_as_test(
        OneDocument, settings=settings(OneDocument.TestCase.settings, max_examples=5000, stateful_step_count=30)
    )
