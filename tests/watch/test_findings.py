"""U29: what is the matter with an environment, from plans and runs alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from configdb_sync.configdb.model import KeyEffect, OverrideNote
from configdb_sync.errors import AmbiguousError, BusError, NodeError, ProductError, UnavailableError, UnsafeError
from configdb_sync.exits import Exit
from configdb_sync.store.approvals import UnsafeChange
from configdb_sync.store.findings import Finding, FindingKind
from configdb_sync.store.runs import PastRun
from configdb_sync.sync.decide import Write
from configdb_sync.sync.diff import LeafChange
from configdb_sync.sync.expiry import EndedOverride
from configdb_sync.sync.ineffective_overrides import IneffectiveOverride, IneffectiveReason, Orphan
from configdb_sync.sync.plan import Digests, DocumentChange, EnvironmentChange, NodePlan, Plan
from configdb_sync.watch.findings import exit_of_findings, of_error, of_plan, of_runs, settles

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DAYS = timedelta(days=30)
NOTHING = EnvironmentChange(False, "", ())


def leaves(*paths: str) -> tuple[LeafChange, ...]:
    return tuple(LeafChange(tuple(path.split(".")), "1", "2") for path in paths)


def change(
    name: str, upload: Sequence[str] = (), written: Sequence[str] = (), *, first: bool = False
) -> DocumentChange:
    digests = Digests(None, "a", "a", "b", "b")
    return DocumentChange(name, f"{name}.yaml", first, leaves(*upload), Write.NONE, leaves(*written), digests)


def plan(*nodes: NodePlan, environment: EnvironmentChange = NOTHING, **more: Any) -> Plan:
    return Plan(5, environment, nodes, **more)


def texts(found: Sequence[Finding]) -> list[str]:
    return [f"{one.kind} {one.node} {one.data_source} {one.count}: {one.text}" for one in found]


def test_a_document_that_differs_is_one_finding_with_its_keys() -> None:
    many = [f"key{number}" for number in range(1000)]
    found = of_plan(
        plan(
            NodePlan("3", changes=(change("astute", ["nova.debug"], ["nova.debug", "a"]), change("globals", many))),
            NodePlan("4", changes=(change("globals", first=True),), unchanged=("astute",)),
            NodePlan("5", changes=(change("globals"),)),
        )
    )
    assert texts(found) == [
        "drift 3 astute 2: changed on the node: nova.debug; to be written to the node: a",
        "drift 3 globals 1000: changed on the node: key0, key1, key10, key100, key101 and 995 more",
        "drift 4 globals 1: ConfigDB holds nothing of it yet",
        "drift 5 globals 1: the file is to be written anew",
    ]
    assert [len(one.changes) for one in found] == [3, 21, 0, 0]
    assert found[0].changes[0].startswith("on the node: ~ nova.debug: ")
    assert found[1].changes[-1] == "and 980 more"
    assert found[0] == replace(found[0], changes=()), "how it differs is no part of what it is"
    assert of_plan(plan(NodePlan("3"))) == []


def test_what_configdb_lacks_is_one_finding() -> None:
    (found,) = of_plan(plan(environment=EnvironmentChange(True, "admin/5", ("astute", "globals"))))
    assert texts([found]) == ["drift   2: ConfigDB lacks astute, globals"]


def test_problems_of_a_node_are_one_finding_and_withheld_changes_another() -> None:
    change = UnsafeChange("3", "globals", "globals.yaml", ("a", "b"), 3, "x", "y")
    problems = (UnsafeError("it would"), NodeError("no answer", node="3"), NodeError("more\nlines", node="3"))
    found = of_plan(plan(NodePlan("3", problems=problems, unsafe=(change,))))
    assert texts(found) == [
        "withheld 3 globals 2: would remove 2 of 3 keys: withheld until someone approves it",
        "node-failed 3  2: node 3: no answer (and 1 more)",
    ]


def test_overrides_that_ended_and_of_nodes_that_are_gone() -> None:
    ended = EndedOverride("globals", "/roles/x/nodes/3/", ("a", "b.c"), "2026-11-29T08:00:00+00:00", "ann", None)
    found = of_plan(plan(expired=(ended,), orphans=(Orphan("nodes", "9", ("astute", "globals")),)))
    assert [(one.kind.value, one.level, one.key, one.text) for one in found] == [
        (
            "override-ended",
            "/nodes/3/",
            '["a", "b.c"]',
            "the override ended on 2026-11-29 08:00 UTC; the next run removes it",
        ),
        ("override-without-effect", "/nodes/9/", "", "overrides of a node that is gone: astute, globals"),
    ]


def idle(level: str, why: IneffectiveReason = IneffectiveReason.HIDDEN, by: str | None = None) -> NodePlan:
    return NodePlan("1", ineffective=(IneffectiveOverride("globals", level, "a", why, by),))


def test_an_override_without_effect_is_found_where_all_its_nodes_say_so() -> None:
    other = NodePlan("2")
    own = "/roles/compute/nodes/1/"
    assert [one.level for one in of_plan(plan(idle(own), other), 2)] == ["/nodes/1/"]
    assert of_plan(plan(idle("/roles/compute/"), other), 2) == [], "others of the role may read it"
    assert of_plan(plan(idle("/"), other), 2) == [], "the other node reads it"
    assert [one.level for one in of_plan(plan(idle("/")), 2)] == ["/"]
    (found,) = of_plan(plan(idle(own, IneffectiveReason.OTHER_DATA_SOURCE, "astute")), 2)
    assert found.text == "the override has no effect: Puppet reads the key from astute"


def test_a_servers_list_says_it_of_any_level() -> None:
    keys = (KeyEffect("a", "none", "equal", 0), KeyEffect("b", "partial", "hidden", 1), KeyEffect("c", "full", None, 0))
    listed = [OverrideNote("globals", "/roles/compute/", 1, None, None, None, None, keys)]
    (found,) = of_plan(plan(idle("/roles/compute/")), 2, listed)
    assert (found.level, found.key) == ("/roles/compute/", "a")
    assert found.text == "the override has no effect: the value below it is the same"


def past(outcome: str, days: float = 1) -> PastRun:
    counts = dict.fromkeys(("exit", "nodes", "uploads", "writes", "problems", "bytes"))
    about = {"number": 7, "started": NOW - timedelta(days=days), "finished": None, "outcome": outcome, "digest": None}
    return PastRun("req-1", 5, "nodes", "ann", "h", 1, **about, **counts)  # type: ignore[arg-type]


def runs(newest: PastRun | None, last: dict[str, datetime] | None = None) -> list[str]:
    done = {node: (last or {}).get(node) for node in ("10", "2")}
    return [f"{one.kind} {one.node} {one.text}" for one in of_runs(5, newest, done, NOW, DAYS)]


def test_runs_that_failed_or_are_missing() -> None:
    fresh = {"2": NOW, "10": NOW}
    assert runs(None) == ["run-missing  no run was made yet"]
    assert runs(past("OK"), fresh) == []
    assert runs(past("DIED"), fresh) == ["run-failed  the last run req-1 of 2026-11-29 12:00 UTC ended with DIED"]
    assert runs(past("OK", 31)) == ["run-missing  the last run was on 2026-10-30 12:00 UTC"], "not one for each node"
    assert runs(past("OK"), {"2": NOW - timedelta(days=40)}) == [
        "node-without-run 2 the last run that did it was on 2026-10-21 12:00 UTC",
        "node-without-run 10 no run has done it yet",
    ]


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (UnavailableError("away"), FindingKind.CONFIGDB_AWAY, Exit.CONFIGDB),
        (BusError("away"), FindingKind.NODES_AWAY, Exit.NODES),
        (ProductError("odd"), FindingKind.NOT_WATCHED, Exit.PARTIAL),
    ],
)
def test_a_peer_that_is_away(error: ProductError, kind: FindingKind, code: Exit) -> None:
    found = of_error(5, error)
    assert (found.kind, found.text) == (kind, str(error))
    assert exit_of_findings([found], error) is code


def test_what_could_not_be_looked_at_is_not_settled() -> None:
    drift = Finding(5, FindingKind.DRIFT, "", node="3", data_source="globals")
    other = Finding(5, FindingKind.DRIFT, "", node="3", data_source="astute")
    idle_one = Finding(5, FindingKind.OVERRIDE_WITHOUT_EFFECT, "", key="a")
    away = Finding(5, FindingKind.NODES_AWAY, "")
    failed = Finding(5, FindingKind.RUN_FAILED, "")

    def settled(found: Plan | None) -> list[Finding]:
        return [one for one in (drift, other, idle_one, away, failed) if settles(found)(one)]

    assert settled(None) == [away, failed]
    assert settled(plan(NodePlan("3", problems=(NodeError("no answer", node="3"),)))) == [away, failed]
    partly = NodePlan("3", problems=(AmbiguousError("both changed", data_source="globals"),))
    assert settled(plan(partly)) == [other, idle_one, away, failed]
    assert settled(plan()) == [drift, other, idle_one, away, failed]


def test_the_exit_code_is_that_of_the_gravest() -> None:
    def code(*kinds: FindingKind) -> Exit:
        return exit_of_findings(Finding(5, kind, "") for kind in kinds)

    assert code() is Exit.OK
    assert code(FindingKind.DRIFT, FindingKind.RUN_MISSING) is Exit.DRIFT
    assert code(FindingKind.DRIFT, FindingKind.WITHHELD) is Exit.UNSAFE
    assert code(FindingKind.WITHHELD, FindingKind.NODE_FAILED) is Exit.PARTIAL


def test_an_identity_is_of_the_place_and_not_of_the_text() -> None:
    one = Finding(5, FindingKind.DRIFT, "a", node="3", data_source="globals")
    assert one.identity == Finding(5, FindingKind.DRIFT, "b", node="3", data_source="globals", count=9).identity
    assert one.identity != Finding(5, FindingKind.DRIFT, "a", node="globals", data_source="3").identity
