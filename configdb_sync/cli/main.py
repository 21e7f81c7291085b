"""The command's entry: which commands there are, and how an error becomes a line and an exit code."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from configdb_sync import __version__
from configdb_sync.cli import output
from configdb_sync.cli.help import CommandGroup
from configdb_sync.errors import ProductError
from configdb_sync.exits import Exit, exit_of
from configdb_sync.jsonvalues import is_unicode
from configdb_sync.nodes.node_files import shown

COMMANDS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Runs": {
        "plan": ("runs.plan", "Show what `sync` would change."),
        "sync": ("runs.sync", "Upload the nodes' settings and write their files."),
        "status": ("environments.status", "Show the status and the last run of environments."),
        "watch": ("watch.watch", "Find what differs between runs, changing nothing."),
        "runs": ("environments.runs", "List runs, or show one."),
        "approve": ("environments.approve", "Approve unsafe changes by their digest."),
        "gc": ("environments.gc", "Find and remove data of nodes that no longer exist."),
    },
    "Values": {
        "lookup": ("queries.lookup_key", "Print what Puppet on a node reads for a key."),
        "find": ("queries.find_keys", "Find keys and values on all nodes."),
        "compare": ("queries.compare", "Show how nodes or environments differ."),
        "get": ("values.get_value", "Print a data source, or one key of it."),
        "override": ("override_commands.override", "Override keys for nodes or groups of nodes."),
        "rm-override": ("override_commands.rm_override", "Remove overrides."),
        "overrides": ("override_files.overrides", "List all overrides, or keep them in a file."),
        "set": ("values.set_value", "Write a value at a level of the hierarchy."),
        "del": ("values.del_value", "Delete a value at a level of the hierarchy."),
    },
    "History": {
        "history": ("history.history", "List the versions of overrides or values."),
        "diff": ("history.diff", "Show the changes between two versions."),
        "revert": ("history.revert", "Go back to an older version."),
    },
    "Checks": {
        "doctor": ("doctor.doctor", "Show all settings and test every connection."),
        "ping": ("doctor.ping", "Show which nodes answer over MCollective."),
    },
    "Services": {
        "services": ("services.services", "Manage the services of this machine."),
        "configdb": ("serve.configdb", "Serve the built-in ConfigDB."),
        "tenants": ("tenants.tenants", "Manage tenants, and serve the tenant API."),
        "keystone": ("registration.keystone", "Register ConfigDB in Keystone."),
        "dashboard-link": ("registration.dashboard_link", "Link the Fuel UI to the status page."),
        "hiera-backend": ("hiera_backend.hiera_backend", "Manage the Hiera backend on the nodes."),
    },
    "Backup and encryption": {
        "backup": ("backup.backup", "Save the state to a file."),
        "restore": ("backup.restore", "Restore the state from a file."),
        "dump": ("backup.dump", "Export an environment to files."),
        "load": ("backup.load", "Import an environment from a dump."),
        "keys": ("keys.keys", "Manage the keys that encrypt the databases."),
    },
}
"""Every command by its heading and name: its module and function below ``configdb_sync.cli``, and its short help."""


VARIABLE = "_CONFIGDB_SYNC_COMPLETE"
"""The variable by which a shell asks for completion."""


class LazyGroup(CommandGroup):
    """The commands of ``COMMANDS``, each imported when it is used: none loads what only another one needs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return [name for commands in COMMANDS.values() for name in commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command, imported now; None if there is none of that name."""
        for commands in COMMANDS.values():
            if cmd_name in commands and cmd_name not in self.commands:
                module, name = commands[cmd_name][0].split(".")
                self.add_command(getattr(importlib.import_module(f"configdb_sync.cli.{module}"), name), cmd_name)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands under its headings, without importing any."""
        for heading, commands in COMMANDS.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:<14}", text) for name, (_, text) in commands.items()])

    def all_commands(self) -> dict[str, click.Command]:
        """Return all commands by name, imported now."""
        context = click.Context(self)
        found = {name: self.get_command(context, name) for name in self.list_commands(context)}
        return {name: command for name, command in found.items() if command is not None}


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="configdb-sync")
def cli() -> None:
    """Keep the settings of OpenStack Fuel nodes and ConfigDB in step."""


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit with its code; an error is one line on standard error."""
    output.guard()
    if VARIABLE in os.environ:
        from configdb_sync.cli import completion

        completion.answer(cli, VARIABLE)
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    try:
        result: Any = cli.main(arguments, prog_name="configdb-sync", standalone_mode=False, color=_colours())
    except ProductError as error:
        _fail(str(error), exit_of(error))
    except click.ClickException as error:
        error.show()
        sys.exit(Exit.USAGE)
    except UnicodeEncodeError:
        # Names of files may be any bytes: the errors about their folders name them. Anything else must be text.
        given = sys.argv[1:] if arguments is None else arguments
        odd = [argument for argument in given if not is_unicode(argument)]
        if not odd:
            raise
        _fail(f"{shown(odd[0])} is not UTF-8 text; nothing was changed", Exit.USAGE)
    except (click.Abort, KeyboardInterrupt):
        _fail("interrupted; no file or document is half written, run again to continue", Exit.INTERNAL)
    sys.exit(result if isinstance(result, int) else Exit.OK)


def _colours() -> bool | None:
    """Return False if the environment wants no colours (https://no-color.org), None if the terminal decides."""
    return False if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" else None


def _fail(text: str, code: Exit) -> None:
    click.echo(f"configdb-sync: {text}", err=True)
    sys.exit(code)
