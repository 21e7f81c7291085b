"""The command's entry: which commands there are, and how an error becomes a line and an exit code."""

from __future__ import annotations

import logging
import sys
from typing import Any

import click

from configdb_sync import __version__
from configdb_sync.cli import streams
from configdb_sync.cli.lazy import LazyGroup
from configdb_sync.errors import ProductError
from configdb_sync.exits import Exit, exit_of
from configdb_sync.jsonvalues import is_unicode
from configdb_sync.nodes.node_files import shown

_PLACES = {
    "plan": ("runs", "plan"),
    "sync": ("runs", "sync"),
    "ping": ("ping", "ping"),
    "approve": ("past", "approve"),
    "runs": ("past", "runs"),
    "status": ("status", "status"),
    "get": ("values", "get_command"),
    "set": ("values", "set_command"),
    "del": ("values", "del_command"),
    "override": ("values", "override_command"),
    "rm-override": ("values", "rm_override_command"),
    "history": ("versions", "history_command"),
    "diff": ("versions", "diff_command"),
    "revert": ("versions", "revert_command"),
    "overrides": ("versions", "overrides_command"),
    "dump": ("transfer", "dump_command"),
    "load": ("transfer", "load_command"),
    "gc": ("gc", "gc_command"),
    "doctor": ("doctor", "doctor"),
    "hiera-backend": ("hiera_backend", "hiera_backend"),
    "dashboard-link": ("dashboard", "dashboard_link"),
    "keystone": ("keystone", "keystone"),
    "keys": ("keys", "keys"),
    "configdb": ("serve", "configdb"),
    "tenants": ("tenants", "tenants"),
    "services": ("services", "services"),
    "backup": ("backup", "backup_command"),
    "restore": ("backup", "restore_command"),
}


@click.group(
    cls=LazyGroup,
    places=_PLACES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="configdb-sync")
def cli() -> None:
    """Keep the settings of OpenStack Fuel nodes and ConfigDB in step."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit with its code; an error is one line on standard error."""
    streams.guard()
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        result: Any = cli.main(arguments, prog_name="configdb-sync", standalone_mode=False)
    except ProductError as error:
        _fail(str(error), exit_of(error))
    except click.ClickException as error:
        error.show()
        sys.exit(Exit.USAGE)
    except UnicodeEncodeError:
        # Names of files may be any bytes, and are told by their folders' errors; anything else must be text.
        given = sys.argv[1:] if arguments is None else arguments
        odd = [argument for argument in given if not is_unicode(argument)]
        if not odd:
            raise
        _fail(f"{shown(odd[0])} isn't text in UTF-8; nothing was done with it", Exit.USAGE)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted; whatever was begun is whole, run again to go on", Exit.INTERNAL)
    sys.exit(result if isinstance(result, int) else Exit.OK)


def _fail(text: str, code: Exit) -> None:
    click.echo(f"configdb-sync: {text}", err=True)
    sys.exit(code)
