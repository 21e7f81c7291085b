"""Tells the Fuel UI of findings, once each, and marks that as read when they are settled (U29).

One notification is about all new findings of one kind in an environment: a change on a thousand nodes is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from configdb_sync.nailgun.client import NailgunClient
from configdb_sync.names import one_line
from configdb_sync.store.findings import Finding, FindingKind, Findings
from configdb_sync.watch.findings import named

_LONGEST = 160
_TEXTS = {
    FindingKind.DRIFT: "settings differ from ConfigDB",
    FindingKind.WITHHELD: "changes are withheld until someone approves them",
    FindingKind.NODE_FAILED: "nodes cannot be worked on",
    FindingKind.NODE_WITHOUT_RUN: "nodes had no run for a long time",
    FindingKind.OVERRIDE_ENDED: "overrides have ended and are still there",
    FindingKind.OVERRIDE_WITHOUT_EFFECT: "overrides have no effect",
    FindingKind.RUN_FAILED: "the last run failed",
    FindingKind.RUN_MISSING: "there was no run for a long time",
    FindingKind.CONFIGDB_AWAY: "ConfigDB does not answer",
    FindingKind.NODES_AWAY: "the nodes cannot be asked",
    FindingKind.NOT_WATCHED: "the environment cannot be looked at",
}


def notify(findings: Findings, client: NailgunClient, environment: int) -> None:
    """Tell of what is new, and mark as read what is settled. Raises as the client does, and ``StateError``."""
    new = sorted(
        (one.finding for one in findings.open(environment) if one.notification is None),
        key=lambda finding: finding.kind.value,
    )
    for kind, group in groupby(new, key=lambda finding: finding.kind):
        found = list(group)
        findings.notified(found, client.notify(environment, message(kind, found)))
    for number in findings.notified_and_settled(environment):
        client.mark_as_read(number)
        findings.was_read(number)


def message(kind: FindingKind, found: Sequence[Finding]) -> str:
    """Return a notification's text: how many, on which nodes or where, without values."""
    return f"ConfigDB: {_TEXTS[kind]}: {_listed(found)}. `configdb-sync watch --last` shows all."


def _listed(found: Sequence[Finding]) -> str:
    nodes = dict.fromkeys(finding.node for finding in found if finding.node)
    if nodes and len(nodes) > 1:
        return named([f"node {node}" for node in nodes])
    if nodes:
        node = next(iter(nodes))
        sources = [finding.data_source for finding in found if finding.data_source]
        return f"node {one_line(node)}" + (f" ({named(sources)})" if sources else f" ({_text(found[0])})")
    keys = [f"{finding.data_source} {finding.key}".strip() for finding in found if finding.key]
    return named(keys) if keys else _text(found[0])


def _text(finding: Finding) -> str:
    return one_line(finding.text, _LONGEST)
