"""``configdb-sync runs`` and ``approve``: what runs did, and a person's word on what they withheld (U14, F5)."""

from __future__ import annotations

import os
import socket
from contextlib import closing

import click

from configdb_sync.cli.options import ENVIRONMENT, Session, settings_options
from configdb_sync.cli.output import show_json, show_lines
from configdb_sync.clock import SystemClock
from configdb_sync.errors import SettingsError
from configdb_sync.store.approvals import LASTS_RUNS, Approvals
from configdb_sync.store.opening import open_store
from configdb_sync.store.runs import Alive, PastRuns
from configdb_sync.sync.render.forms import FORMS
from configdb_sync.sync.render.json_values import run_json
from configdb_sync.sync.render.text import run_lines, runs_lines
from configdb_sync.sync.render.wording import count


@click.command()
@settings_options("database", "state")
@click.option(
    "--env",
    "environment",
    type=ENVIRONMENT,
    metavar="N",
    help="Only runs of this environment.",
)
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help="How many to list.")
@click.option("--format", "output", type=click.Choice(FORMS), default="text", show_default=True)
@click.argument("run", required=False)
def runs(session: Session, *, environment: int | None, limit: int, output: str, run: str | None) -> None:
    """List past runs and those at work, or show one: RUN is its identity, the beginning of it, or `last`."""
    with closing(open_store(session.database)) as database:
        past = PastRuns(database, SystemClock(), Alive(socket.gethostname(), _is_there))
        if run is None:
            found = past.newest(environment, limit)
            if output == "json":
                show_json({"runs": [run_json(one) for one in found]})
            else:
                show_lines(runs_lines(found, environment))
            return
        one = past.find(run, environment)
        nodes, report = past.nodes_of(one.identity), past.report_of(one.identity)
    if output == "json":
        listed = [vars(node) for node in nodes]
        show_json(run_json(one) | {"done": listed, "report": None if report is None else report["json"]})
    elif output == "markdown":
        if report is None:
            raise SettingsError(f"run {one.identity} left no report", way_out="show it with --format text")
        click.echo("\n".join(report["markdown"]))
    else:
        show_lines(run_lines(one, nodes, report))


@click.command()
@settings_options("database", "state")
@click.argument("digest")
def approve(session: Session, *, digest: str) -> None:
    """Let exactly the unsafe changes with this DIGEST through, once, in the runs to come."""
    with closing(open_store(session.database)) as database:
        changes = Approvals(database, SystemClock()).approve(digest, session.author)
    if changes is None:
        click.echo(
            f"Approved. No run has withheld changes of digest {digest} yet; the first of the next {LASTS_RUNS} runs"
            " that finds exactly these lets them through."
        )
    else:
        click.echo(f"Approved: {count(changes, 'change')}, once, within {LASTS_RUNS} runs. Now run or deploy again.")


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
