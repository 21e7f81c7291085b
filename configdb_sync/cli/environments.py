"""The commands on whole environments: status, runs, approve, gc (S1-S8, U14, F5)."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from configdb_sync.cli import completion
from configdb_sync.cli.help import command
from configdb_sync.cli.listing import ListOutput, list_options
from configdb_sync.cli.options import (
    CONNECTION,
    NAILGUN,
    env_option,
    file_option,
    format_option,
    what_option,
    with_session,
)
from configdb_sync.cli.output import show_json, show_lines, write_private
from configdb_sync.clock import SystemClock
from configdb_sync.errors import EnvironmentMismatchError, ProductError, SettingsError
from configdb_sync.exits import Exit
from configdb_sync.nodes.directory import DirectoryNodes

if TYPE_CHECKING:
    from configdb_sync.cli.command_session import Session
    from configdb_sync.status_page.api import StatusApi
    from configdb_sync.sync.gc import Present

_ALL = 1_000_000
"""Nodes, environments and runs without a limit: a file has no second page."""
_only_env_option = env_option("Only this environment.", required=False)


@command("status", example="configdb-sync status --env 1 --html status.html")
@with_session(*CONNECTION, "levels")
@_only_env_option
@file_option("--html", "file", text="Also write a page with nodes, runs and documents, readable only by its owner.")
@file_option("--report", text="Also write a summary of what happened as Markdown, readable only by its owner.")
@click.option("--since", metavar="DURATION", help="With --report: how far it reaches back.  [default: 7d]")
@click.option("--exit-code", is_flag=True, help="Exit with 3 for an error or a failed run, 10 for findings.")
@list_options(
    "environments",
    *("environment", "status", "status_details", "resource_count", "findings"),
    *(f"last_run.{name}" for name in ("run", "started_at", "outcome", "nodes", "nodes_failed")),
)
def status(
    session: Session,
    *,
    environment: int | None,
    file: Path | None,
    report: Path | None,
    since: str | None,
    exit_code: bool,
    output: ListOutput,
) -> Exit:
    """Show the status and the last run of environments.

    Says how many findings of `watch` are open. `configdb-sync watch --last` lists them.
    """
    from configdb_sync.overrides.notes import parse_duration
    from configdb_sync.status_page.api import StatusApi
    from configdb_sync.tenants.requests import ApiLimits, Context

    if since is not None and report is None:
        raise SettingsError("--since is for --report", way_out="give --report FILE, or leave out --since")
    reach = parse_duration(since or "7d", "--since")
    session.records().close()
    with closing(session.registry()) as registry, session.client() as client:
        history = session.history(registry.database)
        api = StatusApi(Context(registry, ApiLimits(longest=_ALL), client=lambda: client), history)
        with closing(history.versions):
            found = _listed(api, environment)
            if file is not None:
                # Late: only this needs templates.
                from configdb_sync.status_page.single_file import page

                _write_page(file, page(api, SystemClock().now(), environment), "--html")
            if report is not None:
                from configdb_sync.status_page.summary import summary_lines

                now = SystemClock().now()
                _write_page(report, "\n".join([*summary_lines(api, found, now - reach, now), ""]), "--report")
    code = _status_exit(found) if exit_code else Exit.OK
    if not output.is_own:
        output.show(found)
        return code
    for line in map(_status_line, found):
        click.echo(line)
    if not found:
        click.echo("There is no environment yet.")
    if file is not None:
        click.echo(f"the page is {file}")
    if report is not None:
        click.echo(f"the summary is {report}")
    return code


def _status_exit(found: list[dict[str, Any]]) -> Exit:
    """Return the exit code of ``--exit-code``: PARTIAL for an error or a failed run, else DRIFT for findings."""
    from configdb_sync.store.runs import AT_WORK

    runs = [one["last_run"] for one in found if one["last_run"] is not None]
    bad = any(run["outcome"] not in {Exit.OK.name, AT_WORK} for run in runs)
    if bad or any(one["status"] == "ERROR" for one in found):
        return Exit.PARTIAL
    return Exit.DRIFT if any(one["findings"] for one in found) else Exit.OK


def _write_page(file: Path, text: str, option: str) -> None:
    try:
        write_private(file, text)
    except OSError as error:
        raise SettingsError(
            f"the page {file} can't be written: {error.strerror}", way_out=f"name another with {option}"
        ) from error


def _listed(api: StatusApi, environment: int | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    query = {"limit": str(api.context.limits.longest)}
    while True:
        page = api.environments(query).view
        found += page["environments"]
        if page["environments_next"] is None:
            break
        query["marker"] = str(found[-1]["environment"])
    if environment is None:
        return found
    found = [one for one in found if one["environment"] == environment]
    if not found:
        raise SettingsError(f"environment {environment} has had no run", way_out="`configdb-sync status` lists all")
    return found


def _status_line(one: dict[str, Any]) -> str:
    run = one["last_run"]
    text = f"environment {one['environment']}: {one['status'] or 'unknown'}"
    if one["status_details"]:
        text += f" ({one['status_details']})"
    if run is not None:
        failed = f", {run['nodes_failed']} failed" if run["nodes_failed"] else ""
        nodes = "" if run["nodes"] is None else f", {run['nodes']} nodes{failed}"
        text += f"; last run {run['started_at'][:19].replace('T', ' ')} {run['outcome']}{nodes}"
    if one["findings"]:
        text += f"; {one['findings']} finding{'s' if one['findings'] > 1 else ''} of the watch"
    return text


@command("runs", example="configdb-sync runs last --env 1")
@with_session("database", "state")
@_only_env_option
@click.option(
    "--limit", type=click.IntRange(1, 100_000), metavar="N", help="List length.  [default: 20; with --since all]"
)
@click.option("--since", metavar="DURATION", help="Only runs that began within this time, like 12h or 7d.")
@list_options(
    "runs",
    *("run", "environment", "kind", "stage", "started", "finished", "outcome", "exit", "nodes", "uploads", "writes"),
    *("problems", "bytes", "author", "host", "place", "digest"),
    own=("text", "markdown"),
)
@click.argument("run", required=False, shell_complete=completion.runs)
def runs(
    session: Session,
    *,
    environment: int | None,
    limit: int | None,
    since: str | None,
    output: ListOutput,
    run: str | None,
) -> None:
    """List runs, or show one.

    Lists active and past runs, the newest first. RUN is the beginning of a run's ID, or `last`.
    """
    from configdb_sync.overrides.notes import parse_duration
    from configdb_sync.store.runs import PastRuns
    from configdb_sync.sync.render.json_values import run_json
    from configdb_sync.sync.render.text import run_lines, runs_lines

    if run is not None and since is not None:
        raise SettingsError("--since is for the list of runs", way_out="leave out --since or RUN")
    began = None if since is None else SystemClock().now() - parse_duration(since, "--since")
    with closing(session.records()) as database:
        past = PastRuns(database, SystemClock())
        if run is None:
            found = past.newest(environment, limit or (20 if began is None else _ALL), since=began)
            if output.is_own:
                show_lines(runs_lines(found, environment))
            else:
                output.show(map(run_json, found))
            return
        one = past.find(run, environment)
        nodes, report = past.nodes_of(one.identity), past.report_of(one.identity)
    if output.is_table:
        output.show([run_json(one)])
    elif not output.is_own:
        listed = [vars(node) for node in nodes]
        show_json(run_json(one) | {"done": listed, "report": None if report is None else report["json"]}, output.form)
    elif output.form == "markdown":
        if report is None:
            raise SettingsError(f"run {one.identity} left no report", way_out="show it with --format text")
        click.echo("\n".join(report["markdown"]))
    else:
        show_lines(run_lines(one, nodes, report))


@command("approve", example="configdb-sync approve 5f3a2c9d41e0")
@with_session("database", "state")
@click.argument("digest")
def approve(session: Session, *, digest: str) -> None:
    """Approve unsafe changes by their digest.

    The next run that finds exactly these changes carries them out, once.
    """
    from configdb_sync.store.approvals import LASTS_RUNS, Approvals
    from configdb_sync.sync.render.wording import count

    with closing(session.records()) as database:
        changes = Approvals(database, SystemClock()).approve(digest, session.author)
    if changes is None:
        click.echo(
            f"Approved. No run has withheld changes with digest {digest} yet. The first of the next {LASTS_RUNS} runs"
            " that finds exactly these changes carries them out."
        )
    else:
        click.echo(f"Approved: {count(changes, 'change')}, once, within {LASTS_RUNS} runs. Now run or deploy again.")


@command("gc", example="configdb-sync gc --env 1 --nailgun https://10.20.0.2:8443 --remove")
@with_session(*CONNECTION, "levels", *NAILGUN, "wait")
@env_option()
@what_option("--from", "place", metavar="DIR", help="Folder of node trees: a node in it exists.")
@click.option("--remove", is_flag=True, help="Remove the data, except where there are overrides.")
@click.option("--remove-overrides", is_flag=True, help="With --remove: also where there are overrides.")
@format_option("text", "json")
def gc(
    session: Session, *, environment: int, place: str | None, remove: bool, remove_overrides: bool, form: str
) -> Exit:
    """Find and remove data of nodes that no longer exist.

    Shows what ConfigDB and the product's own database hold of such nodes. A node counts as present if it is in the
    folder of --from or in Nailgun. Give at least one of both.
    """
    from configdb_sync.store.lease import run_lock
    from configdb_sync.sync.gc import Collector
    from configdb_sync.sync.render.json_values import leftover_json
    from configdb_sync.sync.render.text import leftover_lines, removal_lines
    from configdb_sync.sync.run_options import RunOptions

    if remove_overrides and not remove:
        raise SettingsError("--remove-overrides needs --remove", way_out="give --remove too")
    present = _present(session, environment, place)
    gone: dict[str, tuple[str, ...]] | None = {} if remove else None
    problems: list[ProductError] = []
    with ExitStack() as stack:
        client = stack.enter_context(session.client(comment="gc: the node is no more"))
        database = session.records()
        stack.callback(database.close)
        if remove:
            stack.enter_context(run_lock(session.state.folder, environment, session.settings.wait, SystemClock()))
        collector = Collector(client, database, RunOptions(environment, levels=session.settings.levels))
        found = collector.find(present)
        if form == "text":
            # Before anything is removed.
            show_lines(leftover_lines(found, removes=remove, overrides=remove_overrides))
        if gone is not None:
            for node in found.nodes:
                gone[node.identity], failed = collector.remove(node, overrides=remove_overrides)
                problems += failed
    if form == "json":
        show_json(leftover_json(found, gone, problems))
    elif gone:
        show_lines(removal_lines(found, gone, problems, overrides=remove_overrides))
    return Exit.PARTIAL if problems else Exit.OK


def _present(session: Session, environment: int, place: str | None) -> Present:
    from configdb_sync.sync.gc import Present

    nailgun = session.nailgun()
    if nailgun is None and place is None:
        raise SettingsError("no source of the nodes is given", way_out="give --from DIR, or --nailgun URL, or both")
    nodes: dict[str, set[str]] = {}
    places: set[str] = set()
    known = True
    if place is not None:
        directory = DirectoryNodes(Path(place), env=environment)
        nodes.update((identity, set()) for identity in directory.identities())
        places.add(directory.place)
    if nailgun is not None:
        with nailgun:
            try:
                for node in nailgun.nodes(environment):
                    nodes.setdefault(node.identity, set()).update([node.fqdn] if node.fqdn else [])
            except EnvironmentMismatchError:
                known = False
    return Present(nodes, places, all_places=nailgun is not None, environment=known)
