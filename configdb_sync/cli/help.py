"""How commands are declared and how their help is laid out."""

from __future__ import annotations

import difflib
import functools
import logging
from collections.abc import Callable
from typing import Any

import click

WHAT, _OWN, GENERAL = "What", "Options", "General"
_FIRST = (WHAT, _OWN, "Run")
_QUIET = "configdb_sync.quiet"
VERBOSITY = ("--quiet", "-q", "--debug")
"""The options that may stand before or after the name of a command."""


class HeadedOption(click.Option):
    """An option that stands under a heading of the help."""

    def __init__(self, *args: Any, heading: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.heading = heading

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Return what the help shows in brackets: not the range of an environment's number."""
        found: Any = super().get_help_extra(ctx)
        found.pop("range", None)
        return found


def _set_quiet(context: click.Context, _parameter: click.Parameter, given: bool) -> None:
    if given:
        context.meta[_QUIET] = True
        _set_level(context, logging.getLogger(), logging.ERROR)


def _set_debug(context: click.Context, _parameter: click.Parameter, given: bool) -> None:
    if given:
        # Not those of libraries: they log headers and bodies, which hold secrets.
        _set_level(context, logging.getLogger("configdb_sync"), logging.DEBUG)


def _set_level(context: click.Context, logger: logging.Logger, level: int) -> None:
    """Set a logger's level until the command ends."""
    context.call_on_close(functools.partial(logger.setLevel, logger.level))
    logger.setLevel(level)


def is_quiet() -> bool:
    """Tell whether ``--quiet`` was given to the command at work, or to a group that it is in."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_QUIET))


def _verbosity() -> list[click.Parameter]:
    """Return the options that each command and group has: they may stand before or after a command's name."""
    texts = {
        VERBOSITY[:2]: ("Print only results and errors: no progress, no notes.", _set_quiet),
        VERBOSITY[2:]: ("Log requests and bus calls to standard error, with times.", _set_debug),
    }
    return [
        HeadedOption(names, help=text, callback=call, is_flag=True, expose_value=False, heading=GENERAL)
        for names, (text, call) in texts.items()
    ]


class HelpfulCommand(click.Command):
    """A command whose help has its options under headings and ends with an example."""

    def __init__(self, *args: Any, example: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _verbosity()
        self.example = example

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options: what the command works on, then its own, then the settings by subject."""
        rows: dict[str, list[tuple[str, str]]] = {heading: [] for heading in _FIRST}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and isinstance(parameter, click.Option):
                default = GENERAL if "--help" in parameter.opts else _OWN
                rows.setdefault(getattr(parameter, "heading", default), []).append(record)
        rows[GENERAL] = rows.pop(GENERAL)
        for heading, records in rows.items():
            if records:
                with formatter.section(heading):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the example on one line, so that it can be copied."""
        formatter.write(f"\nExample:\n  {self.example}\n")


class CommandGroup(click.Group):
    """A group that lists its commands in the order of declaration and suggests the nearest name for a wrong one."""

    command_class = HelpfulCommand

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += _verbosity()

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name. Raises ``click.UsageError``."""
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-"):
            close = difflib.get_close_matches(args[0], known, n=1)
            ctx.fail(f"No such command {args[0]!r}.{f' Did you mean {close[0]!r}?' if close else ''}")
        return super().resolve_command(ctx, args)


def command(name: str, *, example: str) -> Callable[[Callable[..., Any]], HelpfulCommand]:
    """Make a command of a function. ``example``: a whole command line."""
    return click.command(name, cls=HelpfulCommand, example=example)
