"""What a run is asked to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from configdb_sync.addresses import Addresses
from configdb_sync.hiera.data_source_config import check_entries
from configdb_sync.setting_values import DEFAULT_LEVELS, Levels
from configdb_sync.sync.decide import Accept


class Stage(Enum):
    """The plugin's three tasks: before the deployment, in it, after it."""

    PRE = "pre"
    MAIN = "main"
    POST = "post"


@dataclass(frozen=True)
class RunOptions:
    """What a run is to do, apart from the peers it works with.

    ``environment`` is the number that the facts must give (U4). ``nodes``: identities or FQDNs to work on, empty for
    all. ``levels``: the hierarchy, outermost first, as (level name, template with placeholders); the last one is the
    node's. ``data_sources``: entries that add to the default list (U7). ``parallel``: nodes worked on at once.
    ``unsafe_share``: the share of its keys (0 to 1) that a document may lose in one run. ``allowed_unsafe``: digest of
    the unsafe changes to let through (``--force``). ``plan_digest``: digest of the plan that alone may be carried out.
    ``stage``: which of Fuel's three tasks this is, None for a run by hand.
    """

    environment: int
    nodes: tuple[str, ...] = ()
    tenant: str = "admin"
    levels: Levels = DEFAULT_LEVELS
    data_sources: tuple[str | Mapping[str, Any], ...] = ()
    parallel: int = 4
    accept: Accept = Accept.NEITHER
    unsafe_share: float = 0.5
    allowed_unsafe: str | None = None
    plan_digest: str | None = None
    stage: Stage | None = None

    def check(self) -> None:
        """Raise ``SettingsError`` for what is wrong whatever the nodes are: each of them would say so else."""
        check_entries(self.data_sources)
        self.addresses.check()

    def asks_for(self, identity: str, fqdn: str | None) -> bool:
        """Whether the run is to work on a node of this identity and FQDN."""
        return not self.nodes or not {identity, fqdn}.isdisjoint(self.nodes)

    @cached_property
    def addresses(self) -> Addresses:
        """Where the environment's nodes are in ConfigDB."""
        return Addresses(self.environment, self.levels)
