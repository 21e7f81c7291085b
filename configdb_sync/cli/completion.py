"""Completion of values in the shell: environments, nodes, levels, data sources, keys, runs, tenants.

What is there comes from the product's own database and from ConfigDB, if both exist: completion makes and upgrades
nothing, asks nobody for a password, prints no error, and gives what it has after a second.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import click
from click.shell_completion import BashComplete, CompletionItem, add_completion_class, split_arg_string

from configdb_sync.clock import SystemClock
from configdb_sync.names import natural_key
from configdb_sync.settings import READERS

if TYPE_CHECKING:
    from configdb_sync.cli.command_session import Session
    from configdb_sync.configdb.client import ConfigDBClient
    from configdb_sync.names import LevelPath
    from configdb_sync.store.database import Database

_PATIENCE = 1.0
_MOST_RUNS = 50
_MOST_TENANTS = 1000
Completer: TypeAlias = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


@dataclass(frozen=True)
class _Line:
    """The command line so far: ``flags`` are its settings; ``incomplete`` is the word at work."""

    params: Mapping[str, Any]
    flags: Mapping[str, Any]
    incomplete: str

    @functools.cached_property
    def session(self) -> Session:
        from configdb_sync.cli.command_session import open_session

        return open_session(self.flags, self.params.get("settings_file"), {"environment": self._number})

    @property
    def _number(self) -> int | None:
        given = self.params.get("environment") or self.params.get("environments")
        found = re.match(r"\d+", str(given or ""))
        return int(found[0]) if found else None

    @property
    def environment(self) -> int:
        """The environment's number. Raises ``LookupError`` if it isn't named yet."""
        if self._number is None:
            raise LookupError
        return self._number

    def _require(self, url: str | None, name: str) -> None:
        """Raise ``LookupError`` if the database isn't there yet: a setting's URL, else a file in the state folder."""
        from configdb_sync.state import locate
        from configdb_sync.store.engine import parsed

        path = locate(self.session.settings.state, os.environ, root=os.geteuid() == 0) / name
        if url is not None:
            address = parsed(url, name)
            path = Path(address.database or "" if address.get_backend_name() == "sqlite" else os.devnull)
        if not path.exists():
            raise LookupError

    @contextmanager
    def own(self) -> Iterator[Database]:
        """Yield the product's own database, as it is. Raises ``LookupError`` if there is none."""
        from configdb_sync.store.database import Database

        self._require(self.session.settings.database, "configdb-sync.sqlite")
        with closing(Database(self.session.database, what="the product's own database", patience=0)) as database:
            yield database

    @contextmanager
    def configdb(self) -> Iterator[ConfigDBClient]:
        """Yield a client that asks once. Raises ``LookupError`` if there is no embedded ConfigDB yet."""
        from configdb_sync.configdb.connect import EMBEDDED
        from configdb_sync.http.session import RetryPolicy

        if self.session.settings.configdb == EMBEDDED:
            from configdb_sync.configdb_server.schema import SCHEMA
            from configdb_sync.store.opening import is_current

            self._require(self.session.settings.configdb_database, "configdb.sqlite")
            if not is_current(self.session.configdb_database, SCHEMA, what="ConfigDB"):
                raise LookupError  # a client would bring it up to date
        with self.session.client(policy=RetryPolicy(attempts=1)) as client:
            yield client

    def seen(self) -> dict[str, tuple[str, ...]]:
        """Return the FQDNs of nodes by identity, as runs have seen them."""
        from configdb_sync.store.records import names_seen

        with self.own() as database:
            return names_seen(database, self.environment)

    def levels(self, client: ConfigDBClient) -> LevelPath:
        """Return the level whose keys are meant: that of ``--level``, that of ``--node``, else the first node's."""
        from configdb_sync.configdb import changes

        addresses, seen = self.session.addresses(client, self.environment), self.seen()
        given: Any = tuple(self.params.get("levels") or ())
        if given:
            return addresses.named(changes.parse_levels(given), lambda: seen)
        names = [self.params.get("node") or "", *(self.params.get("nodes") or ())]
        node = next((name for name in ",".join(names).split(",") if name), None)
        known = sorted(seen, key=natural_key) if node is None else [addresses.named_value(node, lambda: seen)]
        return next(iter(addresses.paths(known, seen).values()))


def _completer(find: Callable[[_Line], Iterable[str]]) -> Completer:
    """Make a completer of a function that yields values; those found within the time count, whatever happens."""

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        # What all need is loaded before the time runs: it is for databases and peers.
        importlib.import_module("configdb_sync.cli.command_session")
        found: dict[str, None] = {}
        params = context.params
        options = {name for one in context.command.params for name in one.opts}
        settings = {name for name in READERS if f"--{name.replace('_', '-')}" in options}
        # Not Nailgun's: completion doesn't log in to it for settings.
        flags = {name: params[name] for name in settings & params.keys() if not name.startswith("nailgun")}
        line = _Line(dict(params), flags, incomplete)

        def work() -> None:
            with contextlib.suppress(Exception):
                found.update((value, None) for value in find(line) if value.startswith(incomplete))

        thread = threading.Thread(target=work, name="completion", daemon=True)
        thread.start()
        thread.join(_PATIENCE)
        return [CompletionItem(value) for value in [*found]]

    return complete


