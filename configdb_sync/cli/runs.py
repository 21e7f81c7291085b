"""``configdb-sync plan`` and ``sync``; ``execution`` carries them out."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from configdb_sync.cli.help import command
from configdb_sync.cli.options import (
    RUN,
    SYNC,
    env_option,
    file_option,
    format_option,
    node_option,
    what_option,
    with_session,
)
from configdb_sync.exits import Exit

if TYPE_CHECKING:
    from configdb_sync.cli.command_session import Session
    from configdb_sync.cli.execution import Deployment

_SHARED = (
    env_option(),
    what_option(
        "--from",
        "place",
        required=True,
        metavar="mcollective|DIR|nailgun",
        help="Read the nodes over MCollective, a folder of node trees (node-<id>/etc/hiera/...), or Nailgun's data.",
    ),
    node_option,
    click.option("--accept-node", is_flag=True, help="Resolve ambiguous changes in favour of the node."),
    click.option("--accept-configdb", is_flag=True, help="Resolve ambiguous changes in favour of ConfigDB."),
    format_option("text", "json", "markdown"),
    file_option("--report", text="Also write the result to FILE; its format follows the ending: .json, .md or .txt."),
)


def _run_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_SHARED):
        function = option(function)
    return function


def staged(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--stage``. With it, the command gets the ``Deployment`` and no error leaves it."""

    @click.option(
        "--stage",
        type=click.Choice(["pre", "main", "post"]),
        help="Run as this task of Fuel's deployment: short output, and failures count by --failure-policy.",
    )
    @functools.wraps(function)
    def wrapped(*args: Any, stage: str | None, **kwargs: Any) -> Any:
        if stage is None:
            return function(*args, deployment=None, **kwargs)
        from configdb_sync.cli.execution import Deployment

        return Deployment.of(stage).call(lambda deployment: function(*args, deployment=deployment, **kwargs))

    return wrapped


@command("plan", example="configdb-sync plan --env 1 --from mcollective")
@with_session(*RUN)
@_run_options
@click.option("--summary", "brief", is_flag=True, help="Show the same change of many nodes once.")
@click.option("--exit-code", is_flag=True, help="Exit with 10 if there are changes to make.")
def plan(session: Session, *, form: str, report: Path | None, brief: bool, exit_code: bool, **asked: Any) -> Exit:
    """Show what `sync` would change.

    Lists what would be uploaded and written. Changes nothing.
    """
    from configdb_sync.cli import execution

    return execution.plan(session, asked, execution.ResultWriter(form, report, brief), tell_drift=exit_code)


@command("sync", example="configdb-sync sync --env 1 --from mcollective --node 3,7")
@staged
@with_session(*SYNC)
@_run_options
@click.option("--digest", metavar="DIGEST", help="Carry out exactly the plan with this digest, or nothing.")
@click.option("--force", metavar="DIGEST", help="Carry out exactly the unsafe changes with this digest, too.")
def sync(
    session: Session, *, form: str, report: Path | None, deployment: Deployment | None, force: str | None, **asked: Any
) -> Exit:
    """Upload the nodes' settings and write their files.

    Uploads what changed on the nodes, then writes the effective data into their files.
    """
    from configdb_sync.cli import execution

    return execution.sync(session, asked | {"allowed": force}, execution.ResultWriter(form, report), deployment)
