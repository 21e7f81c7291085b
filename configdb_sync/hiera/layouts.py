"""The two layouts of ``/etc/hiera`` (Fuel 9 and 10) and their default data sources (U7, F4).

The hierarchies are those of the ``hiera.yaml`` of Fuel 9.0 to 11. Which of the two holds for a node is told
by its base files alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum

from configdb_sync.errors import NodeError
from configdb_sync.hiera.datasource import DataSource

_RESTORE = "deploy the node, or restore the file"


class Layout(Enum):
    """A layout of ``/etc/hiera``; its value is the base files, the one that Hiera asks first coming first."""

    FUEL9 = ("astute.yaml",)
    FUEL10 = ("node.yaml", "cluster.yaml")

    @property
    def base_files(self) -> tuple[str, ...]:
        """The files that hold the facts, the one that wins first."""
        return tuple(self.value)


def layout_of(paths: Collection[str]) -> Layout:
    """Return the layout of a node with the files ``paths`` (below ``/etc/hiera``); ``NodeError`` if none.

    Files that are there but can't be read count too: which layout it is doesn't depend on that.
    ``astute.yaml`` decides where both are: no release that has the two files of Fuel 10 makes an
    ``/etc/hiera/astute.yaml``, while nothing keeps a Fuel 9 plugin from writing a ``node.yaml``.
    """
    for layout in Layout:
        if all(path in paths for path in layout.base_files):
            return layout
    there = [path for path in Layout.FUEL10.base_files if path in paths]
    if there:
        missing = next(path for path in Layout.FUEL10.base_files if path not in paths)
        raise NodeError(f"has {there[0]} but no {missing} in /etc/hiera", way_out=_RESTORE)
    raise NodeError(
        "has no base file in /etc/hiera: neither astute.yaml nor node.yaml and cluster.yaml", way_out=_RESTORE
    )


def is_foreign(path: str, layout: Layout) -> bool:
    """Tell whether a new file at ``path`` would make a node of this layout pass for one of another."""
    return layout_of({*layout.base_files, path}) is not layout


def _hierarchy(*base: str) -> tuple[DataSource, ...]:
    entries: tuple[str | tuple[str, str], ...] = (
        "plugins/*",
        ("override/node", "override/node/%{fqdn}"),
        "override/class/*",
        "override/module/*",
        "override/plugins",
        "override/common",
        "override/configuration",
        ("override/configuration/node", "override/configuration/%{fqdn}"),
        "override/configuration/role",
        "override/configuration/cluster",
        "override/configuration/default_route",
        "override/configuration/remove_ovs_usage",
        ("override/hostname", "override/%{hostname}"),
        "class/*",
        "module/*",
        "deleted_nodes",
        "nodes",
        "old_admin_user",
        "globals",
        *base,
    )
    return tuple(DataSource(*entry) if isinstance(entry, tuple) else DataSource(entry, entry) for entry in entries)


DEFAULT: Mapping[Layout, tuple[DataSource, ...]] = {
    Layout.FUEL9: _hierarchy("astute"),
    Layout.FUEL10: _hierarchy("node", "cluster"),
}
"""The data sources of each layout, in Hiera's order.

Two are the source document's: ``override/configuration`` (on nodes a folder of that name) and
``override/hostname`` for its ``override/<hostname>.yaml``.
"""
