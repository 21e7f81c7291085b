"""Which of the plugin's settings come first (U3)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

from configdb_sync.plugin.master import Master, Section
from configdb_sync.plugin.section import layer
from configdb_sync.settings import Layer, Settings

AskNailgun = Callable[[Sequence[Layer]], "Section | None"]
"""Asks Nailgun for the plugin's settings, with the layers known so far; None if it can't tell."""


def plugin_layers(
    master: Master, package: Path, env: int, *, staged: bool, ask_nailgun: AskNailgun | None = None
) -> tuple[Layer, ...]:
    """Return the plugin's settings for an environment, the most important first; none where it isn't enabled.

    In a deployment (``staged``) the environment's file holds what the deployment goes by. Otherwise what the user set
    since goes first, if Nailgun can be asked. Last come the plugin's own defaults. Raises ``SettingsError``.
    """
    section, address = master.environment(env)
    if section is None and not staged:
        return ()
    own = [] if section is None else [_layer(section, address)]
    folder = master.plugin_folder(package)
    defaults = [] if folder is None else [_layer(master.defaults(folder), address)]
    asked = []
    if ask_nailgun is not None and not (staged and own):
        found = ask_nailgun([*own, *defaults])
        asked = [] if found is None else [_layer(found, address)]
    return (*own, *asked, *defaults) if staged else (*asked, *own, *defaults)


def without_login(settings: Settings, layers: Sequence[Layer]) -> Settings:
    """Return the settings without Nailgun if only the plugin names it, and there is no user to log in as.

    Nailgun on a master always wants a login, and an embedded ConfigDB needs none.
    """
    named = settings.origins.get("nailgun") in {each.place for each in layers}
    if not named or settings.names_user:
        return settings
    origins = {**settings.origins, "nailgun": "not used: no user to log in as"}
    return dataclasses.replace(settings, nailgun=None, origins=origins)


def _layer(section: Section, address: str | None) -> Layer:
    return layer(section.place, section.attributes, section.metadata, section.master_ip or address)
