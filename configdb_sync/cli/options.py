"""The options of commands, most of them made from the settings."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from configdb_sync.cli.help import GENERAL, WHAT, HeadedOption
from configdb_sync.errors import SettingsError
from configdb_sync.settings import SETTINGS, Setting

F = TypeVar("F", bound=Callable[..., Any])

CONNECTION = (
    *("configdb", "configdb_database", "configdb_token_file", "configdb_ca", "configdb_insecure", "keep_versions"),
    *("state", "database"),
)
NAILGUN = ("nailgun", "nailgun_ca")
BUS = ("mco_config", "mco_timeout", "mco_connect_limit", "mco_attempts")
STATE = ("database", "configdb_database", "state")
RUN = (*CONNECTION, "tenant", "levels", "data_sources", "writable", "parallel", "unsafe_share", *NAILGUN, *BUS)
SYNC = (*RUN, "wait", "time_limit", "failure_policy", "keep_runs", "page_url")

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
            from configdb_sync.cli.session import open_session

            flags = {name: kwargs.pop(name) for name in names}
            return function(open_session(flags, settings_file, kwargs), *args, **kwargs)

        text = "Settings file (mode 0600).  [default: /etc/configdb-sync/settings.yaml]"
        decorated: Any = _headed(GENERAL, "--settings", "settings_file", metavar="FILE", help=text)(wrapped)
        for setting in reversed([*SETTINGS.values()]):
            if setting.name in names:
                decorated = _setting_option(setting)(decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


def _headed(heading: str, *names: str, **attributes: Any) -> Callable[[F], F]:
    return click.option(*names, cls=HeadedOption, heading=heading, **attributes)


def _setting_option(one: Setting) -> Callable[[F], F]:
    text = f"{one.help}  [default: {one.default_text}]" if one.default_text else one.help
    switch: dict[str, Any] = {"is_flag": True, "default": None} if one.metavar is None else {}
    return _headed(one.group, one.flag, metavar=one.metavar, help=text, **switch)


def what_option(*names: str, **attributes: Any) -> Callable[[F], F]:
    """Return an option that says what the command works on."""
    return _headed(WHAT, *names, **attributes)


def env_option(text: str = "The environment's number.", *, lowest: int = 1, required: bool = True) -> Callable[[F], F]:
    """Return the option of an environment of Fuel; with ``lowest=0``, of any that ConfigDB may hold."""
    kind = click.IntRange(lowest, _HIGHEST)
    return what_option("--env", "environment", type=kind, required=required, metavar="N", help=text)


def format_option(*forms: str, short: bool = False) -> Callable[[F], F]:
    """Return the option of the output format; the first is the default."""
    names = ("--format", *(("-f",) if short else ()), "form")
    return click.option(*names, type=click.Choice(forms), default=forms[0], show_default=True, help="Output format.")


def file_option(*names: str, text: str, stdin: bool = False) -> Callable[[F], F]:
    """Return an option that takes a file's path; with ``stdin`` also ``-`` for standard input."""
    kind = click.Path(dir_okay=False, allow_dash=True, path_type=Path) if stdin else click.Path(path_type=Path)
    return click.option(*names, type=kind, metavar="FILE", help=text)


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
