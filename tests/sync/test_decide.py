"""U18, U23: one run's decision on one document, and a model of many runs in a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from configdb_sync.configdb.level_merge import effective
from configdb_sync.jsonvalues import Json, document_digest, value_digest
from configdb_sync.store.records import Record, decode, encode
from configdb_sync.sync.decide import Accept, Decision, Write, decide, hidden_after_write, what_node_means


@dataclass(frozen=True)
class Content:
    values: Mapping[str, Json]

    @property
    def key_digests(self) -> Mapping[str, str]:
        return {key: value_digest(value) for key, value in self.values.items()}

    @property
    def digest(self) -> str:
        return document_digest(self.values)


def look(
    file: dict[str, Any] | None,
    overrides: dict[str, Any],
    *,
    record: Record | None = None,
    stored: dict[str, Any] | None = None,
    above: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (),
    accept: Accept = Accept.NEITHER,
) -> Decision:
    content = None if file is None else Content(file)
    before = stored or {}
    known = None if stored is None else before
    meant = what_node_means(content, record, known, effective([*above, (before, overrides)]), accept)
    return decide(content, meant, above, overrides, record)


def record_of(decision: Decision, *, created: bool = False) -> Record:
    return Record(
        values=decision.meant.digest,
        files=("x",),
        hidden=hidden_after_write(decision),
        created=created,
        unsettled=decision.meant.ambiguous,
    )


def test_a_first_sync_uploads_the_file_and_writes_nothing() -> None:
    decision = look({"a": 1, "b": {"c": 2}}, {})
    assert decision.meant.values == {"a": 1, "b": {"c": 2}}
    assert decision.meant.digest == document_digest({"a": 1, "b": {"c": 2}})
    assert decision.write is Write.NONE
    assert not decision.hidden


def test_an_override_is_written_and_remembered_as_ours() -> None:
    decision = look({"a": 1, "b": 2}, {"a": 9}, record=record_of(look({"a": 1, "b": 2}, {})))
    assert decision.write is Write.REPLACE
    assert decision.target == {"a": 9, "b": 2}
    again = look({"a": 9, "b": 2}, {"a": 9}, record=record_of(decision))
    assert again.meant.values == {"a": 1, "b": 2}
    assert again.write is Write.NONE
    back = look({"a": 9, "b": 2}, {}, record=record_of(again))
    assert back.target == {"a": 1, "b": 2}
    assert back.write is Write.REPLACE


def test_a_nodes_value_beats_an_override_above_it_as_the_server_has_it() -> None:
    assert look({"a": 1}, {}, above=(({}, {"a": 9, "z": 3}),)).target == {"z": 3, "a": 1}


def test_a_missing_file_means_nothing_and_is_made_only_for_an_override() -> None:
    assert look(None, {}, stored={"a": 1}).meant.values == {}
    assert look(None, {}).write is Write.NONE
    made = look(None, {"a": 1})
    assert made.write is Write.CREATE
    assert made.target == {"a": 1}
    gone = look({"a": 1}, {}, record=record_of(made, created=True))
    assert gone.write is Write.REMOVE
    assert gone.meant.values == {}


def test_a_file_that_we_made_and_the_node_then_wrote_into_is_the_nodes() -> None:
    made = record_of(look(None, {"a": 1}), created=True)
    decision = look({"a": 1, "own": 2}, {}, record=made)
    assert decision.meant.values == {"own": 2}
    assert decision.target == {"own": 2}
    assert decision.write is Write.REPLACE


def test_an_ambiguous_key_stays_on_both_sides_and_the_rest_goes_on() -> None:
    decision = look({"a": 5, "b": 9}, {"b": 9}, stored={"a": 1, "b": 2})
    assert decision.meant.ambiguous == ("a",)
    assert decision.meant.values == {"a": 1, "b": 2}
    assert decision.target == {"b": 9, "a": 5}
    assert decision.write is Write.NONE
    later = look({"a": 5, "b": 9}, {}, record=record_of(decision), stored={"a": 1, "b": 2})
    assert later.meant.ambiguous == ("a",)
    assert later.target == {"b": 2, "a": 5}


def test_a_file_that_was_made_for_an_override_is_not_uploaded_after_all_records_were_lost() -> None:
    """ConfigDB knows the node, though nothing is stored of this document: what equals the effective data is ours."""
    assert look({"a": 9}, {"a": 9}, stored={}).meant.values == {}
    assert look({"a": 9}, {"a": 9}, stored=None).meant.values == {"a": 9}
    assert look({"a": 8}, {"a": 9}, stored={}).meant.ambiguous == ("a",)


def test_the_user_settles_an_ambiguous_key() -> None:
    stored = {"a": 1, "gone": 3}
    node = look({"a": 5, "new": 2}, {}, stored=stored, accept=Accept.NODE)
    assert node.meant.values == {"a": 5, "new": 2}
    assert node.write is Write.NONE
    configdb = look({"a": 5, "new": 2}, {}, stored=stored, accept=Accept.CONFIGDB)
    assert configdb.meant.values == stored
    assert configdb.target == stored
    assert configdb.write is Write.REPLACE


def data(low: int) -> st.SearchStrategy[dict[str, Any]]:
    leaf = st.integers(low, low + 2)
    block = st.one_of(leaf, st.dictionaries(st.sampled_from("xy"), leaf, min_size=1, max_size=2))
    return st.dictionaries(st.sampled_from("abc"), block, max_size=3)


Step = tuple[str, dict[str, Any]]
steps: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(
        st.tuples(st.just("override"), data(10)),
        st.tuples(st.just("node writes"), data(0)),
        st.tuples(st.sampled_from(["killed before writing", "killed after writing", "run"]), st.just({})),
    ),
    max_size=8,
)


@settings(max_examples=300, deadline=None)
@given(data(0), steps)
def test_overrides_never_freeze_whatever_comes_when(
    first: dict[str, Any], steps: list[tuple[str, dict[str, Any]]]
) -> None:
    """With the overrides gone the file is what the node last wrote, however many runs were killed between."""
    file, own, overrides = dict(first), dict(first), dict[str, Any]()
    record: Record | None = None
    stored: dict[str, Any] | None = None
    for step, given_data in [*steps, ("override", {}), ("run", {})]:
        if step == "override":
            overrides = given_data
        elif step == "node writes":
            file, own = dict(given_data), dict(given_data)
        else:
            decision = look(file, overrides, record=record, stored=stored)
            assert not decision.meant.ambiguous
            assert decision.meant.values == own
            assert decision.target == effective([(own, overrides)])
            stored = dict(decision.meant.values)
            record = decode(encode(replace(record_of(decision), hidden=decision.hidden)))
            if step != "killed before writing":
                file = dict(decision.target)
            if step == "run":
                record = decode(encode(record_of(decision)))
    assert file == own


def test_an_ambiguous_key_is_judged_anew_until_someone_decides() -> None:
    """U18: the record of a run that could not tell says so; its other keys are settled."""
    stored = {"a": 1, "b": 1}
    first = look({"a": 5, "b": 1}, {}, stored=stored)
    assert (first.meant.ambiguous, first.meant.values, first.target) == (("a",), stored, {"a": 5, "b": 1})
    record = record_of(first)
    again = look({"a": 5, "b": 7}, {}, record=record, stored=stored)
    assert (again.meant.ambiguous, dict(again.meant.values)) == (("a",), {"a": 1, "b": 7})
    assert again.target == {"a": 5, "b": 7}
    assert again.write is Write.NONE
    node = look({"a": 5, "b": 1}, {}, record=record, stored=stored, accept=Accept.NODE)
    assert (node.meant.ambiguous, dict(node.meant.values), node.write) == ((), {"a": 5, "b": 1}, Write.NONE)
    configdb = look({"a": 5, "b": 1}, {}, record=record, stored=stored, accept=Accept.CONFIGDB)
    assert (dict(configdb.target), configdb.write) == (stored, Write.REPLACE)
    # The node brought it back by itself: there is nothing to be asked any more.
    back = look({"a": 1, "b": 1}, {}, record=record, stored=stored)
    assert (back.meant.ambiguous, back.write) == ((), Write.NONE)
