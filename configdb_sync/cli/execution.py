"""Carries out ``plan`` and ``sync``: makes the run's parts, ends it in time, and reports to a deployment (U14, F5)."""

from __future__ import annotations

import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import click

from configdb_sync.cli.command_session import Session
from configdb_sync.cli.options import node_names
from configdb_sync.cli.output import progress_for, show_lines, write_private
from configdb_sync.cli.sources import node_source
from configdb_sync.clock import SystemClock
from configdb_sync.errors import ProductError, SettingsError
from configdb_sync.exits import Exit, exit_of
from configdb_sync.plugin.dashboard_link import settle_link
from configdb_sync.store.runs import About
from configdb_sync.sync.decide import Accept
from configdb_sync.sync.deployment import (
    DEFAULT_POLICY,
    FailureKind,
    NodeStatuses,
    Policy,
    WithoutNailgun,
    deployment_result,
    deployment_result_of_error,
    error_lines,
    stage_lines,
)
from configdb_sync.sync.limits import STAGE_LIMIT, Deadline
from configdb_sync.sync.plan import Plan
from configdb_sync.sync.render.forms import form_of, lines
from configdb_sync.sync.report import Report, RunProgress, exit_of_plan
from configdb_sync.sync.run import Run, RunSession
from configdb_sync.sync.run_options import RunOptions, Stage
from configdb_sync.tenants.task import TaskOwners

_LOG = logging.getLogger(__name__)
_TAKES = 75.0
"""Seconds that an update of the link may take at most, with a slow Keystone and a slow Nailgun that both answer.
Seven calls: the version before and after the login, which are two, the links, the environment, the change."""
LAST_WORDS = 1.0
"""Seconds that a watchdog gives to what is done after the report."""


@dataclass(frozen=True)
class ResultWriter:
    """Where a result goes: to standard output in one of ``render.FORMS``, and to the file of ``--report``.

    ``brief``: standard output has the same change of many nodes once.
    """

    form: str
    report: Path | None
    brief: bool = False

    def check(self) -> None:
        """Raise ``SettingsError`` if the result can't be shown or written so, before anything is done."""
        if self.brief and self.form == "json":
            raise SettingsError("--summary and --format json exclude each other", way_out="JSON has every node")
        if self.report is None:
            return
        form_of(self.report)
        if self.report.is_dir():
            raise SettingsError(f"the report {self.report} can't be written: it is a folder", way_out=_ANOTHER)
        if not os.access(self.report.absolute().parent, os.W_OK | os.X_OK):
            raise SettingsError(
                f"the report {self.report} can't be written: its folder does not exist or is not writable",
                way_out=_ANOTHER,
            )

    def write(self, found: Plan | Report) -> None:
        """Write the report in the form of its ending, whole or not at all. Raises ``SettingsError``."""
        if self.report is None:
            return
        try:
            write_private(self.report, "\n".join(lines(found, form_of(self.report))) + "\n")
        except OSError as error:
            raise SettingsError(
                f"the report {self.report} can't be written: {error.strerror}", way_out=_ANOTHER
            ) from error

    def show(self, found: Plan | Report) -> None:
        """Print the result."""
        show_lines(lines(found, self.form, brief=self.brief), coloured=self.form == "text")


_ANOTHER = "name another file with --report"


def plan(session: Session, asked: Mapping[str, Any], writer: ResultWriter, *, tell_drift: bool) -> Exit:
    """Make a plan and show it. ``tell_drift``: changes to make have an exit code."""
    writer.check()
    with opened_run(session, asked) as run:
        found = run.plan()
    writer.write(found)
    writer.show(found)
    return exit_of_plan(found, tell_drift=tell_drift)


def sync(session: Session, asked: Mapping[str, Any], writer: ResultWriter, deployment: Deployment | None) -> Exit:
    """Carry out a run and report it, to the deployment that calls if there is one."""
    settings, clock = session.settings, SystemClock()
    stage = None if deployment is None else deployment.stage
    if deployment is not None:
        deployment.policy = frozenset(map(FailureKind, settings.failure_policy))
    writer.check()
    deadline = Deadline(clock, STAGE_LIMIT if settings.time_limit is None and stage else settings.time_limit)
    stage_name = None if stage is None else stage.value
    progress = RunProgress(session.run, asked["environment"], clock, stage_name)
    begun: list[RunSession] = []
    statuses: list[NodeStatuses] = [WithoutNailgun()]

    def tell(found: Report) -> Exit:
        writer.write(found)
        if deployment is not None:
            return deployment.say(found, statuses[-1])
        writer.show(found)
        return found.exit

    def give_up() -> Exit:
        progress.stop(deadline.out_of_time())
        return tell(progress.report())

    def remember() -> None:
        for run_session in begun:
            with suppress(ProductError):
                run_session.remember(progress.report())

    with Watchdog(deadline.until_the_last_moment, give_up, remember), opened_run(session, asked, stage) as run:
        statuses.append(run)
        begun.append(_run_session(session, run, deadline, progress))
        found = begun[0].sync()
    if stage is Stage.PRE or (stage is not None and settings.page_url is not None):
        _keep_link(session, asked["environment"], deadline.left)
    return tell(found)


def carried_out(session: Session, asked: Mapping[str, Any]) -> Report:
    """Carry out a run, as ``sync`` does, and return its report. Raises as ``RunSession.sync``."""
    clock = SystemClock()
    progress = RunProgress(session.run, asked["environment"], clock)
    with opened_run(session, asked) as run:
        return _run_session(session, run, Deadline(clock, session.settings.time_limit), progress).sync()


