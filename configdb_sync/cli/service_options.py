"""A service's options from the settings file: ``services.configdb`` and ``services.tenants`` (U3)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from configdb_sync import setting_values
from configdb_sync.cli.options import Session
from configdb_sync.errors import SettingsError
from configdb_sync.settings import READERS

F = TypeVar("F", bound=Callable[..., Any])

ENABLED = "enabled"
"""The one key that is no option: whether the service is to run on this machine (``configdb-sync services apply``)."""


def configured(service: str) -> Callable[[F], F]:
    """Give a command what the settings file says of its options, wherever no flag was given. Stands right below
    ``settings_options``: it needs the session."""

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def wrapped(session: Session, **options: Any) -> Any:
            context = click.get_current_context()
            told = chosen(context.command, service, session.settings.services.get(service, {}), context)
            free = {name for name in told if context.get_parameter_source(name) is ParameterSource.DEFAULT}
            return command(session, **options | {name: told[name] for name in free})

        return wrapped  # type: ignore[return-value]

    return decorate


def chosen(
    command: click.Command, service: str, section: Mapping[str, Any], context: click.Context | None = None
) -> dict[str, Any]:
    """Return the options that a section of the settings file sets, by parameter name, as the command takes them.

    Raises ``SettingsError`` for one that the command doesn't have or can't take.
    """
    context = context or click.Context(command)
    known = {one.name: one for one in command.params if one.name not in {*READERS, "settings_file", "help"}}
    found: dict[str, Any] = {}
    for name, value in section.items():
        if name == ENABLED or value is None:
            continue
        if name not in known:
            names = ", ".join(sorted({ENABLED, *map(str, known)}))
            raise SettingsError(
                f"services.{service} has an unknown option {str(name)[:60]!r}", way_out=f"known: {names}"
            )
        place, field = "the settings file", f"services.{service}.{name}"
        fit = setting_values.checked(place, field, value, _fits(known[name].type))
        try:
            found[name] = known[name].type_cast_value(context, fit)
        except click.BadParameter as error:
            raise SettingsError(f"services.{service}.{name} isn't as it must be", way_out=error.message) from None
    return found


def _fits(kind: click.ParamType[Any]) -> Callable[[Any], Any]:
    """Return the reader that keeps from an option what click would make a text or a number of."""

    def read(value: Any) -> Any:
        if isinstance(kind, click.types.BoolParamType):
            return setting_values.flag(value)
        number = isinstance(kind, (click.types.IntParamType, click.types.FloatParamType))
        return value if number and type(value) in {int, float} else setting_values.text(value)

    return read


def is_enabled(service: str, section: Mapping[str, Any]) -> bool:
    """Tell whether a section of the settings file switches its service on. Raises ``SettingsError``."""
    value = section.get(ENABLED, False)
    if not isinstance(value, bool):
        raise SettingsError(f"services.{service}.{ENABLED} isn't as it must be", way_out="give true or false")
    return value
