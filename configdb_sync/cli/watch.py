"""``configdb-sync watch``: looks at environments once or at an interval, and says what is the matter (U29)."""

from __future__ import annotations

import dataclasses
import logging
import secrets
import socket
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from configdb_sync.cli.help import command
from configdb_sync.cli.listing import ListOutput, list_options
from configdb_sync.cli.options import RUN, env_option, file_option, what_option, with_session
from configdb_sync.cli.output import write_private
from configdb_sync.cli.services import configured
from configdb_sync.clock import SystemClock
from configdb_sync.errors import EnvironmentMismatchError, ProductError, SettingsError
from configdb_sync.exits import Exit, exit_of
from configdb_sync.names import one_line

if TYPE_CHECKING:
    from configdb_sync.cli.command_session import Session
    from configdb_sync.store.database import Database
    from configdb_sync.store.findings import Finding, KeptFinding, WatchRound
    from configdb_sync.sync.run import Run
    from configdb_sync.watch.round import Watched

_DURATION = "DURATION"
_LOG = logging.getLogger(__name__)
_PARALLEL = 2
"""Nodes worked on at once if no setting says how many: the watch is in no hurry, and each takes memory."""


@command("watch", example="configdb-sync watch --env 1 --from mcollective")
@with_session(*RUN, "wait", "time_limit", "keep_runs", "page_url")
@configured("watch", only="service", without="interval")
@env_option("Only this environment; repeat it.  [default: all known]", required=False, several=True)
@what_option(
    "--from",
    "from",
    default="mcollective",
    show_default=True,
    metavar="mcollective|DIR|nailgun",
    help="Where to read the nodes: as for `plan`.",
)
@click.option("--apply", is_flag=True, help="Then carry out `sync` where something differs.")
@click.option("--interval", metavar=_DURATION, help="Look again after this time, until stopped: 15m, 1h.")
@click.option("--jitter", metavar=_DURATION, help="Wait a random time, up to this, before each look.")
@click.option("--run-age", default="30d", show_default=True, metavar=_DURATION, help="Longest time without a run.")
@click.option(
    "--expiring", default="7d", show_default=True, metavar=_DURATION, help="Count overrides that end so soon."
)
@file_option("--text-file", text="Also write the metrics to FILE, which the node exporter reads (mode 0644).")
@click.option("--no-notify", is_flag=True, help="Tell the Fuel UI nothing.")
@click.option("--service", is_flag=True, help="Take the options of `services.watch` in the settings file.")
@click.option("--last", "last", is_flag=True, help="Look at nothing; show what the last round found.")
@list_options(
    "environments", *("environment", "kind", "node", "data_source", "level", "key", "text", "count", "first_seen")
)
def watch(
    session: Session,
    *,
    environments: tuple[int, ...],
    interval: str | None,
    jitter: str | None,
    text_file: Path | None,
    last: bool,
    output: ListOutput,
    **asked: Any,
) -> Exit:
    """Find what differs between runs, changing nothing.

    Plans each environment, notes what is found in the product's database, and exits with 10 if there is something,
    with another code if an environment could not be looked at. Writes to no node and changes nothing in ConfigDB,
    unless --apply is given.
    """
    from configdb_sync.overrides.notes import parse_duration

    pause = None if interval is None else parse_duration(interval, "--interval")
    most = None if jitter is None else parse_duration(jitter, "--jitter")
    with closing(session.records()) as database:
        if last:
            return _show_last(database, environments, output)
        watcher = _Watcher(session, database, environments, asked)
        while True:
            _sleep(most)
            try:
                code = watcher.look(output)
            except ProductError as error:
                if pause is None:
                    raise
                click.echo(f"configdb-sync: {error}", err=True)
                code = exit_of(error)
            if text_file is not None:
                _write_metrics(text_file, database)
            if pause is None:
                return code
            SystemClock().sleep(pause.total_seconds())


def _write_metrics(path: Path, database: Database) -> None:
    from configdb_sync.store.gauges import gauges_text

    try:
        write_private(path, gauges_text(database, SystemClock()).decode(), 0o644)
    except OSError as error:
        raise SettingsError(
            f"the metrics {path} can't be written: {error.strerror}", way_out="name another file with --text-file"
        ) from error


def _sleep(most: timedelta | None) -> None:
    if most is not None:
        SystemClock().sleep(secrets.randbelow(max(1, int(most.total_seconds()))))


def _show_last(database: Database, environments: tuple[int, ...], output: ListOutput) -> Exit:
    from configdb_sync.store.findings import Findings
    from configdb_sync.watch.findings import exit_of_findings

    findings = Findings(database, SystemClock())
    rounds = [one for one in findings.rounds().values() if not environments or one.environment in environments]
    shown = [(one, tuple(findings.open(one.environment))) for one in rounds]
    _show(shown, output)
    return exit_of_findings(one.finding for _, found in shown for one in found)


