"""Where a command finds the nodes: the sources that ``--from`` and ``--nailgun`` name, and the message bus."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from configdb_sync.cli.command_session import Session
from configdb_sync.errors import SettingsError
from configdb_sync.nailgun.roster import Roster, why_not
from configdb_sync.nodes.directory import DirectoryNodes
from configdb_sync.nodes.node_files import Nodes
from configdb_sync.settings import Settings
from configdb_sync.sync.node_work import UploadSource
from configdb_sync.sync.run_options import RunOptions

if TYPE_CHECKING:
    from configdb_sync.mcollective.bus_settings import BusSettings
    from configdb_sync.mcollective.client import BusRpc
    from configdb_sync.nailgun.client import NailgunClient

MCOLLECTIVE = "mcollective"
"""The value of ``--from`` for the nodes themselves. A folder of that name is ``./mcollective``."""

NAILGUN = "nailgun"
"""The value of ``--from`` for Nailgun's deployment data."""


@dataclass(frozen=True)
class NodeSource:
    """The nodes, what Nailgun knows about them, and where documents come from if not from the nodes' own files."""

    nodes: Nodes
    roster: Roster | None = None
    source: UploadSource | None = None


@contextmanager
def node_source(session: Session, place: str, options: RunOptions) -> Iterator[NodeSource]:
    """Yield the nodes of an environment from ``mcollective``, ``nailgun``, or a folder of node trees.

    If the settings name Nailgun, it says which nodes there are (U4). Raises ``SettingsError``, ``NailgunError``,
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
            # Late, as the bus and Nailgun below: runs without them start sooner.
            from configdb_sync.nodes.mcollective import MCollectiveNodes

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
            from configdb_sync.nodes.nailgun import KnownNodes

            # One bus has the nodes of all environments: only Nailgun tells them apart before they are read.
            known = KnownNodes(nodes, roster, others=place != MCOLLECTIVE)
            yield NodeSource(known, roster)


def _expected(roster: Roster, asked: tuple[str, ...]) -> tuple[str, ...]:
    """Return the identities that should answer: those asked for by ID or FQDN, else all that are ready."""
    wanted = {identity for name in asked for identity in (roster.identities(name) or (name,))}
    return tuple(
        node.identity for node in roster.nodes if why_not(node) is None and (not wanted or node.identity in wanted)
    )


def _from_nailgun(nailgun: NailgunClient | None, roster: Roster | None) -> NodeSource:
    if nailgun is None or roster is None:
        raise SettingsError("Nailgun's address is not set", way_out="give --nailgun https://<master>:8443")
    from configdb_sync.nodes.nailgun import NailgunNodes
    from configdb_sync.sync.nailgun_source import NailgunSource

    nodes = NailgunNodes(nailgun, roster)
    nodes.identities()
    return NodeSource(nodes, roster, NailgunSource(nodes))


def open_bus(settings: Settings) -> BusRpc:
    """Return the bus that the settings name; it connects on first use. Raises ``SettingsError``."""
    from configdb_sync.mcollective.client import BusRpc

    return BusRpc(bus_settings(settings))


def bus_settings(settings: Settings) -> BusSettings:
    """Return the settings of the bus: MCollective's own, with the limits of ours.

    Raises ``SettingsError``, also for unusable TLS files: a retry would not help.
    """
    from configdb_sync.mcollective import transport
    from configdb_sync.mcollective.bus_settings import Bounds, read_config

    settings.file("mco_config")
    bounds = Bounds(connect=settings.mco_connect_limit, attempts=settings.mco_attempts)
    # A replaced letter does not matter: the settings on a Fuel master set the identity.
    identity = re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:200] or "localhost"
    found = read_config(settings.mco_config, os.environ, identity=identity, uid=os.getuid(), bounds=bounds)
    for number, host in enumerate(found.hosts, 1):
        try:
            if host.tls is not None:
                transport.tls_context(host.tls)
        except OSError as error:
            raise SettingsError(
                f"{settings.mco_config}: plugin.rabbitmq.pool.{number}.ssl: {error}",
                way_out="correct the file that it names, or the setting",
            ) from None
    return found
