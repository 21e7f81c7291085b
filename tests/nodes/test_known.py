"""Nodes seen with what Nailgun knows of them (U4): pure, over a place that counts what it is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from configdb_sync.errors import NodeError, NodeFileError
from configdb_sync.nailgun.model import NailgunNode
from configdb_sync.nailgun.roster import Roster
from configdb_sync.nodes.nailgun import KnownNodes
from configdb_sync.nodes.node_files import NodeFile, NodeLeftOut, NodeRead

NODE = NailgunNode(1, "node-1.x", "ready", online=True, pending_deletion=False, roles=())
ROSTER = Roster(
    "http://master:8000",
    5,
    (NODE, replace(NODE, id=2, fqdn="node-2.x", online=False), replace(NODE, id=10, fqdn="node-10.x")),
)


@dataclass
class Place:
    """Nodes 1, 2 and 30 (of another environment)."""

    place: str = "somewhere"
    asked: int = 0
    reads: list[str] = field(default_factory=list)

    def identities(self) -> Sequence[str]:
        self.asked += 1
        return ["1", "2", "30"]

    def read(self, identities: Sequence[str]) -> Iterator[NodeRead | NodeError]:
        self.reads += identities
        yield from (NodeRead(identity, {}, {}) for identity in identities)

    def write(self, identity: str, path: str, content: bytes, expected: NodeFile | None) -> NodeFile:
        raise NodeFileError(f"{identity} {path}")

    def remove(self, identity: str, expected: NodeFile) -> None:
        raise NodeFileError(f"{identity} {expected.path}")


def test_a_folder_with_nodes_that_nailgun_does_not_know() -> None:
    place = Place()
    known = KnownNodes(place, ROSTER)
    assert known.place == "somewhere"
    assert known.identities() == ["1", "2", "10", "30"]
    found = list(known.read(known.identities()))
    assert [type(one).__name__ for one in found] == ["NodeLeftOut", "NodeLeftOut", "NodeRead", "NodeRead"]
    left_out = {one.identity: one.why for one in found if isinstance(one, NodeLeftOut)}
    assert "offline" in left_out["2"]
    assert "isn't at somewhere" in left_out["10"]
    assert place.reads == ["1", "30"]
    assert place.asked == 1  # asking may take as long as the bus's patience


def test_a_bus_with_another_environments_nodes() -> None:
    place = Place()
    known = KnownNodes(place, ROSTER, others=False)
    assert known.identities() == ["1", "2", "10"]
    list(known.read(known.identities()))
    assert place.reads == ["1"]


def test_nobody_to_read_asks_nobody() -> None:
    place = Place()
    known = KnownNodes(place, Roster("x", 5, ROSTER.nodes[1:2]), others=False)
    assert [one.identity for one in known.read(known.identities()) if isinstance(one, NodeRead)] == ["2"]
    assert place.reads == []
