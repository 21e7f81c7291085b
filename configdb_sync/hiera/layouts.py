"""The two layouts of ``/etc/hiera`` (Fuel 9 and 10), and who a node is by its base files (U4, U7, F4).

The node's base files alone tell which of the two it has.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum

from configdb_sync.errors import NodeError
from configdb_sync.hiera.path_template import has_odd_characters
from configdb_sync.jsonvalues import Document, Json
from configdb_sync.names import NAME_LIMIT

_RESTORE = "deploy the node, or restore the file"


class Layout(Enum):
    """A layout of ``/etc/hiera``; its value is the base files in Hiera's order."""

    FUEL9 = ("astute.yaml",)
    FUEL10 = ("node.yaml", "cluster.yaml")

    @property
    def base_files(self) -> tuple[str, ...]:
        """The files that hold the facts, the one that wins first."""
        return tuple(self.value)


def layout_of(paths: Collection[str]) -> Layout:
    """Return the layout of a node with the files ``paths`` (below ``/etc/hiera``); ``NodeError`` if none.

    Files that can't be read count too. ``astute.yaml`` decides if the base files of both are there: no release with
    the two files of Fuel 10 makes an ``/etc/hiera/astute.yaml``, while a Fuel 9 plugin may write a ``node.yaml``.
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
    """Tell whether a new file at ``path`` would give a node of this layout the other one."""
    return layout_of({*layout.base_files, path}) is not layout


_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_LOOK = "look at the file: is it one that Fuel made?"


@dataclass(frozen=True)
class NodeFacts:
    """A node's identity by its own files. Placeholders are looked up in ``scope``, which holds secrets."""

    uid: str
    environment: int
    fqdn: str | None
    hostname: str | None
    scope: Mapping[str, Json] = field(repr=False, compare=False)


def facts_of(layout: Layout, documents: Mapping[str, Document]) -> NodeFacts:
    """Return a node's facts from its base documents by path (``astute.yaml``, or the two of Fuel 10).

    ``deployment_id`` and ``uid`` may each be an integer or text. ``fqdn`` and ``hostname`` are texts that may
    be missing; ``hostname`` is then the first label of ``fqdn``, as in Facter. Raises ``NodeError`` if a
    base document, ``deployment_id`` or ``uid`` is missing, or one of the four isn't what it should be.
    """
    scope: dict[str, Json] = {}
    for path in reversed(layout.base_files):
        if path not in documents:
            raise NodeError(f"its base file {path} can't be used", way_out="see the fault of that file")
        scope.update(documents[path])
    where = " and ".join(layout.base_files)
    environment = _text(scope, "deployment_id", where)
    uid = _text(scope, "uid", where)
    for name, value in (("deployment_id", environment), ("uid", uid)):
        if value is None:
            raise NodeError(f"has no fact {name} in {where}", way_out=_LOOK)
    if environment is None or not _NUMBER.fullmatch(environment):
        raise NodeError(f"its fact deployment_id in {where} is no environment's number", way_out=_LOOK)
    if uid is None or len(uid) > NAME_LIMIT or "/" in uid:
        raise NodeError(f"its fact uid in {where} can't be a node's id", way_out=_LOOK)
    fqdn = _text(scope, "fqdn", where)
    hostname = _text(scope, "hostname", where) or (fqdn.partition(".")[0] or None if fqdn else None)
    scope.update(uid=uid, deployment_id=int(environment), **({"hostname": hostname} if hostname else {}))
    return NodeFacts(uid=uid, environment=int(environment), fqdn=fqdn, hostname=hostname, scope=scope)


def _text(scope: Mapping[str, Json], name: str, where: str) -> str | None:
    value = scope.get(name)
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value or has_odd_characters(value):
        raise NodeError(f"its fact {name} in {where} is no text", way_out=_LOOK)
    return value
