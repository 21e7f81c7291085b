"""Options that mean the same in every command."""

from __future__ import annotations

import functools
import getpass
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

from configdb_sync import state
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.connect import EMBEDDED, connect
from configdb_sync.configdb.model import Writer

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Session:
    """What a command works with."""

    configdb: str
    state_folder: str | None
    configdb_database: str | None
    token_file: Path | None
    run: str = field(default_factory=lambda: f"req-{uuid.uuid4()}")

    def client(self, *, comment: str | None = None) -> ConfigDBClient:
        """Return a client that writes in the local user's name. Raises as ``connect`` does."""
        database_url = self.configdb_database
        if self.configdb == EMBEDDED and database_url is None:
            folder = state.locate(self.state_folder, os.environ, root=os.geteuid() == 0)
            database_url = state.open_state(folder).configdb_database_url
        writer = Writer(self.run, getpass.getuser(), comment)
        return connect(self.configdb, database_url=database_url, token_file=self.token_file, writer=writer)


def configdb_options(command: F) -> F:
    """Give a command what it needs to reach ConfigDB: a ``Session`` as its first argument."""

    @click.option("--configdb", default=EMBEDDED, metavar="embedded|URL|catalog")
    @click.option("--state", metavar="DIR")
    @click.option("--configdb-database", metavar="URL")
    @click.option("--configdb-token-file", metavar="FILE")
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        configdb: str,
        state: str | None,
        configdb_database: str | None,
        configdb_token_file: str | None,
        **options: Any,
    ) -> Any:
        token_file = Path(configdb_token_file) if configdb_token_file else None
        return command(Session(configdb, state, configdb_database, token_file), *args, **options)

    return wrapped  # type: ignore[return-value]
