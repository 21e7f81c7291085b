"""An environment's nodes as Nailgun lists them: names, states, and which of them can be worked on now. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from configdb_sync.errors import NodeError
from configdb_sync.nailgun.model import MASTER, NailgunNode

_NOT_YET = {"discover": "it has no operating system yet", "provisioning": "its operating system is being installed"}


def why_not(node: NailgunNode) -> str | None:
    """Return why a node can't be worked on now, None if it can.

    While a deployment runs its nodes are ``deploying`` or ``provisioned``, so ``ready`` isn't asked for.
    """
    if node.pending_deletion:
        return "it is to be deleted"
    if node.status == "removing":
        return "it is being deleted"
    if node.status in _NOT_YET:
        return _NOT_YET[node.status]
    return None if node.online else "it is offline"


@dataclass(frozen=True)
class Roster:
    """The nodes of environment ``environment``, by id, from the Nailgun at ``source``."""

    source: str
    environment: int
    nodes: Sequence[NailgunNode]

    @cached_property
    def by_identity(self) -> Mapping[str, NailgunNode]:
        """The nodes by their ids as text."""
        return {node.identity: node for node in self.nodes}

    @cached_property
    def _by_fqdn(self) -> Mapping[str, tuple[NailgunNode, ...]]:
        found: dict[str, tuple[NailgunNode, ...]] = {}
        for node in self.nodes:
            if node.fqdn is not None:
                name = node.fqdn.lower()
                found[name] = (*found.get(name, ()), node)
        return found

    @property
    def statuses(self) -> Mapping[str, str]:
        """Nailgun's status of each node, by identity (U14)."""
        return {node.identity: node.status for node in self.nodes}

    def identities(self, fqdn: str) -> tuple[str, ...]:
        """Return the identities of the nodes of that name: none, one, or several where Nailgun contradicts itself."""
        return tuple(node.identity for node in self._by_fqdn.get(fqdn.lower(), ()))

    def check(self, uid: str, fqdn: str | None) -> None:
        """Raise ``NodeError`` unless Nailgun knows a node of this name under just this id (U4)."""
        where = f"environment {self.environment} of Nailgun {self.source}"
        if uid == MASTER:
            raise NodeError("it is the Fuel Master, which is no node", way_out="take it out of what is synchronised")
        if fqdn is None:
            raise NodeError("it has no fact fqdn, so it can't be found in Nailgun", way_out="deploy the node")
        found = self.identities(fqdn)
        if not found:
            raise NodeError(
                f"{where} has no node {fqdn}", way_out="see `fuel node`; is the node another environment's?"
            )
        if found != (uid,):
            ids = " and ".join(found)
            raise NodeError(
                f"{where} knows {fqdn} as {ids}, its facts say uid {uid}",
                way_out="nothing of it was touched; are these the files of a node that was replaced?",
            )
