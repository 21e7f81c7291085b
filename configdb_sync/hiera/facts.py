"""Who a node is by its own facts (U4)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from configdb_sync.errors import NodeError
from configdb_sync.hiera.layouts import Layout
from configdb_sync.hiera.placeholders import has_odd_characters
from configdb_sync.jsonvalues import Document, Json
from configdb_sync.names import NAME_LIMIT

_NUMBER = re.compile(r"[1-9][0-9]{0,17}")
_LOOK = "look at the file: is it one that Fuel made?"


@dataclass(frozen=True)
class NodeFacts:
    """A node's own word on itself. ``scope`` is what placeholders are looked up in; it holds secrets."""

    uid: str
    environment: int
    fqdn: str | None
    hostname: str | None
    scope: Mapping[str, Json] = field(repr=False, compare=False)


def facts_of(layout: Layout, documents: Mapping[str, Document]) -> NodeFacts:
    """Return a node's facts from its base documents by path (``astute.yaml``, or the two of Fuel 10).

    ``deployment_id`` and ``uid`` may each be an integer or text. ``fqdn`` and ``hostname`` are texts that may
    be missing; ``hostname`` is then the first label of ``fqdn``, as Facter has it. Raises ``NodeError`` if a
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
