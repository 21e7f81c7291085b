"""What runs, nodes and documents are told from, beside the registry."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from configdb_sync.addresses import Addresses
from configdb_sync.clock import Clock
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.errors import ProductError
from configdb_sync.masking import Masker
from configdb_sync.setting_values import DEFAULT_LEVELS, Levels
from configdb_sync.store.database import Database
from configdb_sync.store.runs import Alive, PastRuns
from configdb_sync.store.versions import VersionStore
from configdb_sync.sync.orders import addresses_of
from configdb_sync.tenants.outbox import there
from configdb_sync.tenants.page.kept import Kept


@dataclass(frozen=True)
class Chronicle:
    """The product's own records. ``levels``: the hierarchy's levels with their templates, as the settings have them:
    for environments that note none."""

    database: Database
    past: PastRuns
    versions: VersionStore
    masker: Masker = field(repr=False)
    levels: Levels = DEFAULT_LEVELS
    kept: Kept = field(default_factory=Kept, repr=False, compare=False)

    def addresses(self, environment: int, client: Callable[[], ConfigDBClient] | None, stamp: object) -> Addresses:
        """Return where an environment's nodes are in ConfigDB: by what runs noted there, else by the settings.

        So it is too while ConfigDB can't be asked. ``stamp`` changes when a run may have noted something.
        """
        if client is not None:
            with contextlib.suppress(ProductError):
                found: Addresses = self.kept(
                    ("levels", environment), stamp, lambda: addresses_of(client(), environment, self.levels)
                )
                return found
        return Addresses(environment, self.levels)


def make(database: Database, versions: VersionStore, masker: Masker, levels: Levels, clock: Clock) -> Chronicle:
    """Return the chronicle that a database holds; its tables are up to date."""
    past = PastRuns(database, clock, Alive(socket.gethostname(), there))
    return Chronicle(database, past, versions, masker, levels)
