"""The systemd units of the services that the plugin brings, and what their settings change in them. Pure."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from configdb_sync.settings import SERVICES

WRITABLE = {
    "configdb": frozenset({Path("/var/lib/configdb-sync")}),
    "tenants": frozenset({Path("/var/lib/configdb-sync"), Path("/var/log/configdb-sync")}),
}
"""Where the units themselves let their services write."""


def unit_name(service: str) -> str:
    """Return the unit of one of ``SERVICES``."""
    return f"configdb-sync-{service}.service"


UNITS = {service: unit_name(service) for service in SERVICES}


def drop_in(service: str, written: Iterable[Path]) -> str | None:
    """Return what must be laid over a unit so that its service may write into these folders, None if it may already.

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


def fingerprint(key: bytes, told: Mapping[str, Any], contents: Mapping[str, bytes]) -> str:
    """Return a text that changes when the settings that a service is started with do, or a file that they name.

    ``key``: of the state folder, since a bare digest of a password can be guessed.
    """
    files = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    body = json.dumps([told, files], sort_keys=True, default=str)
    return hmac.new(key, body.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Found:
    """What systemd says of a unit: whether it is installed, starts with the machine, and runs now; and what is known
    of the settings that it was started with (None: nothing). ``failed``: it did, or is being started again after it."""

    installed: bool
    enabled: bool
    active: bool
    failed: bool = False
    drop_in: str | None = None
    fingerprint: str | None = None


@dataclass(frozen=True)
class Wanted:
    """What the settings say of a service."""

    enabled: bool
    drop_in: str | None = None
    fingerprint: str | None = None


class Step(StrEnum):
    """One thing to be done to a unit, in the order in which they are done."""

    WRITE = "write"
    REMOVE = "remove"
    ENABLE = "enable"
    DISABLE = "disable"
    START = "start"
    RESTART = "restart"
    STOP = "stop"
    RESET = "reset-failed"


def steps(found: Found, wanted: Wanted) -> tuple[Step, ...]:
    """Return what makes a unit as it is wanted: none if it is so. One that runs as it should is left alone."""
    done: list[Step] = []
    if found.drop_in != wanted.drop_in:
        done.append(Step.REMOVE if wanted.drop_in is None else Step.WRITE)
    if found.enabled != wanted.enabled:
        done.append(Step.ENABLE if wanted.enabled else Step.DISABLE)
    if not wanted.enabled:
        if found.active or found.failed:
            done.append(Step.STOP)
        if found.failed:
            done.append(Step.RESET)
    elif not found.active:
        done.append(Step.START)
    elif found.fingerprint != wanted.fingerprint or done[:1] in ([Step.WRITE], [Step.REMOVE]):
        done.append(Step.RESTART)
    return tuple(done)
