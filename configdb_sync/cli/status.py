"""``configdb-sync status``: how environments stand, as lines, JSON, or a page in one file (S1-S8)."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import click

from configdb_sync.cli.chronicles import history_of
from configdb_sync.cli.options import CONNECTION, ENVIRONMENT, Session, settings_options
from configdb_sync.cli.output import show_json, write_private
from configdb_sync.clock import SystemClock
from configdb_sync.errors import SettingsError
from configdb_sync.status_page.api import StatusApi
from configdb_sync.store.opening import open_store
from configdb_sync.tenants.context import Context, Limits
from configdb_sync.tenants.opening import open_registry
from configdb_sync.tenants.registry import Registry

_ALL = 1_000_000
"""Nodes and environments on one page: a file has no second one."""


@click.command()
@settings_options(*CONNECTION, "levels")
@click.option("--env", "environment", type=ENVIRONMENT, metavar="N", help="Only this environment.")
@click.option(
    "--html",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write a page to look at, for its owner alone: nodes, runs, documents. Needs no service.",
)
@click.option("--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True)
def status(session: Session, *, environment: int | None, file: Path | None, form: str) -> None:
    """Tell how environments stand: their status and their last run."""
    open_store(session.database).close()
    with closing(Registry(open_registry(session.database))) as registry, session.client() as client:
        history = history_of(session, registry.database)
        api = StatusApi(Context(registry, Limits(longest=_ALL), client=lambda: client), history)
        with closing(history.versions):
            found = _listed(api, environment)
            if file is not None:
                # Late: only this needs templates.
                from configdb_sync.status_page.single_file import page

                _write(file, page(api, SystemClock().now(), environment))
    if form == "json":
        show_json({"environments": found})
        return
    for line in _lines(found):
        click.echo(line)
    if file is not None:
        click.echo(f"the page is {file}")


def _write(file: Path, text: str) -> None:
    try:
        write_private(file, text)
    except OSError as error:
        raise SettingsError(
            f"the page {file} can't be written: {error.strerror}", way_out="name another with --html"
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
        raise SettingsError(f"no run has seen environment {environment}", way_out="`configdb-sync status` lists all")
    return found


def _lines(found: list[dict[str, Any]]) -> list[str]:
    if not found:
        return ["There is no environment yet."]
    lines = []
    for one in found:
        run = one["last_run"]
        told = f"environment {one['environment']}: {one['status'] or 'unknown'}"
        if one["status_details"]:
            told += f" ({one['status_details']})"
        if run is not None:
            failed = f", {run['nodes_failed']} failed" if run["nodes_failed"] else ""
            nodes = "" if run["nodes"] is None else f", {run['nodes']} nodes{failed}"
            told += f"; last run {run['started_at'][:19].replace('T', ' ')} {run['outcome']}{nodes}"
        lines.append(told)
    return lines
