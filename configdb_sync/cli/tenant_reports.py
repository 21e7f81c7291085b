"""``configdb-sync tenants usage`` and ``policy``: usage records summed, the policy's rules shown."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import click

from configdb_sync.cli.output import show_json
from configdb_sync.errors import SettingsError
from configdb_sync.exits import Exit

_TIME = re.compile(r"\d{4}(-\d\d(-\d\d(T\d\d(:\d\d(:\d\d(\.\d+)?)?)?)?)?)?")
_HEADS = ("tenant", "requests", "changes", "refused", "bytes", "seconds")


def _time(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    text = None if value is None else value.removesuffix("Z")
    if text is not None and not _TIME.fullmatch(text):
        raise click.BadParameter("is no time; for example 2026-11, 2026-11-30 or 2026-11-30T12:00")
    return text


@click.command("usage")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--since", metavar="TIME", callback=_time, help="UTC, or the beginning of it: 2026-11. Itself included.")
@click.option("--until", metavar="TIME", callback=_time, help="Not itself.")
@click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print."
)
def usage_command(*, files: tuple[Path, ...], since: str | None, until: str | None, form: str) -> None:
    """Sum the records of `tenants serve --usage-log` by tenant, for charge-back. Name rotated FILES too.

    Lines that are no records are counted and reported; the exit code is 3 then.
    """
    from configdb_sync.tenants.metrics import Usage

    found = Usage()
    for path in files:
        try:
            with path.open("rb") as file:
                found.add(file, since, until)
        except OSError as error:
            raise SettingsError(f"the usage log {path} can't be read: {error.strerror}") from None
    if form == "json":
        show_json(
            {
                "tenants": [{"tenant": tenant, **each.json()} for tenant, each in found.ordered()],
                "unreadable": found.unreadable,
            }
        )
    else:
        rows = [("-" if tenant is None else repr(tenant), each.json()) for tenant, each in found.ordered()]
        for row in (_HEADS, *((name, *map(str, told.values())) for name, told in rows)):
            click.echo("  ".join(row))
    if found.unreadable:
        click.echo(f"configdb-sync: {found.unreadable} lines are no usage records and were left out", err=True)
        sys.exit(Exit.PARTIAL)


@click.command("policy")
@click.argument("file", required=False, type=click.Path(path_type=Path))
def policy_command(*, file: Path | None) -> None:
    """Print all rules of the policy with their defaults, to be copied and changed; or check FILE."""
    from configdb_sync.tenants import policy

    if file is not None:
        found, _ = policy.read(file, {one.name: one.check_str for one in policy.rules()})
        click.echo(f"{file}: {len(found)} rules can be used")
        return
    from oslo_config import cfg
    from oslo_policy import generator

    generator.generate_sample(["--namespace", policy.NAMESPACE], cfg.ConfigOpts())


COMMANDS = [usage_command, policy_command]
