"""``configdb-sync plan`` and ``sync``."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from configdb_sync.cli.dashboard import keep_link
from configdb_sync.cli.options import BUS, ENVIRONMENT, RUN, SYNC, Session, node_names, settings_options
from configdb_sync.cli.output import show, write_report
from configdb_sync.cli.progress import progress_for
from configdb_sync.cli.sources import node_source
from configdb_sync.cli.staged import Deployment, staged
from configdb_sync.cli.watchdog import Watchdog
from configdb_sync.clock import SystemClock
from configdb_sync.errors import ProductError, SettingsError
from configdb_sync.exits import Exit
from configdb_sync.store.opening import open_store
from configdb_sync.store.runs import About, Alive
from configdb_sync.sync.decide import Accept
from configdb_sync.sync.deployment import NodeStatuses, WithoutNailgun
from configdb_sync.sync.limits import STAGE_LIMIT, Deadline
from configdb_sync.sync.render.forms import FORMS, form_of
from configdb_sync.sync.report import Report, RunProgress, exit_of_plan
from configdb_sync.sync.run import Run, RunSession
from configdb_sync.sync.run_options import RunOptions, Stage
from configdb_sync.tenants.opening import open_registry
from configdb_sync.tenants.outbox import there
from configdb_sync.tenants.registry import Registry
from configdb_sync.tenants.task import TaskOwners

_SHARED = (
    click.option(
        "--env",
        "environment",
        type=ENVIRONMENT,
        required=True,
        metavar="N",
        help="The environment's number.",
    ),
    click.option(
        "--from",
        "place",
        required=True,
        metavar="mcollective|DIR|nailgun",
        help="The nodes themselves, over MCollective; a folder of node trees: node-<id>/etc/hiera/...;"
        " or what Nailgun would give the nodes.",
    ),
    click.option(
        "--node",
        "nodes",
        multiple=True,
        metavar="LIST",
        help="Only these nodes: ids or FQDNs, with commas (default: all).",
    ),
    click.option("--accept-node", is_flag=True, help="Take the node's side of what is ambiguous."),
    click.option("--accept-configdb", is_flag=True, help="Take ConfigDB's side of it."),
    click.option("--format", "output", type=click.Choice(FORMS), default="text", show_default=True),
    click.option(
        "--report",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the result to a file too, in the form of its ending: .json, .md or .txt.",
    ),
)


def _run_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_SHARED):
        command = option(command)
    return command


@contextmanager
def _run(
    session: Session,
    asked: dict[str, Any],
    *,
    allowed: str | None = None,
    digest: str | None = None,
    stage: Stage | None = None,
) -> Iterator[Run]:
    settings = session.settings
    if asked["accept_node"] and asked["accept_configdb"]:
        raise SettingsError("--accept-node and --accept-configdb exclude each other", way_out="give one of them")
    accept = Accept.NODE if asked["accept_node"] else Accept.CONFIGDB if asked["accept_configdb"] else Accept.NEITHER
    options = RunOptions(
        environment=asked["environment"],
        nodes=node_names(asked["nodes"]),
        tenant=settings.tenant,
        levels=settings.levels,
        data_sources=settings.data_sources,
        parallel=settings.parallel,
        accept=accept,
        unsafe_share=settings.unsafe_share,
        allowed_unsafe=allowed,
        plan_digest=digest,
        stage=stage,
    )
    options.check()
    with ExitStack() as stack:
        source = stack.enter_context(node_source(session, asked["place"], options))
        client = stack.enter_context(session.client())
        database = open_store(session.database)
        stack.callback(database.close)
        progress = stack.enter_context(progress_for())
        registry = Registry(open_registry(session.database, connections=settings.parallel + 1))
        stack.callback(registry.close)
        owners = TaskOwners(registry, SystemClock(), session.author, Alive(socket.gethostname(), there))
        yield Run(
            session.run,
            client,
            source.nodes,
            database,
            session.masker,
            options,
            progress,
            SystemClock(),
            examiner=source.examiner,
            executor=source.executor,
            owners=owners,
            statuses=None if source.roster is None else source.roster.statuses,
        )


@click.command()
@settings_options(*RUN, *BUS)
@_run_options
@click.option("--exit-code", is_flag=True, help="Exit with 10 if there is anything to do.")
def plan(session: Session, output: str, report: Path | None, *, exit_code: bool, **asked: Any) -> Exit:
    """Show what `sync` would upload and write now. Changes nothing."""
    _check_report(report)
    with _run(session, asked) as run:
        found = run.plan()
    if report is not None:
        write_report(report, found)
    show(found, output)
    return exit_of_plan(found, tell_drift=exit_code)


@click.command()
@staged
@settings_options(*RUN, *BUS, *SYNC)
@_run_options
@click.option("--digest", metavar="DIGEST", help="Carry out exactly the plan with this digest, or nothing.")
@click.option("--force", metavar="DIGEST", help="Let exactly the unsafe changes with this digest through.")
def sync(
    session: Session,
    output: str,
    report: Path | None,
    *,
    digest: str | None,
    force: str | None,
    deployment: Deployment | None,
    **asked: Any,
) -> Exit:
    """Upload the nodes' settings and write the effective data back into their files."""
    settings, clock = session.settings, SystemClock()
    stage = None if deployment is None else deployment.stage
    if deployment is not None:
        deployment.read(settings.failure_policy)
    _check_report(report)
    pace = Deadline(clock, STAGE_LIMIT if settings.time_limit is None and stage else settings.time_limit)
    tally = RunProgress(session.run, asked["environment"], clock, None if stage is None else stage.value)
    begun: list[RunSession] = []
    knowing: list[NodeStatuses] = [WithoutNailgun()]

    def tell(found: Report) -> Exit:
        if report is not None:
            write_report(report, found)
        if deployment is not None:
            return deployment.say(found, knowing[-1])
        show(found, output)
        return found.exit

    def give_up() -> Exit:
        tally.stop(pace.out_of_time())
        return tell(tally.report())

    def remember() -> None:
        for conduct in begun:
            with suppress(ProductError):
                conduct.remember(tally.report())

    with (
        Watchdog(pace.until_the_last_moment, give_up, remember),
        _run(session, asked, allowed=force, digest=digest, stage=stage) as run,
    ):
        knowing.append(run)
        about = About(
            session.run,
            asked["environment"],
            run.nodes.place,
            session.author,
            socket.gethostname(),
            os.getpid(),
            stage=None if stage is None else stage.value,
        )
        conduct = RunSession(run, about, session.state.folder, pace, tally, settings.wait, settings.keep_runs)
        begun.append(conduct)
        found = conduct.sync()
    if stage is Stage.PRE or (stage is not None and settings.page_url is not None):
        keep_link(session, asked["environment"], pace.left)
    return tell(found)


def _check_report(report: Path | None) -> None:
    """Raise ``SettingsError`` if the report can't be written, before anything is done."""
    if report is not None:
        form_of(report)
        if report.is_dir():
            raise SettingsError(f"the report {report} can't be written: it is a folder", way_out="name another file")
        if not os.access(report.absolute().parent, os.W_OK | os.X_OK):
            raise SettingsError(
                f"the report {report} can't be written: no such folder, or it is closed", way_out="name another file"
            )
