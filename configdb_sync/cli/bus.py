"""How a command comes to the message bus: MCollective's own settings, and the limits of ours."""

from __future__ import annotations

import os
import re
import socket

from configdb_sync.errors import SettingsError
from configdb_sync.mcollective import transport
from configdb_sync.mcollective.bus_settings import Bounds, BusSettings, read_config
from configdb_sync.mcollective.client import BusRpc
from configdb_sync.settings import Settings


def open_bus(settings: Settings) -> BusRpc:
    """Return the bus that the settings lead to; it connects when it is first used. Raises ``SettingsError``."""
    return BusRpc(bus_settings(settings))


def bus_settings(settings: Settings) -> BusSettings:
    """Return what MCollective's settings and ours say of the bus.

    Raises ``SettingsError``, also for files of TLS that can't be used: trying again helps none of them.
    """
    settings.file("mco_config")
    bounds = Bounds(connect=settings.mco_connect_limit, attempts=settings.mco_attempts)
    # Letters that an identity can't have don't matter: the settings on a Fuel master name it.
    identity = re.sub(r"[^A-Za-z0-9_.-]", "-", socket.gethostname())[:200] or "localhost"
    found = read_config(settings.mco_config, os.environ, identity=identity, uid=os.getuid(), bounds=bounds)
    for number, host in enumerate(found.hosts, 1):
        try:
            if host.tls is not None:
                transport.context(host.tls)
        except OSError as error:
            raise SettingsError(
                f"{settings.mco_config}: plugin.rabbitmq.pool.{number}.ssl: {error}",
                way_out="mend the file that it names, or the setting",
            ) from None
    return found
