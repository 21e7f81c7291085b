"""RabbitMQ and MCollective for the laboratory, as root on Debian. Standard library only."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import debian

BROKER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
DAEMON = Path("usr/sbin/mcollectived")
# Debian has left MCollective out after this release. Its packages are Ruby alone and run on later ones.
LAST = "bookworm"
PACKAGES = ("mcollective", "mcollective-common", "mcollective-client", "ruby-stomp", "ruby-systemu")


def obtain(cache: Path) -> None:
    """Install what is missing. What can't be had is said so; the tests that need it are skipped with their reason."""
    if os.geteuid() != 0 or not debian.here():
        return
    if not BROKER.exists():
        debian.install(["rabbitmq-server"])
    unpacked = cache / "mcollective"
    if not (Path("/") / DAEMON).exists() and not (unpacked / DAEMON).exists():
        if debian.codename() == LAST:
            debian.install(PACKAGES)
        else:
            debian.unpack_from(LAST, PACKAGES, cache, unpacked)
    for path in (BROKER, *([] if (unpacked / DAEMON).exists() else [Path("/") / DAEMON])):
        if not path.exists():
            print(f"{path.name} can't be had here; tests that need it are skipped", file=sys.stderr, flush=True)
