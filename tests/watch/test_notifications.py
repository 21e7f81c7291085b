"""U29: the Fuel UI is told once of each finding, with a login; what is settled is marked as read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from werkzeug.wrappers import Response

from configdb_sync.exits import Exit
from configdb_sync.store.findings import Finding, FindingKind
from configdb_sync.watch.notifications import message
from tests.nailgun.conftest import make_small
from tests.support.nailgun import Nailgun, at_work
from tests.support.product import Product
from tests.watch.conftest import by_hand

DRIFT = Finding(5, FindingKind.DRIFT, "changed on the node: debug", node="3", data_source="globals", count=1000)


@pytest.fixture
def nailgun() -> Iterator[Nailgun]:
    """Environment 5 with the two nodes."""
    found = make_small()
    found.nodes[:] = found.nodes[:2]
    with at_work(found):
        yield found


def told(nailgun: Nailgun) -> list[str]:
    return [f"{one['status']} {one['cluster_id']} {one['topic']}: {one['message']}" for one in nailgun.notifications]


def look(product: Product, trees: Path, nailgun: Nailgun, *more: object) -> Exit:
    return Exit(product("watch", "--env", 5, "--from", trees, "--nailgun", nailgun.url, *more).code)


SAID = "5 warning: ConfigDB: settings differ from ConfigDB: node 1 (globals). `configdb-sync watch --last` shows all."


def test_once_for_each_finding_and_read_when_it_is_settled(synced: Product, trees: Path, nailgun: Nailgun) -> None:
    assert look(synced, trees, nailgun) is Exit.OK
    assert nailgun.notifications == []
    by_hand(trees)
    assert [look(synced, trees, nailgun) for _ in range(3)] == [Exit.DRIFT] * 3
    assert told(nailgun) == [f"unread {SAID}"]
    nailgun.notifications[0]["status"] = "read"
    look(synced, trees, nailgun)
    assert told(nailgun) == [f"read {SAID}"], "someone read it; it isn't told again"
    nailgun.notifications[0]["status"] = "unread"
    assert synced("sync", "--env", 5, "--from", trees).code == Exit.OK
    assert look(synced, trees, nailgun) is Exit.OK
    assert told(nailgun) == [f"read {SAID}"]
    path = by_hand(trees)
    path.write_text(path.read_text().replace("use_syslog: false", "use_syslog: maybe"))
    look(synced, trees, nailgun)
    assert told(nailgun) == [f"read {SAID}", f"unread {SAID}"], "it is another change"


def test_a_nailgun_that_refuses_is_told_later(synced: Product, trees: Path, nailgun: Nailgun) -> None:
    by_hand(trees)
    nailgun.faults["/notifications"] = lambda _: Response("no", 500)
    assert look(synced, trees, nailgun) is Exit.DRIFT
    nailgun.faults.clear()
    assert look(synced, trees, nailgun, "--no-notify") is Exit.DRIFT
    assert nailgun.notifications == []
    assert look(synced, trees, nailgun) is Exit.DRIFT
    assert told(nailgun) == [f"unread {SAID}"]
    nailgun.notifications.clear()
    assert synced("sync", "--env", 5, "--from", trees).code == Exit.OK
    assert look(synced, trees, nailgun) is Exit.OK, "one that someone deleted can't be marked"


def test_the_dashboards_link_says_how_many_there_are(synced: Product, trees: Path, nailgun: Nailgun) -> None:
    page = ("--page-url", "https://10.20.0.2:8083")
    by_hand(trees)
    look(synced, trees, nailgun, *page)
    (link,) = nailgun.links
    assert link["description"].endswith(". 1 finding of the watch")
    assert synced("dashboard-link", "--env", 5, "--nailgun", nailgun.url, *page).code == Exit.OK
    assert link["description"].endswith(". 1 finding of the watch"), "who doesn't know the number leaves it"
    assert synced("sync", "--env", 5, "--from", trees).code == Exit.OK
    look(synced, trees, nailgun, *page)
    assert "watch" not in link["description"]


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ([DRIFT, replace(DRIFT, data_source="astute")], "settings differ from ConfigDB: node 3 (globals, astute)."),
        (
            [replace(DRIFT, node=str(number)) for number in range(1000)],
            "settings differ from ConfigDB: node 0, node 1, node 2, node 3, node 4 and 995 more.",
        ),
        (
            [Finding(5, FindingKind.NODE_FAILED, "no answer", node="3")],
            "nodes cannot be worked on: node 3 (no answer).",
        ),
        ([Finding(5, FindingKind.RUN_FAILED, "the last run died")], "the last run failed: the last run died."),
        (
            [Finding(5, FindingKind.OVERRIDE_ENDED, "it ended", data_source="globals", key="a.b", level="/nodes/3/")],
            "overrides have ended and are still there: globals a.b.",
        ),
    ],
)
def test_a_text_names_nodes_or_keys_and_no_end_of_them(found: list[Finding], said: str) -> None:
    assert message(found[0].kind, found) == f"ConfigDB: {said} `configdb-sync watch --last` shows all."


@pytest.mark.parametrize("kind", FindingKind)
def test_every_kind_has_a_text(kind: FindingKind) -> None:
    assert message(kind, [Finding(5, kind, "x" * 5000)]).endswith("shows all.")
    assert len(message(kind, [Finding(5, kind, "x" * 5000)])) < 300
