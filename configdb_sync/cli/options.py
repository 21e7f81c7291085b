"""Options that commands share."""

from __future__ import annotations

import functools
import os
import pwd
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from configdb_sync import state
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.connect import EMBEDDED, connect
from configdb_sync.configdb.model import Writer
from configdb_sync.errors import SettingsError


@dataclass(frozen=True)
class ConfigDBOptions:
    """Where ConfigDB is, as the command line says."""

    where: str
    state_folder: str | None
    database_url: str | None
    token_file: Path | None

    def client(self, comment: str | None = None) -> ConfigDBClient:
        """Return a client that writes in the local user's name. Raises as ``connect`` does."""
        database_url = self.database_url
        if self.where == EMBEDDED and database_url is None:
            folder = state.locate(self.state_folder, os.environ, root=os.geteuid() == 0)
            database_url = state.open_state(folder).configdb_database_url
        writer = Writer(f"req-{uuid.uuid4()}", _user(), comment)
        return connect(self.where, database_url=database_url, token_file=self.token_file, writer=writer)

    def resolve(self, node: str) -> str:
        """Return the identity of the node with this FQDN."""
        raise SettingsError(
            f"node {node!r} isn't known by name here", way_out="give its id: --level nodes=46"
        )


def configdb_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that say where ConfigDB is; it gets them as ``configdb:
    ConfigDBOptions``."""

    @click.option(
        "--configdb", "where", default=EMBEDDED, metavar="embedded|URL|catalog", help="Where ConfigDB is."
    )
    @click.option("--state", "state_folder", metavar="DIR", help="The state folder.")
    @click.option(
        "--configdb-database", "database_url", metavar="URL", help="The embedded ConfigDB's database."
    )
    @click.option(
        "--configdb-token-file",
        "token_file",
        type=click.Path(dir_okay=False, path_type=Path),
        help="A file that holds the token for ConfigDB.",
    )
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        where: str,
        state_folder: str | None,
        database_url: str | None,
        token_file: Path | None,
        **options: Any,
    ) -> Any:
        return command(
            *args, configdb=ConfigDBOptions(where, state_folder, database_url, token_file), **options
        )

    return wrapped


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
