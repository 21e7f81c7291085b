"""What Nailgun knows of nodes: their deployment data as files (U21), and which of them can't be worked on now (U4).

The data of a node is one file, ``astute.yaml``, as 9.x uploads it, in JSON. Read only. ``sync.nailgun_source`` decides
which data sources of Fuel 10's layout it belongs to.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from configdb_sync.errors import NodeError, NodeFileError
from configdb_sync.jsonvalues import Json, dumps, value_digest
from configdb_sync.nailgun.client import NailgunClient
from configdb_sync.nailgun.roster import Roster, why_not
from configdb_sync.names import natural_key
from configdb_sync.nodes.node_files import NodeFile, NodeLeftOut, NodeRead, Nodes

FILE = "astute.yaml"
PLACE = "nailgun"

_BATCH = 20
"""Nodes asked for at once: the data of 20 of 200 nodes is about 10 MB, and the work that Nailgun does for each call is
most of the time that it takes."""

Data = Mapping[str, Json]


class NailgunNodes:
    """The nodes of an environment (``Nodes`` of ``node_files``) in the deployment data of ``client``.

    All nodes of ``roster`` that are not to be deleted, also those that can't be reached: Nailgun has their data. Values
    that several nodes share are held once.
    """

    def __init__(self, client: NailgunClient, roster: Roster) -> None:
        self._client = client
        self._roster = roster

    @property
    def place(self) -> str:
        """The same for any Nailgun: nothing is remembered of these nodes but their names."""
        return PLACE

    def identities(self) -> Sequence[str]:
        """Return the ids, ``2`` before ``10``. Raises ``NodeError`` if there is none."""
        found = [
            node.identity for node in self._roster.nodes if not node.pending_deletion and node.status != "removing"
        ]
        if not found:
            raise NodeError(
                f"environment {self._roster.environment} of Nailgun {self._roster.source} has no nodes",
                way_out="add nodes to it first",
            )
        return found

    @cached_property
    def data(self) -> Mapping[str, Data]:
        """All nodes' deployment data, by identity; asked for once. Raises as ``NailgunClient.deployment`` does."""
        held: dict[str, Json] = {}
        found: dict[str, Data] = {}
        identities = self.identities()
        for start in range(0, len(identities), _BATCH):
            part = self._client.deployment(self._roster.environment, identities[start : start + _BATCH])
            for identity, whole in part.items():
                found[identity] = {key: held.setdefault(value_digest(value), value) for key, value in whole.items()}
        return found

    def read(self, identities: Sequence[str]) -> Iterator[NodeRead | NodeError]:
        """Yield each node's data as its one file."""
        for identity in identities:
            whole = self.data.get(identity)
            if whole is None:
                yield NodeError("Nailgun has no deployment data of it", way_out="give it a role first", node=identity)
            else:
                yield NodeRead(identity, {FILE: document_file(FILE, whole)}, {})

    def write(self, identity: str, path: str, content: bytes, expected: NodeFile | None) -> NodeFile:
        """Raise ``NodeFileError``: nothing is written back (U21)."""
        raise NodeFileError("Nailgun's data isn't written to", node=identity, file=path)

    def remove(self, identity: str, expected: NodeFile) -> None:
        """Raise ``NodeFileError``."""
        raise NodeFileError("Nailgun's data isn't written to", node=identity, file=expected.path)


def document_file(path: str, document: Data) -> NodeFile:
    """Return a document as the file that it would be, in JSON. Its digest doesn't depend on the order of keys."""
    content = dumps(dict(document)).encode("ascii")
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode("ascii")).hexdigest()
    return NodeFile(path, f"/etc/hiera/{path}", content, digest, 0o640, 0, 0)


class KnownNodes:
    """The nodes of ``inner`` (``Nodes`` of ``node_files``), and those that only Nailgun has, as left out.

    ``others``: read also the nodes that Nailgun doesn't know, since only their own facts identify them. Otherwise they
    count as another environment's and are ignored.
    """

    def __init__(self, inner: Nodes, roster: Roster, *, others: bool = True) -> None:
        self._inner = inner
        self._roster = roster
        self._others = others

    @property
    def place(self) -> str:
        """The place of the nodes themselves."""
        return self._inner.place

    @cached_property
    def _there(self) -> frozenset[str]:
        found = frozenset(self._inner.identities())
        return found if self._others else found & self._roster.by_identity.keys()

    def identities(self) -> Sequence[str]:
        """Return the identities of all nodes of ``inner`` and of Nailgun, ``2`` before ``10``."""
        return sorted({*self._there, *self._roster.by_identity}, key=natural_key)

    def read(self, identities: Sequence[str]) -> Iterator[NodeRead | NodeError]:
        """Yield the nodes that are left out, then the others as they are read."""
        wanted = []
        for identity in identities:
            left_out = self._left_out(identity, there=identity in self._there)
            if left_out is None:
                wanted.append(identity)
            else:
                yield left_out
        if wanted:
            yield from self._inner.read(wanted)

    def _left_out(self, identity: str, *, there: bool) -> NodeLeftOut | None:
        known = self._roster.by_identity.get(identity)
        if known is None:
            return None
        why = why_not(known)
        if why is not None:
            why = f"left out: Nailgun says that {why} (status {known.status})"
        elif not there:
            why = f"left out: Nailgun has it, but it isn't at {self.place}"
        return None if why is None else NodeLeftOut(identity, {}, {}, why, known.fqdn)

    def write(self, identity: str, path: str, content: bytes, expected: NodeFile | None) -> NodeFile:
        """See ``Nodes.write``."""
        return self._inner.write(identity, path, content, expected)

    def remove(self, identity: str, expected: NodeFile) -> None:
        """See ``Nodes.remove``."""
        self._inner.remove(identity, expected)
