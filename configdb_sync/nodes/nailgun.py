"""Nodes as Nailgun's deployment data gives them: what it would upload to them now (U21). Read only.

Each node has one file, ``astute.yaml``: all its data, as 9.x uploads it, in JSON. Which data sources that is in the
layout of Fuel 10 is not told here (``sync.nailgun_placing``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

from configdb_sync.errors import NodeError, NodeFileError
from configdb_sync.jsonvalues import Json, dumps, value_digest
from configdb_sync.nailgun.client import NailgunClient
from configdb_sync.nailgun.roster import Roster
from configdb_sync.nodes.model import NodeFile, NodeRead

FILE = "astute.yaml"
PLACE = "nailgun"

_BATCH = 20
"""Nodes asked for at once: the data of 20 of 200 nodes is about 10 MB, and the work that Nailgun does for each call is
most of the time that it takes."""

Data = Mapping[str, Json]


class NailgunNodes:
    """The nodes of an environment (``Nodes`` of ``nodes.model``) in the deployment data of ``client``.

    All nodes of ``roster`` that are not to be deleted, also those that can't be reached: Nailgun has their data. What
    is the same on several nodes is held once.
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
                yield NodeRead(identity, {FILE: as_file(FILE, whole)}, {})

    def write(self, identity: str, path: str, content: bytes, expected: NodeFile | None) -> NodeFile:
        """Raise ``NodeFileError``: nothing is written back (U21)."""
        raise NodeFileError("Nailgun's data isn't written to", node=identity, file=path)

    def remove(self, identity: str, expected: NodeFile) -> None:
        """Raise ``NodeFileError``."""
        raise NodeFileError("Nailgun's data isn't written to", node=identity, file=expected.path)


def as_file(path: str, document: Data) -> NodeFile:
    """Return a document as the file that it would be, in JSON. Its digest doesn't depend on the order of keys."""
    content = dumps(dict(document)).encode("ascii")
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode("ascii")).hexdigest()
    return NodeFile(path, f"/etc/hiera/{path}", content, digest, 0o640, 0, 0)