@dataclass(frozen=True)
class _Watcher:
    """What a round of all environments works with."""

    session: Session
    database: Database
    environments: tuple[int, ...]
    asked: dict[str, Any]

    def look(self, output: ListOutput) -> Exit:
        """Look at all environments once and show what is found. Raises ``BusyError`` if another one is at work."""
        from configdb_sync.overrides.notes import parse_duration
        from configdb_sync.watch.findings import APPLIED
        from configdb_sync.watch.round import Watch, WatchLimits

        longest = parse_duration(self.asked["run_age"], "--run-age")
        limits = WatchLimits(longest, parse_duration(self.asked["expiring"], "--expiring"))
        watch = Watch(self.database, self._opened, SystemClock(), limits)
        found: list[Watched] = []
        codes: list[Exit] = []
        with watch.alone(self.session.run, socket.gethostname()):
            for environment in self.environments or self._known():
                seen = watch.look(environment)
                if self.asked["apply"] and seen.planned and APPLIED & {one.finding.kind for one in seen.findings}:
                    codes.append(self._apply(environment))
                    seen = watch.look(environment)
                found.append(seen)
                codes.append(seen.exit)
                if not self.asked["no_notify"]:
                    self._notify(environment, len(seen.findings))
        _show([(one.round, one.findings) for one in found], output)
        return _worst(codes)

    def _apply(self, environment: int) -> Exit:
        from configdb_sync.cli import execution

        try:
            report = execution.carried_out(self._session(environment), self._of(environment))
        except ProductError as error:
            click.echo(f"configdb-sync: environment {environment}: {error}", err=True)
            return exit_of(error)
        return report.exit

    def _notify(self, environment: int, count: int) -> None:
        """Tell the Fuel UI, if the settings name Nailgun. A failure is logged: the next round tells it."""
        from configdb_sync.plugin.dashboard_link import settle_link
        from configdb_sync.store.findings import Findings
        from configdb_sync.watch.notifications import notify

        try:
            session = self._session(environment)
            nailgun = session.nailgun(hasty=True)
            if nailgun is None:
                return
            with nailgun:
                notify(Findings(self.database, SystemClock()), nailgun, environment)
                if session.settings.page_url is not None:
                    settle_link(nailgun, environment, session.settings.page_url, count)
        except ProductError as error:
            _LOG.warning("environment %s: the Fuel UI was not told: %s", environment, error)

    @contextmanager
    def _opened(self, environment: int) -> Iterator[Run]:
        from configdb_sync.cli import execution

        session = self._session(environment)
        if session.settings.origins["parallel"] == "default":
            session = dataclasses.replace(session, settings=dataclasses.replace(session.settings, parallel=_PARALLEL))
        with execution.opened_run(session, self._of(environment)) as run:
            yield run

    def _session(self, environment: int) -> Session:
        return self.session if self.session.reopened is None else self.session.reopened(environment)

    def _of(self, environment: int) -> dict[str, Any]:
        return {"environment": environment, "place": self.asked["from"]}

    def _known(self) -> list[int]:
        """Return the environments that runs or ConfigDB know; what is kept of those that Fuel no longer has goes.

        Raises ``ConfigDBError`` if ConfigDB can't be asked and no run is remembered.
        """
        from configdb_sync.store.runs import PastRuns

        known = {*PastRuns(self.database, SystemClock()).environments()}
        try:
            with self.session.client() as client:
                known |= {one.id for one in client.environments() if one.id > 0}
        except ProductError:
            if not known:
                raise
        return [environment for environment in sorted(known) if self._is_there(environment)]

    def _is_there(self, environment: int) -> bool:
        from configdb_sync.store.findings import Findings

        try:
            nailgun = self._session(environment).nailgun(hasty=True)
            if nailgun is not None:
                with nailgun:
                    nailgun.cluster(environment)
        except EnvironmentMismatchError:
            Findings(self.database, SystemClock()).forget(environment)
            return False
        except ProductError:
            return True  # The round says what is the matter.
        return True


def _worst(codes: Iterable[Exit]) -> Exit:
    """Return the code that matters most: what failed, else what was found."""
    found = [code for code in codes if code is not Exit.OK]
    return next((code for code in found if code is not Exit.DRIFT), found[0] if found else Exit.OK)


def _show(shown: list[tuple[WatchRound, tuple[KeptFinding, ...]]], output: ListOutput) -> None:
    if not output.is_own:
        entries = [_round_json(done) | {"findings": [_json(one) for one in found]} for done, found in shown]
        rows = [{"environment": done.environment} | _json(one) for done, found in shown for one in found]
        output.show(entries, rows=rows)
        return
    for done, found in shown:
        for line in _lines(done, found):
            click.echo(line)
    if not shown:
        click.echo("There is no environment yet.")


def _lines(done: WatchRound, found: tuple[KeptFinding, ...]) -> Iterator[str]:
    from configdb_sync.overrides.notes import time_text
    from configdb_sync.store.findings import SKIPPED

    count = f"{len(found)} finding{'' if len(found) == 1 else 's'}" if found else "nothing to report"
    why = f" ({done.text})" if done.text and done.outcome == SKIPPED else ""
    yield f"environment {done.environment}: {'left alone, ' if why else ''}{count}{why}"
    for one in found:
        finding = one.finding
        yield f"  {finding.kind.value}: {_place(finding)}{finding.text}; since {time_text(one.first_seen)}"


def _place(finding: Finding) -> str:
    words = []
    if finding.node:
        words.append(f"node {one_line(finding.node)}")
    if finding.data_source:
        words.append(one_line(finding.data_source))
    if finding.level:
        words.append(f"at {one_line(finding.level)}")
    if finding.key:
        words.append(f"key {one_line(finding.key)}")
    return f"{' '.join(words)}: " if words else ""


def _round_json(done: WatchRound) -> dict[str, Any]:
    return {
        name: value.isoformat(timespec="seconds") if name in {"started", "finished", "complete"} and value else value
        for name, value in vars(done).items()
    }


def _json(one: KeptFinding) -> dict[str, Any]:
    # How a file differs is told by `plan` and the status page: `--last` would read it for every finding.
    hidden = {"environment", "changes"}
    finding = {name: value for name, value in dataclasses.asdict(one.finding).items() if name not in hidden}
    return finding | {"first_seen": one.first_seen.isoformat(timespec="seconds")}
