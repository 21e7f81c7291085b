"""Where nodes come from, as ``--from`` and ``--nailgun`` say, and what a run does differently there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from configdb_sync.cli.options import Session
from configdb_sync.errors import SettingsError
from configdb_sync.nailgun.roster import Roster
from configdb_sync.nodes.directory import DirectoryNodes
from configdb_sync.nodes.known import KnownNodes
from configdb_sync.nodes.model import Nodes
from configdb_sync.sync.carry_out import Executor
from configdb_sync.sync.examine import Examiner

NAILGUN = "nailgun"


@dataclass(frozen=True)
class NodeSource:
    """The nodes, what Nailgun knows of them (None without Nailgun), and what examines and works on them."""

    nodes: Nodes
    roster: Roster | None = None
    examiner: Callable[..., Examiner] = Examiner
    executor: Callable[..., Executor] = Executor


@contextmanager
def node_source(session: Session, place: str, environment: int) -> Iterator[NodeSource]:
    """Give the nodes of an environment at a place: a folder of trees, or ``nailgun``.

    With Nailgun set, it is asked which nodes there are (U4). Raises ``SettingsError``, ``NailgunError``,
    ``AccessError``, ``EnvironmentMismatchError`` if Nailgun has no such environment.
    """
    nailgun = session.nailgun()
    if nailgun is None:
        if place == NAILGUN:
            raise SettingsError("where Nailgun is isn't known", way_out="give --nailgun https://<master>:8443")
        yield NodeSource(_directory(place, environment))
        return
    with nailgun:
        directory = None if place == NAILGUN else _directory(place, environment)
        roster = Roster(nailgun.base, environment, nailgun.nodes(environment))
        if directory is not None:
            yield NodeSource(KnownNodes(directory, roster), roster, partial(Examiner, roster=roster))
            return
        # Late: few runs are from here.
        from configdb_sync.nodes.nailgun import NailgunNodes
        from configdb_sync.sync.nailgun_run import NailgunExaminer, NailgunExecutor

        nodes = NailgunNodes(nailgun, roster)
        yield NodeSource(nodes, roster, partial(NailgunExaminer, roster=roster, nodes=nodes), NailgunExecutor)


def _directory(place: str, environment: int) -> Nodes:
    nodes = DirectoryNodes(Path(place), env=environment)
    nodes.identities()
    return nodes
