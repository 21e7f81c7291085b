"""``configdb-sync services``: systemd runs the services that the settings file enables, with its options (U3)."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from configdb_sync import setting_values
from configdb_sync.cli.help import CommandGroup
from configdb_sync.cli.output import write_private
from configdb_sync.errors import SettingsError, StateError
from configdb_sync.exits import Exit
from configdb_sync.plugin import units
from configdb_sync.plugin.units import ServiceError, Systemd, UnitGoal, UnitState, UnitStep
from configdb_sync.settings import READERS, SERVICES, Settings, read_settings
from configdb_sync.state import locate

if TYPE_CHECKING:
    from configdb_sync.cli.command_session import Session


SYSTEMD = Systemd()

_DONE = {
    UnitStep.WRITE: "its unit was given the folders that it writes to",
    UnitStep.REMOVE: "its unit is as installed again",
    UnitStep.ENABLE: "starts with the machine from now on",
    UnitStep.DISABLE: "no longer starts with the machine",
    UnitStep.START: "started",
    UnitStep.RESTART: "restarted, because its settings changed",
    UnitStep.STOP: "stopped",
    UnitStep.RESET: "its failure was reset",
}
_FILES = (
    *("token_file", "tls_cert", "tls_key", "policy_file", "metrics_token_file"),
    *("configdb_token_file", "configdb_ca"),
)


@click.group(cls=CommandGroup)
def services() -> None:
    """Manage the services of this machine.

    The settings file enables and configures them (`services`); systemd runs them.
    """


@services.command("apply", example="configdb-sync services apply")
def apply_command() -> Exit:
    """Start and stop services to match the settings file.

    Starts, restarts, stops, enables and disables only what differs from the settings file. Options and environment
    variables do not count, because the services do not get them.
    """
    SYSTEMD.check()
    each = list(_services())  # A mistake in the settings is found before anything is changed.
    code = Exit.OK
    for service in each:
        try:
            done = service.apply()
            click.echo(f"{service.name}: {', '.join(done) or ('runs as it should' if service.enabled else 'off')}")
        except ServiceError as error:
            click.echo(f"{service.name}: {error}", err=True)
            code = Exit.PARTIAL
    return code


@services.command("status", example="configdb-sync services status")
def status_command() -> Exit:
    """Compare each service with the settings file.

    Exits with 3 if a service differs from its settings.
    """
    SYSTEMD.check()
    code = Exit.OK
    for service in _services():
        found = service.found()
        state = "runs" if found.active else "failed" if found.failed else "doesn't run"
        steps = units.steps(found, service.wanted())
        more = "as the settings say" if not steps else "not as the settings say: `configdb-sync services apply`"
        click.echo(f"{service.name}: {'on' if service.enabled else 'off'} in the settings, {state}; {more}")
        code = Exit.PARTIAL if steps else code
    return code


@dataclass(frozen=True)
class _Service:
    """One service and what the settings file says about it: its options, and everything that it is started with."""

    name: str
    session: Session
    enabled: bool
    options: Mapping[str, Any]
    told: Mapping[str, Any]
    drop_ins: Mapping[str, str | None]

    @property
    def unit(self) -> str:
        """The unit that is switched on: the service, or its timer."""
        return units.TIMERS.get(self.name, units.UNITS[self.name])

    def wanted(self) -> UnitGoal:
        if not self.enabled:
            return UnitGoal(enabled=False)
        return UnitGoal(enabled=True, drop_in=_whole(self.drop_ins.values()), fingerprint=self._fingerprint())

    def found(self) -> UnitState:
        state = SYSTEMD.state(self.unit)
        return UnitState(
            installed=SYSTEMD.installed(self.unit),
            enabled=SYSTEMD.enabled(self.unit),
            active=state in {"active", "reloading"},
            failed=state in {"failed", "activating", "deactivating"},
            drop_in=_whole(map(SYSTEMD.drop_in, self.drop_ins)),
            fingerprint=self._remembered().get(self.name),
        )

    def apply(self) -> list[str]:
        """Make systemd match the settings; return the steps in words. Raises ``ServiceError``."""
        wanted, found = self.wanted(), self.found()
        if wanted.enabled and not found.installed:
            raise ServiceError(f"there is no unit {self.unit}", way_out="the plugin's package installs it")
        done = []
        for step in units.steps(found, wanted):
            if step in {UnitStep.WRITE, UnitStep.REMOVE}:
                for unit, text in self.drop_ins.items():
                    SYSTEMD.lay(unit, text if wanted.enabled else None)
            else:
                SYSTEMD.do(step.value, self.unit)
            if step in {UnitStep.START, UnitStep.RESTART}:
                # Computed again, because the service may have made its token at the start.
                self._remember(self._fingerprint())
            done.append(_DONE[step])
        return done

    def _fingerprint(self) -> str:
        state = self.session.state
        named = {name: self.options.get(name) or self.told.get(name) for name in _FILES}
        made = {
            "configdb": (state.token_file,),
            "tenants": (state.tenants_token_file, state.tenants_key_file),
        }.get(self.name, ())
        files = [*(Path(path) for path in named.values() if path), *made]
        return units.fingerprint(state.mask_key(), self.told, {str(path): _content(path) for path in files})

    def _remembered(self) -> dict[str, str]:
        try:
            found = json.loads(self.session.state.services_file.read_bytes())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def _remember(self, fingerprint: str) -> None:
        path = self.session.state.services_file
        try:
            write_private(path, json.dumps(self._remembered() | {self.name: fingerprint}) + "\n")
        except OSError as error:
            raise ServiceError(f"{path} can't be written: {error.strerror}") from None


def _services() -> Iterator[_Service]:
    """Yield the services with what the settings file says. Raises ``SettingsError``, ``StateError``."""
    from configdb_sync.cli.command_session import Session
    from configdb_sync.cli.serve import serve, serve_tenants
    from configdb_sync.cli.watch import watch

    settings = read_settings({}, {})
    # The services do not see this shell's variables.
    session = Session(dataclasses.replace(settings, state=str(locate(settings.state, {}, root=True))))
    commands = {"configdb": serve, "tenants": serve_tenants, "watch": watch}
    for name in SERVICES:
        section = settings.services.get(name, {})
        command = commands[name]
        options = chosen(command, name, section)
        used = {one.name: getattr(settings, one.name) for one in command.params if one.name in READERS}
        told = {
            "settings": {str(key): str(value) for key, value in used.items()},
            "options": {key: str(value) for key, value in options.items()},
            "login": dict(settings.login) if "keystone" in options.values() or settings.configdb == "catalog" else {},
        }
        drop_ins = {units.TIMERS[name]: _timer(options)} if name in units.TIMERS else {}
        try:
            drop_ins[units.UNITS[name]] = units.drop_in(name, _written(settings, session, options))
        except ValueError as error:
            raise SettingsError(
                f"services.{name} would write to a folder whose name contains {error}", way_out="name another folder"
            ) from None
        yield _Service(name, session, is_enabled(name, section), {**used, **options}, told, drop_ins)


def _whole(texts: Iterable[str | None]) -> tuple[str | None, ...] | None:
    """Return what drop-ins hold, None if there is none of them."""
    found = tuple(texts)
    return found if any(text is not None for text in found) else None


def _timer(options: Mapping[str, Any]) -> str | None:
    """Return the drop-in of a timer, None if its interval isn't set. Raises ``SettingsError``."""
    from configdb_sync.overrides.notes import parse_duration

    interval = options.get("interval")
    return None if interval is None else units.timer_drop_in(parse_duration(interval, "interval").total_seconds())


