"""The options of commands, most of them made from the settings."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, TypeVar

import click

from configdb_sync.cli import completion
from configdb_sync.cli.help import GENERAL, WHAT, HeadedOption
from configdb_sync.closed_files import open_closed
from configdb_sync.errors import SettingsError
from configdb_sync.settings import FAILURES, Settings

F = TypeVar("F", bound=Callable[..., Any])

_FILE_IN_STATE = "a file in the state folder"
_TEXTS: Mapping[str, Mapping[str, tuple[str | None, str] | tuple[str, str, str]]] = {
    "Run": {
        "tenant": ("ID", "Tenant that owns new environments."),
        "levels": ("NAME=TEMPLATE,...", "Hierarchy levels, outermost first."),
        "data_sources": ("LIST", "Data sources to add to the default list; -NAME removes one."),
        "writable": ("LIST", "Absolute paths on nodes that may be written, with everything below them."),
        "parallel": ("N", "Number of nodes to process in parallel."),
        "unsafe_share": ("SHARE", "Share of its keys (0 to 1) that a document may lose in one run."),
        "wait": ("SECONDS", "How long to wait for another run to end."),
        "time_limit": ("SECONDS", "End the run within this time.", "no limit; 280 with --stage"),
        "failure_policy": ("LIST", f"With --stage: failures that stop the deployment: {', '.join(FAILURES)}; or none."),
        "keep_runs": ("N", "Number of runs to keep for each environment."),
    },
    "ConfigDB": {
        "configdb": ("embedded|URL|catalog", "The built-in ConfigDB, the one at URL, or that of Keystone's catalog."),
        "configdb_database": ("URL", "Database of the built-in ConfigDB.", _FILE_IN_STATE),
        "configdb_token_file": ("FILE", "File with the token for the ConfigDB at URL."),
        "configdb_ca": ("FILE", "CA certificates for ConfigDB.", "the system's"),
        "configdb_insecure": (None, "Do not verify ConfigDB's certificate."),
        "keep_versions": ("N", "Number of versions to keep of each document if ConfigDB keeps none."),
    },
    "State and database": {
        "state": ("DIR", "State folder (mode 0700): databases, tokens, keys, locks."),
        "database": ("URL", "Database for runs, records and tenants.", _FILE_IN_STATE),
        "key_file": ("FILE", "File with the keys that encrypt the databases.", "no encryption"),
    },
    "Nailgun": {
        "nailgun": ("URL", "Nailgun's address. Nailgun knows the nodes and their state."),
        "nailgun_ca": ("FILE", "CA certificates for Nailgun.", "the master's own, if present"),
        "page_url": ("URL", "Address of `tenants serve` for browsers. With --stage, the Fuel UI links to it."),
    },
    "MCollective": {
        "mco_config": ("FILE", "MCollective's client settings."),
        "mco_timeout": ("SECONDS", "How long to wait for a node's reply."),
        "mco_connect_limit": ("SECONDS", "How long one attempt to connect to a broker may take."),
        "mco_attempts": ("N", "Number of attempts to connect to each broker."),
    },
}
"""Each setting's help by heading: what the option takes (None for a switch), its text, what applies without a value."""


@dataclass(frozen=True)
class SettingOption:
    """The option of a setting."""

    name: str
    heading: str
    metavar: str | None
    text: str
    unset: str | None = None

    @property
    def flag(self) -> str:
        """The option's name."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def default_text(self) -> str | None:
        """The setting's default as the help shows it, None if there is nothing to show."""
        default = getattr(Settings, self.name)
        if default is None or default == () or default is False:
            return self.unset
        return f"{default:g}" if isinstance(default, float) else shown(default).replace(",", ", ")

    def add_to(self, function: F) -> F:
        """Return a function that becomes a command, with this option."""
        text = f"{self.text}  [default: {self.default_text}]" if self.default_text else self.text
        switch: dict[str, Any] = {"is_flag": True, "default": None} if self.metavar is None else {}
        return _headed(self.heading, self.flag, metavar=self.metavar, help=text, **switch)(function)


SETTINGS: Mapping[str, SettingOption] = {
    name: SettingOption(name, heading, *texts) for heading, group in _TEXTS.items() for name, texts in group.items()
}
"""The option of each setting."""

CONNECTION = (
    *("configdb", "configdb_database", "configdb_token_file", "configdb_ca", "configdb_insecure", "keep_versions"),
    *("state", "database"),
)
NAILGUN = ("nailgun", "nailgun_ca")
BUS = ("mco_config", "mco_timeout", "mco_connect_limit", "mco_attempts")
STATE = ("database", "configdb_database", "state")
RUN = (*CONNECTION, "tenant", "levels", "data_sources", "writable", "parallel", "unsafe_share", *NAILGUN, *BUS)
SYNC = (*RUN, "wait", "time_limit", "failure_policy", "keep_runs", "page_url")

