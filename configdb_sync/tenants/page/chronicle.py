"""What runs, nodes and documents are told from, beside the registry."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

from configdb_sync.addresses import Addresses
from configdb_sync.clock import Clock
from configdb_sync.database import Database
from configdb_sync.masking import Masker
from configdb_sync.names import LevelPath
from configdb_sync.setting_values import DEFAULT_LEVELS, Levels
from configdb_sync.sync.past_runs import Alive, PastRuns
from configdb_sync.sync.versions import VersionStore
from configdb_sync.tenants.outbox import there
from configdb_sync.tenants.page.kept import Kept


@dataclass(frozen=True)
class Chronicle:
    """The product's own records. ``levels``: the hierarchy's levels with their templates, as the settings have them."""

    database: Database
    past: PastRuns
    versions: VersionStore
    masker: Masker = field(repr=False)
    levels: Levels = DEFAULT_LEVELS
    kept: Kept = field(default_factory=Kept, repr=False, compare=False)

    def level_of(self, environment: int, node: str, fqdn: str | None) -> LevelPath | None:
        """Return the level path of a node, None where its template asks for facts that aren't known here."""
        return Addresses(environment, self.levels).of_node(node, fqdn)


def make(database: Database, versions: VersionStore, masker: Masker, levels: Levels, clock: Clock) -> Chronicle:
    """Return the chronicle that a database holds; its tables are up to date."""
    past = PastRuns(database, clock, Alive(socket.gethostname(), there))
    return Chronicle(database, past, versions, masker, levels)
