"""Who is who in Nailgun, and who can be worked on (U4, U14): pure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from configdb_sync.errors import NodeError
from configdb_sync.nailgun.model import NailgunNode
from configdb_sync.nailgun.roster import Roster, why_not

NODE = NailgunNode(46, "node-1.example.com", "ready", online=True, pending_deletion=False, roles=())
OTHER = replace(NODE, id=47, fqdn="node-47.example.com", status="deploying")
ROSTER = Roster("http://master:8000", 16, (NODE, OTHER))


@pytest.mark.parametrize("status", ["provisioned", "deploying", "ready", "error", "stopped"])
def test_a_node_can_be_worked_on_while_it_is_deployed(status: str) -> None:
    """Facts: while the task runs, nodes are ``deploying``: no filter on ``ready``."""
    assert why_not(replace(NODE, status=status)) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"status": "discover"}, "operating system"),
        ({"status": "provisioning"}, "operating system"),
        ({"status": "removing"}, "deleted"),
        ({"pending_deletion": True}, "deleted"),
        ({"online": False}, "offline"),
    ],
)
def test_what_keeps_a_node_from_being_worked_on(change: dict[str, object], reason: str) -> None:
    assert reason in (why_not(replace(NODE, **change)) or "")  # type: ignore[arg-type]


def test_a_node_is_found_by_its_fqdn_whatever_its_case() -> None:
    assert ROSTER.identities("NODE-1.Example.com") == ("46",)
    ROSTER.check("46", "node-1.EXAMPLE.com")


@pytest.mark.parametrize(
    ("uid", "fqdn", "reason"),
    [
        ("46", "node-9.example.com", "has no node"),
        ("46", "node-47.example.com", "as 47"),
        ("99", "node-1.example.com", "as 46"),
        ("46", None, "no fact fqdn"),
        ("master", "fuel.example.com", "Fuel Master"),
    ],
)
def test_facts_that_contradict_nailgun_are_an_error_of_that_node(uid: str, fqdn: str | None, reason: str) -> None:
    with pytest.raises(NodeError, match=reason):
        ROSTER.check(uid, fqdn)


def test_a_name_that_nailgun_has_twice_is_nobodys() -> None:
    twice = Roster("http://master:8000", 16, (NODE, replace(OTHER, fqdn=NODE.fqdn)))
    for uid in ("46", "47"):
        with pytest.raises(NodeError, match="46 and 47"):
            twice.check(uid, NODE.fqdn)


def test_statuses_by_identity() -> None:
    assert ROSTER.statuses == {"46": "ready", "47": "deploying"}