_LONGEST_TEXT = 64 << 20  # What the embedded server takes as a body.
_HIGHEST = 2**31 - 1  # What every database holds as an integer; Nailgun's numbers are no larger.


def with_session(*names: str) -> Callable[[F], F]:
    """Give a command the named settings' options and ``--settings``; it gets a ``Session`` as its first argument.

    A command that opens a database gets the option for its keys, too.
    """
    if not {"database", "configdb_database"}.isdisjoint(names):
        names = (*dict.fromkeys((*names, "key_file")),)

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def wrapped(*args: Any, settings_file: str | None, **kwargs: Any) -> Any:
            # Late: help and a wrong option need none of what a session brings along.
            from configdb_sync.cli.command_session import open_session

            flags = {name: kwargs.pop(name) for name in names}
            return function(open_session(flags, settings_file, kwargs), *args, **kwargs)

        text = "Settings file (mode 0600).  [default: /etc/configdb-sync/settings.yaml]"
        decorated: Any = _headed(GENERAL, "--settings", "settings_file", metavar="FILE", help=text)(wrapped)
        for option in reversed([*SETTINGS.values()]):
            if option.name in names:
                decorated = option.add_to(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


def _headed(heading: str, *names: str, **attributes: Any) -> Callable[[F], F]:
    return click.option(*names, cls=HeadedOption, heading=heading, **attributes)


def shown(value: Any) -> str:
    """Return a setting's value as text, in the form that its option takes."""
    if isinstance(value, tuple):
        return ",".join("=".join(one) if isinstance(one, tuple) else str(one) for one in value)
    return str(value)


def what_option(*names: str, **attributes: Any) -> Callable[[F], F]:
    """Return an option that says what the command works on; the shell completes values of names that it knows."""
    return _headed(WHAT, *names, shell_complete=completion.OF_OPTIONS.get(names[0]), **attributes)


class _WholeNumber(click.IntRange):
    """A whole number within limits, named so in errors."""

    name = "whole number"


def env_option(
    text: str = "The environment's number.", *, lowest: int = 1, required: bool = True, several: bool = False
) -> Callable[[F], F]:
    """Return the option of an environment of Fuel; with ``lowest=0``, of any that ConfigDB may hold.

    ``several``: it may be repeated, and the command gets ``environments``.
    """
    kind, name = _WholeNumber(lowest, _HIGHEST), "environments" if several else "environment"
    return what_option("--env", name, type=kind, required=required, multiple=several, metavar="N", help=text)


def format_option(*forms: str, short: bool = True) -> Callable[[F], F]:
    """Return the option of the output format; the first is the default. ``short``: also as ``-f``."""
    names = ("--format", *(("-f",) if short else ()), "form")
    return click.option(*names, type=click.Choice(forms), default=forms[0], show_default=True, help="Output format.")


def file_option(*names: str, text: str, stdin: bool = False, required: bool = False) -> Callable[[F], F]:
    """Return an option that takes a file's path; with ``stdin`` also ``-`` for standard input."""
    kind = click.Path(dir_okay=False, allow_dash=True, path_type=Path) if stdin else click.Path(path_type=Path)
    return click.option(*names, type=kind, metavar="FILE", required=required, help=text)


def read_text(path: Path, what: str, way_out: str, *, closed: bool = False) -> str:
    """Return the text of a file of such an option, ``-`` for standard input.

    ``closed``: it must be this user's or root's, of mode 0600. ``what`` names the file in a ``SettingsError``.
    """
    try:
        with ExitStack() as stack:
            if str(path) == "-":
                file: IO[bytes] = sys.stdin.buffer
            else:
                opened = open_closed(path, what, way_out=way_out) if closed else path.open("rb")
                file = stack.enter_context(opened)
            content = file.read(_LONGEST_TEXT + 1)
    except OSError as error:
        raise SettingsError(f"{what} {path} can't be read: {error.strerror}", way_out=way_out) from error
    if len(content) > _LONGEST_TEXT:
        raise SettingsError(f"{what} {path} is larger than {_LONGEST_TEXT >> 20} MiB", way_out="ConfigDB takes no more")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise SettingsError(f"{what} {path} is not UTF-8 text", way_out="save it as UTF-8") from None


node_option = what_option(
    "--node", "nodes", multiple=True, metavar="LIST", help="Only these nodes: IDs or FQDNs, separated by commas."
)
comment_option = click.option("--comment", metavar="TEXT", help="Reason for the change, for the history.")


def node_names(given: Iterable[str]) -> tuple[str, ...]:
    """Return the names in the lists of ``--node``, each once; none if it wasn't given.

    Raises ``SettingsError`` for lists without a name: an empty variable of a shell doesn't mean all nodes.
    """
    lists = list(given)
    names = dict.fromkeys(name.strip() for names in lists for name in names.split(",") if name.strip())
    if lists and not names:
        raise SettingsError("--node names no node", way_out="give IDs or FQDNs, or omit it for all nodes")
    return tuple(names)