@_completer
def environments(line: _Line) -> Iterator[str]:
    """Complete the number of an environment."""
    from configdb_sync.store.runs import PastRuns

    with contextlib.suppress(Exception), line.own() as database:
        newest = PastRuns(database, SystemClock()).newest(None, _MOST_RUNS)
        yield from sorted({str(run.environment) for run in newest}, key=natural_key)
    with line.configdb() as client:
        yield from sorted((str(one.id) for one in client.environments()), key=natural_key)


@_completer
def nodes(line: _Line) -> Iterator[str]:
    """Complete the last one of a list of nodes: IDs, then FQDNs."""
    head = line.incomplete[: line.incomplete.rfind(",") + 1]
    seen = line.seen()
    for name in sorted(seen, key=natural_key):
        yield f"{head}{name}"
    for name in sorted({fqdn for fqdns in seen.values() for fqdn in fqdns}, key=natural_key):
        yield f"{head}{name}"


@_completer
def levels(line: _Line) -> Iterator[str]:
    """Complete a level and its value: the next one below those that are named."""
    from configdb_sync.configdb import changes

    given = {name for name, _ in changes.parse_levels(tuple(line.params.get("levels") or ()))}
    with line.configdb() as client:
        for name in changes.existing(client, line.environment).levels:
            if name not in given:
                for value in sorted(client.level_values(line.environment, name), key=natural_key):
                    yield f"{name}={value}"


@_completer
def data_sources(line: _Line) -> Iterator[str]:
    """Complete the name of a data source."""
    from configdb_sync.configdb import changes

    with line.configdb() as client:
        yield from sorted(client.definitions(changes.existing(client, line.environment)))


@_completer
def keys(line: _Line) -> Iterator[str]:
    """Complete a key, one part after another: of the data source, or of all."""
    from configdb_sync.configdb import changes

    head = line.incomplete[: line.incomplete.rfind(".") + 1]
    with line.configdb() as client:
        definitions = client.definitions(changes.existing(client, line.environment))
        named = line.params.get("data_source")
        place = line.levels(client)
        for definition in [definitions[named]] if named else definitions.values():
            here: Any = client.effective(line.environment, place, definition.id)
            for part in head.split(".")[:-1]:
                here = here.get(part) if isinstance(here, dict) else None
            for key in here if isinstance(here, dict) else ():
                if key and "." not in key and key.isprintable() and not key.startswith("["):
                    yield f"{head}{key}"


@_completer
def runs(line: _Line) -> Iterator[str]:
    """Complete the ID of a run, the newest first."""
    yield "last"
    from configdb_sync.store.runs import PastRuns

    with line.own() as database:
        environment = line.params.get("environment")
        for run in PastRuns(database, SystemClock()).newest(environment, _MOST_RUNS):
            yield run.identity


@_completer
def tenants(line: _Line) -> Iterator[str]:
    """Complete the ID of a tenant."""
    from configdb_sync.tenants import queries

    with line.own() as database:
        page = database.read(lambda connection: queries.tenants(connection, None, _MOST_TENANTS))
        yield from (tenant.id for tenant in page.items)


OF_OPTIONS: Mapping[str, Completer] = {
    "--env": environments,
    "--node": nodes,
    "--level": levels,
    "--data-source": data_sources,
}
"""What completes the values of options that say what a command works on."""


class ConfigDBSyncBash(BashComplete):
    """Completion for bash 4.2, which Fuel masters have, and later: click's own needs 4.4, and words without ``=``."""

    source_template: ClassVar[str] = """\
%(complete_func)s() {
    local IFS=$'\\n' item
    COMPREPLY=()
    for item in $(COMP_LINE="${COMP_LINE:0:$COMP_POINT}" %(complete_var)s=bash_complete "$1" 2>/dev/null); do
        case $item in
            dir,*) compopt -o dirnames ;;
            file,*) compopt -o default ;;
            plain,*) COMPREPLY+=("${item#plain,}") ;;
        esac
    done
}
complete -F %(complete_func)s %(prog_name)s
"""
    _cut = 0

    def source(self) -> str:
        """Return the script for the shell, whatever its version is."""
        return self.source_template % self.source_vars()

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one at work, and that one."""
        line = os.environ.get("COMP_LINE", "")
        words = split_arg_string(line)[1:]
        incomplete = "" if not words or line[-1:].isspace() else words.pop()
        # Bash replaces only what follows one of these.
        self._cut = max(incomplete.rfind("="), incomplete.rfind(":")) + 1
        return words, incomplete

    def format_completion(self, item: CompletionItem) -> str:
        """Return a line for the script."""
        return f"{item.type},{str(item.value)[self._cut :]}"


def answer(group: click.Group, variable: str) -> None:
    """Answer the shell's question and end the process: without an error, and without waiting for a slow peer.

    ``variable``: the one that holds the question.
    """
    add_completion_class(ConfigDBSyncBash)
    logging.disable()
    code = 1
    with Path(os.devnull).open("w", encoding="utf-8") as nowhere, contextlib.redirect_stderr(nowhere):
        try:
            group.main(prog_name="configdb-sync", complete_var=variable)
        except SystemExit as end:
            code = int(end.code or 0)
        except Exception:
            code = 1
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(code)
