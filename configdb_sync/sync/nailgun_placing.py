"""Which data source each part of Nailgun's deployment data is in the layout of Fuel 10 (U21). Pure.

Nailgun gives a node's data as one mapping, in which newton's two files are merged: the node's own over what is common
to all. A node run tells what is where, and then that stands; else what is equal on all nodes is common.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from configdb_sync.hiera.layouts import Layout
from configdb_sync.jsonvalues import ABSENT, Document, Json, same

OWN_FACTS = frozenset({"uid", "fqdn"})
"""What is a node's own even in an environment of one node."""

_RELEASE = re.compile(r"(?:.*-)?(?P<major>[0-9]{1,3})\.[0-9.]+")
_FIRST_OF_FUEL10 = 10


def layout_of_data(data: Document) -> Layout:
    """Return the layout that an environment's release has on nodes: ``openstack_version`` tells, else ``fuel_version``.

    The first is the release that was chosen for the environment (``mitaka-9.0``), the second the master's: a newer
    master deploys older environments with their own tasks.
    """
    for name in ("openstack_version", "fuel_version"):
        value = data.get(name)
        found = _RELEASE.fullmatch(value) if isinstance(value, str) else None
        if found:
            return Layout.FUEL10 if int(found["major"]) >= _FIRST_OF_FUEL10 else Layout.FUEL9
    return Layout.FUEL9


def equal_keys(nodes: Iterable[Document]) -> frozenset[str]:
    """Return the top-level keys that all nodes have with equal values."""
    documents = list(nodes)
    if not documents:
        return frozenset()
    first, others = documents[0], documents[1:]
    return frozenset(
        key
        for key, value in first.items()
        if key not in OWN_FACTS and all(same(value, other.get(key, ABSENT)) for other in others)
    )


def placed(data: Document, common: Collection[str], node: Document, cluster: Document) -> tuple[Document, Document]:
    """Return what of a node's data is its ``node`` and its ``cluster``.

    ``node`` and ``cluster`` are these as the last node run left them (empty where there was none), ``common`` the keys
    that are equal on all nodes. A mapping that stands in both is divided in the same way, and what is new in it is the
    node's: there it wins.
    """
    return _placed(data, common, node, cluster)


def _placed(
    data: Document, common: Collection[str], node: Document, cluster: Document
) -> tuple[dict[str, Json], dict[str, Json]]:
    own: dict[str, Json] = {}
    shared: dict[str, Json] = {}
    for key, value in data.items():
        if key in node and key in cluster:
            _divide(key, value, (node[key], cluster[key]), (own, shared))
        elif key in node:
            own[key] = value
        elif key in cluster or key in common:
            shared[key] = value
        else:
            own[key] = value
    return own, shared


def _divide(key: str, value: Json, had: tuple[Json, Json], into: tuple[dict[str, Json], dict[str, Json]]) -> None:
    own, shared = into
    if all(isinstance(one, Mapping) for one in (value, *had)):
        own[key], shared[key] = _placed(value, (), *had)
        return
    own[key] = value
    # Two that were one are so still; else the node's hides the common one, which then can't be seen in the data.
    shared[key] = value if same(*had) else had[1]