def _run_session(session: Session, run: Run, deadline: Deadline, progress: RunProgress) -> RunSession:
    stage = run.options.stage
    about = About(
        *(session.run, run.options.environment, run.nodes.place, session.author, socket.gethostname(), os.getpid()),
        stage=None if stage is None else stage.value,
    )
    settings = session.settings
    return RunSession(run, about, session.state.folder, deadline, progress, settings.wait, settings.keep_runs)


def _keep_link(session: Session, environment: int, left: float) -> None:
    """Update the link in the Fuel UI to the setting. A failure is logged and fails no deployment.

    ``left``: the run's remaining seconds; if they may not suffice, the next run updates the link.
    """
    if left < _TAKES:
        return
    try:
        client = session.nailgun(hasty=True)
        if client is None:
            return
        with client:
            settle_link(client, environment, session.settings.page_url)
    except ProductError as error:
        _LOG.warning("the link in the Fuel UI was not updated: %s", error)
    except Exception as error:
        # The run itself is done. The log is readable by everyone, and the error's text may hold a secret.
        _LOG.warning("the link in the Fuel UI was not updated: %s", type(error).__name__)


@contextmanager
def opened_run(session: Session, asked: Mapping[str, Any], stage: Stage | None = None) -> Iterator[Run]:
    """Yield the run that the options ask for. Raises ``SettingsError`` and as its parts do."""
    settings = session.settings
    accepts_node, accepts_configdb = asked.get("accept_node", False), asked.get("accept_configdb", False)
    if accepts_node and accepts_configdb:
        raise SettingsError("--accept-node and --accept-configdb exclude each other", way_out="give one of them")
    options = RunOptions(
        environment=asked["environment"],
        nodes=node_names(asked.get("nodes", ())),
        tenant=settings.tenant,
        levels=settings.levels,
        data_sources=settings.data_sources,
        parallel=settings.parallel,
        accept=Accept.NODE if accepts_node else Accept.CONFIGDB if accepts_configdb else Accept.NEITHER,
        unsafe_share=settings.unsafe_share,
        allowed_unsafe=asked.get("allowed"),
        plan_digest=asked.get("digest"),
        stage=stage,
    )
    options.check()
    with ExitStack() as stack:
        source = stack.enter_context(node_source(session, asked["place"], options))
        client = stack.enter_context(session.client())
        database = session.records()
        stack.callback(database.close)
        listener = stack.enter_context(progress_for())
        registry = session.registry(connections=settings.parallel + 1)
        stack.callback(registry.close)
        yield Run(
            session.run,
            client,
            source.nodes,
            database,
            session.masker,
            options,
            listener,
            SystemClock(),
            owners=TaskOwners(registry, SystemClock(), session.author),
            roster=source.roster,
            source=source.source,
        )


@dataclass
class Deployment:
    """The task of Fuel's deployment that calls. ``policy`` is the default one until the settings are read.

    Whatever ends the run, the last line says what to do, and the exit code says whether the deployment goes on.
    """

    stage: Stage
    policy: Policy = DEFAULT_POLICY

    @classmethod
    def of(cls, stage: str) -> Self:
        """Return the deployment of a stage, by its name."""
        return cls(Stage(stage))

    def call(self, run: Callable[[Self], Exit]) -> Exit:
        """Call what carries out the run; report any error that leaves it, except for wrong options."""
        try:
            return run(self)
        except ProductError as error:
            return self._say_error(error, exit_of(error))
        except click.ClickException:
            raise
        except Exception as error:
            # The log is readable by everyone, and the error's text may hold a secret.
            return self._say_error(_internal(error), Exit.INTERNAL)

    def say(self, report: Report, nodes: NodeStatuses) -> Exit:
        """Print the lines about a run and return the exit code."""
        found = deployment_result(report, self.stage, self.policy, None if report.exit is Exit.OK else nodes.statuses)
        click.echo("\n".join(stage_lines(report, found)))
        return found.exit

    def _say_error(self, error: ProductError, code: Exit) -> Exit:
        found = deployment_result_of_error(error, code, self.stage, self.policy)
        click.echo("\n".join(error_lines(error, found)))
        return found.exit


def _internal(error: Exception) -> ProductError:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" in {Path(trace.tb_frame.f_code.co_filename).name}, line {trace.tb_lineno}"
    return ProductError(
        f"internal error: {type(error).__name__}{where}",
        way_out="run the same command without --stage for the details, and report them",
    )


class Watchdog:
    """Ends the process in time even if something hangs: a run may end at any moment, but its report must not be lost.

    After ``seconds`` it calls ``act`` from a thread of its own and ends the process with the code that ``act`` returns.
    ``act`` prints the report. ``then``, which may hang itself, gets a second. With None for ``seconds`` it never acts.
    """

    def __init__(self, seconds: float | None, act: Callable[[], int], then: Callable[[], None]) -> None:
        self._seconds = seconds
        self._act = act
        self._then = then
        self._over = threading.Event()
        self._acting = threading.Lock()

    def __enter__(self) -> Self:
        if self._seconds is not None:
            threading.Thread(target=self._watch, name="watchdog", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        # If it acts already, it ends the process: this thread must not go on.
        with self._acting:
            self._over.set()

    def _watch(self) -> None:
        if self._over.wait(self._seconds):
            return
        with self._acting:
            if not self._over.is_set():
                code = 1
                try:
                    code = self._act()
                    sys.stdout.flush()
                    last = threading.Thread(target=self._then, name="last words", daemon=True)
                    last.start()
                    last.join(LAST_WORDS)
                finally:
                    os._exit(code)
