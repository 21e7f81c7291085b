"""``configdb-sync services``: the services of this machine, made as the settings file says."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from configdb_sync.cli.options import Session
from configdb_sync.cli.output import write_private
from configdb_sync.cli.service_options import chosen, is_enabled
from configdb_sync.errors import SettingsError, StateError
from configdb_sync.exits import Exit
from configdb_sync.plugin import units
from configdb_sync.plugin.units import ServiceError, Systemd, UnitGoal, UnitState, UnitStep
from configdb_sync.settings import READERS, SERVICES, Settings, read_settings
from configdb_sync.state import locate
from configdb_sync.store.connections import parsed

SYSTEMD = Systemd()

_DONE = {
    UnitStep.WRITE: "its unit was given the folders that it writes to",
    UnitStep.REMOVE: "its unit is again as the plugin brought it",
    UnitStep.ENABLE: "starts with the machine from now on",
    UnitStep.DISABLE: "no longer starts with the machine",
    UnitStep.START: "started",
    UnitStep.RESTART: "restarted, since its settings changed",
    UnitStep.STOP: "stopped",
    UnitStep.RESET: "its failure is forgotten",
}
_FILES = (
    *("token_file", "tls_cert", "tls_key", "policy_file", "metrics_token_file"),
    *("configdb_token_file", "configdb_ca"),
)


@click.group()
def services() -> None:
    """The services that run on this machine: `services` in the settings file, carried out by systemd."""


@services.command("apply")
def apply_command() -> Exit:
    """Start, restart, stop, enable and disable what the settings file says. What is as it should be is left alone.

    Only the settings file counts, since it is all that the services are started with: no flags, no variables.
    """
    SYSTEMD.check()
    each = list(_services())  # a mistake in the settings is found before anything is done
    code = Exit.OK
    for service in each:
        try:
            done = service.apply()
            click.echo(f"{service.name}: {', '.join(done) or ('runs as it should' if service.enabled else 'off')}")
        except ServiceError as error:
            click.echo(f"{service.name}: {error}", err=True)
            code = Exit.PARTIAL
    return code


@services.command("status")
def status_command() -> Exit:
    """Show each service: what the settings file says, and what it is. Exits with 3 if the two differ."""
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
    """One service and what the settings file says of it."""

    name: str
    session: Session
    enabled: bool
    options: Mapping[str, Any]
    told: Mapping[str, Any]
    drop_in: str | None

    @property
    def unit(self) -> str:
        return units.UNITS[self.name]

    def wanted(self) -> UnitGoal:
        if not self.enabled:
            return UnitGoal(enabled=False)
        return UnitGoal(enabled=True, drop_in=self.drop_in, fingerprint=self._fingerprint())

    def found(self) -> UnitState:
        state = SYSTEMD.state(self.unit)
        return UnitState(
            installed=SYSTEMD.installed(self.unit),
            enabled=SYSTEMD.enabled(self.unit),
            active=state in {"active", "reloading"},
            failed=state in {"failed", "activating", "deactivating"},
            drop_in=SYSTEMD.drop_in(self.unit),
            fingerprint=self._remembered().get(self.name),
        )

    def apply(self) -> list[str]:
        """Carry out what is to be done; return it in words. Raises ``ServiceError``."""
        wanted, found = self.wanted(), self.found()
        if wanted.enabled and not found.installed:
            raise ServiceError(f"there is no unit {self.unit}", way_out="the plugin's package installs it")
        done = []
        for step in units.steps(found, wanted):
            if step in {UnitStep.WRITE, UnitStep.REMOVE}:
                SYSTEMD.lay(self.unit, wanted.drop_in)
            else:
                SYSTEMD.do(step.value, self.unit)
            if step in {UnitStep.START, UnitStep.RESTART}:
                # Again: it may have made its token at the start.
                self._remember(self._fingerprint())
            done.append(_DONE[step])
        return done

    def _fingerprint(self) -> str:
        state = self.session.state
        named = {name: self.options.get(name) or self.told.get(name) for name in _FILES}
        made = (state.token_file,) if self.name == "configdb" else (state.tenants_token_file, state.tenants_key_file)
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
    """Yield the services as the settings file says. Raises ``SettingsError``, ``StateError``."""
    settings = read_settings({}, {})
    # Not this shell's variables: the services don't have them.
    session = Session(dataclasses.replace(settings, state=str(locate(settings.state, {}, root=True))))
    for name in SERVICES:
        section = settings.services.get(name, {})
        command = _command(name)
        options = chosen(command, name, section)
        used = {one.name: getattr(settings, one.name) for one in command.params if one.name in READERS}
        told = {
            "settings": {str(key): str(value) for key, value in used.items()},
            "options": {key: str(value) for key, value in options.items()},
            "login": dict(settings.login) if "keystone" in options.values() or settings.configdb == "catalog" else {},
        }
        try:
            drop_in = units.drop_in(name, _written(settings, session, options))
        except ValueError as error:
            raise SettingsError(f"services.{name} would write into a folder whose name holds {error}") from None
        yield _Service(name, session, is_enabled(name, section), {**used, **options}, told, drop_in)


def _written(settings: Settings, session: Session, options: Mapping[str, Any]) -> Iterator[Path]:
    """Yield the folders that a service writes into."""
    yield session.state.folder
    for url in (settings.database, settings.configdb_database):
        try:
            found = parsed(url, "a database") if url else None
        except StateError:
            continue  # the service itself says what is wrong with it
        if found is not None and found.get_backend_name() == "sqlite" and found.database:
            yield Path(found.database).absolute().parent
    if options.get("usage_log"):
        yield Path(options["usage_log"]).absolute().parent


def _command(service: str) -> click.Command:
    # Late: each brings a server along.
    if service == "configdb":
        from configdb_sync.cli.serve import configdb

        return configdb.commands["serve"]
    from configdb_sync.cli.tenants import tenants

    return tenants.commands["serve"]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
