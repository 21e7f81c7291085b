"""A plan that alone may be carried out: compared before anything is done, and node by node again (U20, S07)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from configdb_sync.errors import PlanChangedError, UnsafeError
from configdb_sync.store.approvals import UnsafeChange
from configdb_sync.sync.plan import NodePlan, Plan

Intent = tuple[str | None, ...]


@dataclass(frozen=True)
class Expected:
    """What is to happen with each node by the plan, and nothing else. ``let_through`` are withheld changes of it that
    were allowed since."""

    intents: Mapping[str, frozenset[Intent]]
    let_through: frozenset[tuple[str, str]]

    def check(self, plan: NodePlan) -> None:
        """Raise ``PlanChangedError`` if not exactly what was planned would happen with the node now."""
        if _intents(plan, self.let_through) != self.intents.get(plan.node, frozenset()):
            raise PlanChangedError(
                f"node {plan.node}: its files or ConfigDB's documents changed after the plan was made;"
                " it was left alone, and no further node was begun",
                way_out="look at `configdb-sync plan` again",
            )


def expected(plan: Plan, digest: str, allowed: Collection[UnsafeChange]) -> Expected:
    """Return what is to happen by the plan. Raises ``PlanChangedError`` if its digest is another."""
    if plan.digest != digest:
        raise PlanChangedError(
            f"what would be done now isn't the plan of digest {digest[:40]}; nothing was done",
            way_out=f"look at `configdb-sync plan` again; its digest is {plan.digest}",
        )
    let_through = frozenset((change.node, change.data_source) for change in allowed)
    return Expected({node.node: _intents(node, let_through) for node in plan.nodes}, let_through)


def _intents(plan: NodePlan, let_through: Collection[tuple[str, str]]) -> frozenset[Intent]:
    changes = {change.intent for change in plan.changes if (plan.node, change.data_source) not in let_through}
    return frozenset(changes | {move.intent for move in plan.moves})


def let_through(plan: Plan, digest: str) -> frozenset[UnsafeChange]:
    """Return the plan's unsafe changes if the digest names just these, else raise ``UnsafeError`` (``--force``)."""
    if plan.unsafe_digest != digest:
        raise UnsafeError(
            f"the unsafe changes are not those of digest {digest[:40]}; nothing was done"
            if plan.unsafe
            else f"nothing is withheld now, so there is nothing that digest {digest[:40]} could let through",
            way_out=f"look at `configdb-sync plan`; its digest is {plan.unsafe_digest}"
            if plan.unsafe
            else "run without --force",
        )
    return frozenset(plan.unsafe)
