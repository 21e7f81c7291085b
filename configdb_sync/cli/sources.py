"""Where nodes come from, as ``--from`` and ``--nailgun`` say, and what a run does differently there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from configdb_sync.cli.bus import open_bus
from configdb_sync.cli.options import Session
from configdb_sync.errors import SettingsError
from configdb_sync.nailgun.client import NailgunClient
from configdb_sync.nailgun.roster import Roster, why_not
from configdb_sync.nodes.directory import DirectoryNodes
from configdb_sync.nodes.mcollective import MCollectiveNodes
from configdb_sync.nodes.nailgun import KnownNodes
from configdb_sync.nodes.node_files import Nodes
from configdb_sync.sync.apply import Executor
from configdb_sync.sync.node import Examiner
from configdb_sync.sync.run_options import RunOptions

MCOLLECTIVE = "mcollective"
"""What ``--from`` says for the nodes themselves. A folder of that name is ``./mcollective``."""

NAILGUN = "nailgun"
"""What ``--from`` says for Nailgun's deployment data."""


@dataclass(frozen=True)
class NodeSource:
    """The nodes, what Nailgun knows of them (None without Nailgun), and what examines and works on them."""

    nodes: Nodes
    roster: Roster | None = None
    examiner: Callable[..., Examiner] = Examiner
    executor: Callable[..., Executor] = Executor


@contextmanager
def node_source(session: Session, place: str, options: RunOptions) -> Iterator[NodeSource]:
    """Give the nodes of an environment at a place: ``mcollective``, ``nailgun``, or a folder of trees.

    With Nailgun set, it is asked which nodes there are (U4). Raises ``SettingsError``, ``NailgunError``,
    ``AccessError``, ``EnvironmentMismatchError`` if Nailgun has no such environment.
    """
    with ExitStack() as stack:
        nailgun = session.nailgun()
        roster = None
        if nailgun is not None:
            stack.enter_context(nailgun)
            roster = Roster(nailgun.base, options.environment, nailgun.nodes(options.environment))
        if place == NAILGUN:
            yield _from_nailgun(nailgun, roster)
            return
        if place == MCOLLECTIVE:
            bus = stack.enter_context(open_bus(session.settings))
            nodes: Nodes = MCollectiveNodes(
                bus,
                env=options.environment,
                writable=session.settings.writable,
                timeout=session.settings.mco_timeout,
                expected=options.nodes if roster is None else _expected(roster, options.nodes),
            )
        else:
            nodes = DirectoryNodes(Path(place), env=options.environment, writable=session.settings.writable)
            nodes.identities()
        if roster is None:
            yield NodeSource(nodes)
        else:
            # Nodes of all environments are on one bus, and only Nailgun tells them apart before they are read.
            known = KnownNodes(nodes, roster, others=place != MCOLLECTIVE)
            yield NodeSource(known, roster, partial(Examiner, roster=roster))


def _expected(roster: Roster, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Return the identities that should answer: those asked for, by id or FQDN, else all that can be worked on."""
    wanted = {identity for name in asked for identity in (roster.identities(name) or (name,))}
    return tuple(
        node.identity for node in roster.nodes if why_not(node) is None and (not wanted or node.identity in wanted)
    )


def _from_nailgun(nailgun: NailgunClient | None, roster: Roster | None) -> NodeSource:
    if nailgun is None or roster is None:
        raise SettingsError("where Nailgun is isn't known", way_out="give --nailgun https://<master>:8443")
    # Late: few runs are from here.
    from configdb_sync.nodes.nailgun import NailgunNodes
    from configdb_sync.sync.nailgun_source import NailgunExaminer, NailgunExecutor

    nodes = NailgunNodes(nailgun, roster)
    nodes.identities()
    return NodeSource(nodes, roster, partial(NailgunExaminer, roster=roster, nodes=nodes), NailgunExecutor)
