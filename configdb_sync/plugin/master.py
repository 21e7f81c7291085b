"""What lies on a Fuel Master about an environment and about the plugin itself (U3)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from configdb_sync.errors import SettingsError
from configdb_sync.plugin.section import NAME
from configdb_sync.setting_values import flag, given, text

# A safe one, of libyaml where it is there.
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WANTED = (NAME, "master_ip")


@dataclass(frozen=True)
class Section:
    """The plugin's attributes at ``place``: by name, a password among them; its metadata; the master's address."""

    place: str
    attributes: Mapping[str, Any] = field(repr=False)
    metadata: Mapping[str, Any] = field(repr=False)
    master_ip: str | None = None


@dataclass(frozen=True)
class Master:
    """The file system of a Fuel Master below ``root``. Another machine has none of these files."""

    root: Path = Path("/")

    def environment_file(self, env: int) -> Path | None:
        """Return the file with an environment's settings, None if the master has none.

        Fuel 10 and later have ``cluster.yaml`` in one of two places, 9 has ``astute.yaml``.
        """
        places = (
            f"etc/fuel/cluster/{env}/cluster.yaml",
            f"var/lib/fuel/configs/{env}/cluster.yaml",
            f"etc/fuel/cluster/{env}/astute.yaml",
        )
        return next((self.root / place for place in places if (self.root / place).is_file()), None)

    def environment(self, env: int) -> tuple[Section | None, str | None]:
        """Return the plugin's settings in an environment, None unless it is enabled there, and the master's address.

        Raises ``SettingsError`` if the file can't be read.
        """
        path = self.environment_file(env)
        if path is None:
            return None, None
        found = _read(path, _WANTED)
        address = given(str(path), found, "master_ip", text)
        section = _part(path, found, NAME)
        if found.get(NAME) is None:
            return None, address
        metadata = _part(path, section, "metadata")
        if given(str(path), metadata, "enabled", flag) is False:
            return None, address
        return Section(f"{path} ({NAME})", section, metadata, address), address

    def plugin_folder(self, package: Path) -> Path | None:
        """Return the folder of the installed plugin: ``package``'s (this product) own, else the newest."""
        plugins = self.root / "var/www/nailgun/plugins"
        if package.parent.parent == plugins:
            return package.parent
        return max(plugins.glob(f"{NAME}-*"), key=_version, default=None)

    def defaults(self, folder: Path) -> Section:
        """Return the defaults in a plugin folder's ``environment_config.yaml``. Raises ``SettingsError``."""
        path = folder / "environment_config.yaml"
        attributes = _part(path, _read(path, ("attributes",)), "attributes")
        if not attributes:
            raise SettingsError(f"{path} has no attributes", way_out="install the plugin again")
        values = {name: _part(path, attributes, name).get("value") for name in attributes if name != "metadata"}
        return Section(str(path), values, _part(path, attributes, "metadata"))


def _read(path: Path, wanted: tuple[str, ...]) -> Mapping[str, Any]:
    """Return the wanted top-level keys of a YAML file, those that it has."""
    try:
        content = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} can't be read: {type(error).__name__}", way_out="run as root") from None
    try:
        # The file tells of every node, and only a few lines of it are wanted.
        return _mapping(yaml.load("".join(_blocks(content, wanted)), Loader=_LOADER))  # noqa: S506
    except (yaml.YAMLError, ValueError):
        pass
    try:
        return _mapping(yaml.load(content, Loader=_LOADER))  # noqa: S506
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise SettingsError(f"{path} is not YAML{where}", way_out="deploy again: Fuel writes it") from None


def _part(path: Path, whole: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the mapping under a name, an empty one if there is none."""
    found = whole.get(name)
    if found is not None and not isinstance(found, dict):
        raise SettingsError(f"{path}: {name} is no mapping", way_out="write `name: value` lines below it")
    return found or {}


def _blocks(text: str, wanted: tuple[str, ...]) -> list[str]:
    return [
        found[0]
        for name in wanted
        for found in re.finditer(
            rf"^{re.escape(name)}:.*\n?(?:(?:[ \t#-].*)?\n|[ \t#-].*\Z)*", text, flags=re.MULTILINE
        )
    ]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _version(folder: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", folder.name)]