def _written(settings: Settings, session: Session, options: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the folders that a service writes to."""
    from configdb_sync.store.engine import parsed

    yield session.state.folder
    for url in (settings.database, settings.configdb_database):
        try:
            found = parsed(url, "a database") if url else None
        except StateError:
            continue  # The service itself reports what is wrong with it.
        if found is not None and found.get_backend_name() == "sqlite" and found.database:
            yield Path(found.database).absolute().parent
    for name in ("usage_log", "text_file"):
        if options.get(name):
            yield Path(options[name]).absolute().parent


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


F = TypeVar("F", bound=Callable[..., Any])

_NO_SETTINGS = frozenset({*READERS, "settings_file", "help", "service", "environments", "last", "form", "chosen"})
"""Parameters of the services' commands that the settings file has elsewhere, or that are for people."""
ENABLED = "enabled"
"""The one key that is no option: whether ``configdb-sync services apply`` runs the service on this machine."""


def configured(service: str, *, only: str | None = None, without: str | None = None) -> Callable[[F], F]:
    """Give a command the settings file's values for options that were not given. It needs the session: use it right
    below ``with_session``.

    ``only``: the switch that it takes for that. ``without``: an option that is the unit's alone.
    """

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def wrapped(session: Session, **options: Any) -> Any:
            context = click.get_current_context()
            if only is not None and not options[only]:
                return command(session, **options)
            told = chosen(context.command, service, session.settings.services.get(service, {}), context)
            free = {
                name
                for name in told
                if name != without and context.get_parameter_source(name) is ParameterSource.DEFAULT
            }
            return command(session, **options | {name: told[name] for name in free})

        return wrapped  # type: ignore[return-value]

    return decorate


def chosen(
    command: click.Command, service: str, section: Mapping[str, Any], context: click.Context | None = None
) -> dict[str, Any]:
    """Return the options that a section of the settings file sets, by parameter name, converted for the command.

    Raises ``SettingsError`` for an unknown option or an invalid value.
    """
    context = context or click.Context(command)
    known = {one.name: one for one in command.params if one.name not in _NO_SETTINGS}
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
            raise SettingsError(f"services.{service}.{name} is not valid", way_out=error.message) from None
    return found


def _fits(kind: click.ParamType[Any]) -> Callable[[Any], Any]:
    """Return the reader that refuses values which click would convert to a text or a number."""

    def read(value: Any) -> Any:
        if isinstance(kind, click.types.BoolParamType):
            return setting_values.flag(value)
        number = isinstance(kind, (click.types.IntParamType, click.types.FloatParamType))
        return value if number and type(value) in {int, float} else setting_values.text(value)

    return read


def is_enabled(service: str, section: Mapping[str, Any]) -> bool:
    """Tell whether a section of the settings file enables its service. Raises ``SettingsError``."""
    value = section.get(ENABLED, False)
    if not isinstance(value, bool):
        raise SettingsError(f"services.{service}.{ENABLED} is not valid", way_out="give true or false")
    return value
