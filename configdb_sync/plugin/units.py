"""The systemd units of the services that the plugin brings: what their settings change in them, and ``systemctl``."""

from __future__ import annotations

import hashlib
import hmac
import json
import shutil
import subprocess
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from configdb_sync.errors import ProductError, SettingsError
from configdb_sync.settings import SERVICES

WRITABLE = {
    "configdb": frozenset({Path("/var/lib/configdb-sync")}),
    "tenants": frozenset({Path("/var/lib/configdb-sync"), Path("/var/log/configdb-sync")}),
    "watch": frozenset({Path("/var/lib/configdb-sync")}),
}
"""Where the units themselves let their services write."""


UNITS = {service: f"configdb-sync-{service}.service" for service in SERVICES}
TIMERS = {"watch": "configdb-sync-watch.timer"}
"""What starts a unit that does not run all the time: it is what is switched on in the unit's place."""


def drop_in(service: str, written: Iterable[Path]) -> str | None:
    """Return the drop-in that lets a unit's service write into these folders, None if it may already.

    Raises ``ValueError`` for a path that no unit file can hold.
    """
    allowed = WRITABLE[service]
    more = sorted({str(path) for path in written if not any(path.is_relative_to(one) for one in allowed)})
    if not more:
        return None
    if any(ord(one) < 32 or one in '"\\' for path in more for one in path):
        raise ValueError("a control character, a quote or a backslash")
    paths = " ".join('"' + path.replace("%", "%%") + '"' for path in more)
    return f"# Written by `configdb-sync services apply`.\n[Service]\nReadWritePaths={paths}\n"


def timer_drop_in(seconds: float) -> str:
    """Return the drop-in that sets the time between the end of one round and the next."""
    # An empty line takes all times back, in every release.
    return (
        "# Written by `configdb-sync services apply`.\n"
        f"[Timer]\nOnActiveSec=\nOnActiveSec=60\nOnUnitInactiveSec={seconds:.0f}\n"
    )


def fingerprint(key: bytes, told: Mapping[str, Any], contents: Mapping[str, bytes]) -> str:
    """Return a text that changes with the settings that a service is started with and with the files that they name.

    ``key``: of the state folder, since a password can be guessed from a bare digest.
    """
    files = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    body = json.dumps([told, files], sort_keys=True, default=str)
    return hmac.new(key, body.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class UnitState:
    """What systemd says of a unit. ``enabled``: it starts with the machine. ``active``: it runs now. ``failed``: it
    failed, or is being started again after that. ``drop_in``: what its files of this product hold, None without any.
    ``fingerprint``: of the settings that it started with, if known."""

    installed: bool
    enabled: bool
    active: bool
    failed: bool = False
    drop_in: Hashable = None
    fingerprint: str | None = None


@dataclass(frozen=True)
class UnitGoal:
    """What the settings say of a service."""

    enabled: bool
    drop_in: Hashable = None
    fingerprint: str | None = None


class UnitStep(StrEnum):
    """One change of a unit, in the order of execution."""

    WRITE = "write"
    REMOVE = "remove"
    ENABLE = "enable"
    DISABLE = "disable"
    START = "start"
    RESTART = "restart"
    STOP = "stop"
    RESET = "reset-failed"


def steps(found: UnitState, wanted: UnitGoal) -> tuple[UnitStep, ...]:
    """Return the steps to the wanted state, none if the unit is in it. A unit that runs as it should is left alone."""
    done: list[UnitStep] = []
    if found.drop_in != wanted.drop_in:
        done.append(UnitStep.REMOVE if wanted.drop_in is None else UnitStep.WRITE)
    if found.enabled != wanted.enabled:
        done.append(UnitStep.ENABLE if wanted.enabled else UnitStep.DISABLE)
    if not wanted.enabled:
        if found.active or found.failed:
            done.append(UnitStep.STOP)
        if found.failed:
            done.append(UnitStep.RESET)
    elif not found.active:
        done.append(UnitStep.START)
    elif found.fingerprint != wanted.fingerprint or done[:1] in ([UnitStep.WRITE], [UnitStep.REMOVE]):
        done.append(UnitStep.RESTART)
    return tuple(done)


_SECONDS = 330
"""Longer than the units' own ``TimeoutStartSec``."""
DROP_IN = "configdb-sync.conf"


class ServiceError(ProductError):
    """systemd didn't carry out a command."""


@dataclass(frozen=True)
class Systemd:
    """systemd below ``root``, its units' changes in ``folder`` there."""

    root: Path = Path("/")
    folder: str = "etc/systemd/system"

    def check(self) -> None:
        """Raise ``SettingsError`` on a machine that systemd doesn't run."""
        if shutil.which("systemctl") is None or not (self.root / "run/systemd/system").is_dir():
            raise SettingsError(
                "systemd doesn't run this machine",
                way_out="start `configdb-sync configdb serve` and `configdb-sync tenants serve` in another way",
            )

    def enabled(self, unit: str) -> bool:
        """Tell whether a unit starts with the machine."""
        return self._call("is-enabled", "--quiet", unit).returncode == 0

    def state(self, unit: str) -> str:
        """Return systemd's word for it: ``active``, ``inactive``, ``failed``, ``activating``, ..."""
        return self._shown("ActiveState", unit)

    def installed(self, unit: str) -> bool:
        """Tell whether systemd knows the unit."""
        return self._shown("LoadState", unit) == "loaded"

    def drop_in(self, unit: str) -> str | None:
        """Return the unit's drop-in of this product, None if there is none."""
        try:
            return self._path(unit).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise ServiceError(f"{self._path(unit)} can't be read: {type(error).__name__}") from None

    def lay(self, unit: str, text: str | None) -> None:
        """Write a unit's drop-in, or remove it for None, and have systemd read it. Raises ``ServiceError``."""
        path = self._path(unit)
        try:
            if text is None:
                path.unlink(missing_ok=True)
            else:
                path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                path.chmod(0o644)
        except OSError as error:
            raise ServiceError(f"{path} can't be written: {error.strerror}", way_out="run as root") from None
        self.do("daemon-reload")

    def do(self, verb: str, *unit: str) -> None:
        """Run ``systemctl VERB [UNIT]``. Raises ``ServiceError`` that says how to find the reason."""
        done = self._call(verb, *unit)
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["no reason was given"])[0]
            raise ServiceError(
                f"systemctl {' '.join([verb, *unit])}: {said}",
                way_out=f"journalctl -u {unit[0]} -n 20 tells why" if unit else "run as root",
            )

    def _shown(self, name: str, unit: str) -> str:
        return self._call("show", f"--property={name}", unit).stdout.strip().removeprefix(f"{name}=")

    def _path(self, unit: str) -> Path:
        return self.root / self.folder / f"{unit}.d" / DROP_IN

    def _call(self, *words: str) -> subprocess.CompletedProcess[str]:
        try:
            return subprocess.run(  # noqa: S603  # fixed words, and the names of our own units
                ["systemctl", *words],  # noqa: S607  # where it lies differs
                capture_output=True,
                text=True,
                check=False,
                timeout=_SECONDS,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ServiceError(f"systemctl {words[0]} failed: {type(error).__name__}") from None
