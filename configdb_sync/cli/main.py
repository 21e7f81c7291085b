"""The command's entry: which commands there are, and how an error becomes a line and an exit code."""

from __future__ import annotations

import logging
import sys
from typing import Any

import click

from configdb_sync import __version__
from configdb_sync.cli.doctor import doctor
from configdb_sync.cli.gc import gc_command
from configdb_sync.cli.past import approve, runs
from configdb_sync.cli.ping import ping
from configdb_sync.cli.runs import plan, sync
from configdb_sync.cli.serve import configdb
from configdb_sync.cli.simulate import simulate
from configdb_sync.cli.tenants import tenants
from configdb_sync.cli.transfer import COMMANDS as TRANSFER_COMMANDS
from configdb_sync.cli.values import COMMANDS as VALUE_COMMANDS
from configdb_sync.cli.versions import COMMANDS as VERSION_COMMANDS
from configdb_sync.errors import ProductError
from configdb_sync.exits import Exit, exit_of


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="configdb-sync")
def cli() -> None:
    """Keep the settings of OpenStack Fuel nodes and ConfigDB in step."""


for command in (
    plan,
    sync,
    ping,
    simulate,
    approve,
    runs,
    *VALUE_COMMANDS,
    *VERSION_COMMANDS,
    *TRANSFER_COMMANDS,
    gc_command,
    doctor,
    configdb,
    tenants,
):
    cli.add_command(command)


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit with its code; an error is one line on standard error."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        result: Any = cli.main(arguments, prog_name="configdb-sync", standalone_mode=False)
    except ProductError as error:
        _fail(str(error), exit_of(error))
    except click.ClickException as error:
        error.show()
        sys.exit(Exit.USAGE)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted; whatever was begun is whole, run again to go on", Exit.INTERNAL)
    except BrokenPipeError:
        sys.exit(Exit.OK)
    sys.exit(result if isinstance(result, int) else Exit.OK)


def _fail(text: str, code: Exit) -> None:
    click.echo(f"configdb-sync: {text}", err=True)
    sys.exit(code)
