"""``configdb-sync hiera-backend``: the Hiera backend on nodes, beside the plugin's tasks (U15)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click

import configdb_sync
from configdb_sync.cli.help import CommandGroup
from configdb_sync.cli.options import (
    BUS,
    NAILGUN,
    env_option,
    format_option,
    node_names,
    node_option,
    what_option,
    with_session,
)
from configdb_sync.cli.output import show_json
from configdb_sync.errors import EnvironmentMismatchError, NodeError
from configdb_sync.exits import Exit
from configdb_sync.names import natural_key
from configdb_sync.nodes.directory import DirectoryNodes
from configdb_sync.nodes.hiera_backend import Removal, RemovalOrder, program, remove_in_trees, remove_over_bus

if TYPE_CHECKING:
    from configdb_sync.cli.command_session import Session
    from configdb_sync.nailgun.roster import Roster

Outcome: TypeAlias = Removal | NodeError


@click.group("hiera-backend", cls=CommandGroup)
def hiera_backend() -> None:
    """Manage the Hiera backend on the nodes."""


@hiera_backend.command("remove", example="configdb-sync hiera-backend remove --env 1 --dry-run")
@with_session("state", "database", *NAILGUN, *BUS)
@env_option()
@what_option(
    "--from",
    "place",
    default="mcollective",
    show_default=True,
    metavar="mcollective|DIR",
    help="Reach the nodes over MCollective, or use a folder of node trees.",
)
@node_option
@click.option("--dry-run", is_flag=True, help="Show what would be removed; change nothing.")
@format_option("text", "json")
def remove(session: Session, *, environment: int, place: str, nodes: tuple[str, ...], dry_run: bool, form: str) -> Exit:
    """Remove the Hiera backend from nodes without a deployment.

    Removes code, settings with the password, cached documents, and the line in hiera.yaml. Hiera then reads the nodes'
    own files. Switch the setting off in the Fuel UI first: while it is on, the next deployment installs the backend
    again. Nodes of other environments are skipped. Without --node, Nailgun says which nodes should answer, if the
    settings name it; nodes unknown to Nailgun are included.
    """
    from configdb_sync.cli.sources import MCOLLECTIVE

    code = program(Path(configdb_sync.__file__).resolve().parents[1])
    names = node_names(nodes)
    order = RemovalOrder(environment, named=bool(names), look=dry_run)
    outcomes: list[Outcome] = []
    with contextlib.ExitStack() as stack:
        if place == MCOLLECTIVE:
            found = _on_nodes(session, stack, code, names, order)
        else:
            found = _in_trees(session, Path(place), code, names, order)
        for outcome in found:
            outcomes.append(outcome)
            if form == "text":
                _show(outcome, dry_run=dry_run)
    if form == "json":
        outcomes.sort(key=lambda outcome: natural_key(_identity(outcome)))
        listed = [_json(outcome, dry_run=dry_run) for outcome in outcomes]
        show_json({"environment": environment, "dry_run": dry_run, "nodes": listed})
    else:
        _show_counts(outcomes, dry_run=dry_run)
    return Exit.PARTIAL if any(isinstance(outcome, NodeError) for outcome in outcomes) else Exit.OK


def _on_nodes(
    session: Session, stack: contextlib.ExitStack, code: bytes, names: tuple[str, ...], order: RemovalOrder
) -> Iterator[Outcome]:
    from configdb_sync.cli.sources import open_bus
    from configdb_sync.nodes.mcollective import MCollectiveNodes

    settings = session.settings
    roster = None if names and all(name.isdigit() for name in names) else _roster(session, order.environment)
    rpc = stack.enter_context(open_bus(settings))
    if names:
        identities = list(dict.fromkeys(one for name in names for one in _identities(session, roster, name, order)))
    else:
        expected = () if roster is None else tuple(roster.by_identity)
        answering = MCollectiveNodes(rpc, env=order.environment, expected=expected).identities()
        identities = sorted({*answering, *expected}, key=natural_key)
    return remove_over_bus(rpc, code, identities, order, timeout=settings.mco_timeout)


def _in_trees(
    session: Session, root: Path, code: bytes, names: tuple[str, ...], order: RemovalOrder
) -> Iterator[Outcome]:

    there = DirectoryNodes(root, env=order.environment).identities()
    identities = [
        identity
        for name in names
        for identity in ([name] if name in there or name.isdigit() else _identities(session, None, name, order))
    ]
    return remove_in_trees(root, code, list(dict.fromkeys(identities)) if names else there, order)


def _roster(session: Session, environment: int) -> Roster | None:
    """Return what Nailgun knows about the environment; None without Nailgun, or if it has no such environment."""
    from configdb_sync.nailgun.roster import Roster

    nailgun = session.nailgun()
    if nailgun is None:
        return None
    with nailgun:
        try:
            return Roster(nailgun.base, environment, nailgun.nodes(environment))
        except EnvironmentMismatchError:
            return None


def _identities(session: Session, roster: Roster | None, name: str, order: RemovalOrder) -> tuple[str, ...]:
    """Return the identities of an ID or FQDN. Raises ``SettingsError``."""
    if name.isdigit():
        return (name,)
    known = () if roster is None else roster.identities(name)
    return known or (session.identity_of(order.environment, name),)


def _identity(outcome: Outcome) -> str:
    return (outcome.node or "") if isinstance(outcome, NodeError) else outcome.identity


def _show(outcome: Outcome, *, dry_run: bool) -> None:
    if isinstance(outcome, NodeError):
        hint = f" ({outcome.way_out})" if outcome.way_out else ""
        click.echo(f"node {outcome.node}: failed: {outcome.what}{hint}")
    elif outcome.other is None:
        done = "would be removed" if dry_run else "removed"
        text = f"{done}: {', '.join(outcome.found)}" if outcome.found else "has nothing of the backend"
        click.echo(f"node {outcome.identity}: {text}")
        if outcome.own is not None:
            click.echo(f"node {outcome.identity}: {outcome.own} stays: it was written by hand and may hold a password")


def _show_counts(outcomes: Sequence[Outcome], *, dry_run: bool) -> None:
    done = [outcome for outcome in outcomes if not isinstance(outcome, NodeError)]
    others = [outcome.other for outcome in done if outcome.other is not None]
    cleaned = sum(bool(outcome.found) for outcome in done)
    parts = [
        f"{'would be removed from' if dry_run else 'removed from'} {cleaned}",
        f"nothing on {len(done) - len(others) - cleaned}",
        f"failed on {len(outcomes) - len(done)}",
    ]
    if others:
        parts.append(f"skipped {len(others)} of other environments ({', '.join(map(str, sorted({*others})))})")
    click.echo(f"nodes: {', '.join(parts)}")


def _json(outcome: Outcome, *, dry_run: bool) -> dict[str, Any]:
    if isinstance(outcome, NodeError):
        return {"node": outcome.node, "result": "failed", "what": outcome.what, "way_out": outcome.way_out}
    if outcome.other is not None:
        return {"node": outcome.identity, "result": "other", "environment": outcome.other}
    result = ("found" if dry_run else "removed") if outcome.found else "nothing"
    return {"node": outcome.identity, "result": result, "found": list(outcome.found), "kept": outcome.own}
