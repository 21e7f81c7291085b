"""``configdb-sync plan`` and ``sync``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from configdb_sync.cli.options import RUN, Session, settings_options
from configdb_sync.cli.output import show_json, show_lines, write_report
from configdb_sync.cli.progress import progress_for
from configdb_sync.cli.sources import node_source
from configdb_sync.clock import SystemClock
from configdb_sync.errors import SettingsError
from configdb_sync.exits import Exit
from configdb_sync.sync.decide import Accept
from configdb_sync.sync.lock import run_lock
from configdb_sync.sync.options import RunOptions
from configdb_sync.sync.records import open_records
from configdb_sync.sync.render_json import plan_json, report_json
from configdb_sync.sync.render_text import plan_lines, report_lines
from configdb_sync.sync.report import exit_of_plan
from configdb_sync.sync.run import Run

_SHARED = (
    click.option(
        "--env", "environment", type=click.IntRange(min=1), required=True, metavar="N", help="The environment's number."
    ),
    click.option(
        "--from",
        "place",
        required=True,
        metavar="DIR|nailgun",
        help="Folder of node trees: node-<id>/etc/hiera/...; or what Nailgun would give the nodes.",
    ),
    click.option("--node", "nodes", multiple=True, metavar="LIST", help="Only these nodes, ids or FQDNs."),
    click.option("--accept-node", is_flag=True, help="Take the node's side of what is ambiguous."),
    click.option("--accept-configdb", is_flag=True, help="Take ConfigDB's side of it."),
    click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True),
    click.option("--report", type=click.Path(path_type=Path), metavar="FILE", help="Write the result as JSON too."),
)


def _run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_SHARED):
        command = option(command)
    return command


@contextmanager
def _run(session: Session, asked: dict[str, Any], allowed: str | None = None) -> Iterator[Run]:
    settings = session.settings
    if asked["accept_node"] and asked["accept_configdb"]:
        raise SettingsError("--accept-node and --accept-configdb exclude each other", way_out="give one of them")
    accept = Accept.NODE if asked["accept_node"] else Accept.CONFIGDB if asked["accept_configdb"] else Accept.NEITHER
    options = RunOptions(
        environment=asked["environment"],
        nodes=tuple(name.strip() for names in asked["nodes"] for name in names.split(",") if name.strip()),
        tenant=settings.tenant,
        levels=settings.levels,
        data_sources=settings.data_sources,
        parallel=settings.parallel,
        accept=accept,
        unsafe_share=settings.unsafe_share,
        allowed_unsafe=allowed,
    )
    with ExitStack() as stack:
        source = stack.enter_context(node_source(session, asked["place"], options.environment))
        source.nodes.identities()
        client = stack.enter_context(session.client())
        database = open_records(session.database)
        stack.callback(database.close)
        progress = stack.enter_context(progress_for())
        yield Run(
            session.run,
            client,
            source.nodes,
            database,
            session.masker,
            options,
            progress,
            SystemClock(),
            source.examiner,
            source.executor,
        )


@click.command()
@settings_options(*RUN)
@_run_options
def plan(session: Session, output: str, report: Path | None, **asked: Any) -> Exit:
    """Show what `sync` would upload and write now. Changes nothing."""
    with _run(session, asked) as run:
        found = run.plan()
    if report is not None:
        write_report(report, plan_json(found))
    if output == "json":
        show_json(plan_json(found))
    else:
        show_lines(plan_lines(found))
    return exit_of_plan(found)


@click.command()
@settings_options(*RUN, "wait")
@_run_options
@click.option("--force", metavar="DIGEST", help="Let exactly the unsafe changes with this digest through.")
def sync(session: Session, output: str, report: Path | None, force: str | None, **asked: Any) -> Exit:
    """Upload the nodes' settings and write the effective data back into their files."""
    lock = run_lock(session.state.folder, asked["environment"], session.settings.wait, SystemClock())
    with _run(session, asked, force) as run, lock:
        found = run.sync()
    if report is not None:
        write_report(report, report_json(found))
    if output == "json":
        show_json(report_json(found))
    else:
        show_lines(report_lines(found))
    return found.exit
