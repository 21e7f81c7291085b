"""The machine's systemd, asked and told by ``systemctl``."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from configdb_sync.errors import ProductError, SettingsError

_SECONDS = 330
"""Longer than the units' own ``TimeoutStartSec``."""
DROP_IN = "configdb-sync.conf"


class ServiceError(ProductError):
    """systemd didn't do what was asked of it."""


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
                way_out="start `configdb-sync configdb serve` and `configdb-sync tenants serve` by what does",
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
        """Return what is laid over a unit by us, None if nothing is."""
        try:
            return self._path(unit).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise ServiceError(f"{self._path(unit)} can't be read: {type(error).__name__}") from None

    def lay(self, unit: str, text: str | None) -> None:
        """Lay a text over a unit, or take it away, and have systemd read it. Raises ``ServiceError``."""
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
        """Have systemd do something. Raises ``ServiceError`` with the way to learn why it didn't."""
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
