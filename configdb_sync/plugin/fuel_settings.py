"""The plugin's settings as a Fuel Master has them, made layers of the product's settings (U3, F3).

``Master`` reads the master's files. An environment's file holds the plugin's attributes flattened below its name,
``metadata`` verbatim with Nailgun's own keys and the plugin's constants.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from configdb_sync import setting_values
from configdb_sync.errors import SettingsError
from configdb_sync.setting_values import checked, flag, given, is_empty, text
from configdb_sync.settings import Settings, SettingsLayer

NAME = "configdb-sync"
"""The plugin's name, and so the key of its settings."""

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


_POLICY = {"stop_deploying": "deploying", "stop_ready": "ready", "stop_configdb": "configdb", "stop_post": "post"}
_LOGIN = {
    "auth_url": "OS_AUTH_URL",
    "username": "OS_USERNAME",
    "password": "OS_PASSWORD",
    "project": "OS_PROJECT_NAME",
    "region": "OS_REGION_NAME",
    "ca_file": "OS_CACERT",
}


def layer(place: str, attributes: Mapping[str, Any], metadata: Mapping[str, Any], master_ip: Any) -> SettingsLayer:
    """Return the attributes as a layer of settings. Empty attributes are left to the next layer.

    ``place``: its name in errors and origins. ``master_ip``: where Keystone and Nailgun are, unless an attribute says.
    Raises ``SettingsError`` that names the place and the field. The settings' own rules are checked when the layers are
    read.
    """
    read = partial(given, place)
    verify_tls = read(attributes, "verify_tls", setting_values.flag)
    fields: dict[str, Any] = {
        "configdb": _configdb(place, attributes),
        "configdb_ca": read(attributes, "ca_file", setting_values.text),
        "failure_policy": _policy(place, attributes),
        # What these may hold is the settings' own rule, under the same names.
        **{name: attributes.get(name) for name in ("tenant", "parallel", "unsafe_share", "page_url")},
        "data_sources": _listed(place, metadata, "data_sources", setting_values.names),
        "writable": _listed(place, metadata, "writable", setting_values.places),
    }
    login = {
        variable: read(attributes, name, setting_values.login(variable[3:].lower()))
        for name, variable in _LOGIN.items()
    }
    login["OS_INTERFACE"] = read(metadata, "interface", setting_values.text)
    login["OS_DEFAULT_DOMAIN_NAME"] = read(metadata, "default_domain", setting_values.text)
    if verify_tls is False:
        fields["configdb_insecure"] = True
        login["OS_INSECURE"] = "true"
    ports = {name: read(metadata, f"{name}_port", setting_values.whole(1, 65535)) for name in ("nailgun", "keystone")}
    if master_ip is not None:
        host = checked(place, "master_ip", master_ip, setting_values.host)
        fields["nailgun"] = f"https://{host}:{ports['nailgun'] or 8443}"
        login["OS_AUTH_URL"] = login["OS_AUTH_URL"] or f"http://{host}:{ports['keystone'] or 5000}"
    return SettingsLayer(
        place,
        {name: value for name, value in fields.items() if not is_empty(value)},
        {name: value for name, value in login.items() if value is not None},
    )


def _configdb(place: str, attributes: Mapping[str, Any]) -> str | None:
    chosen = given(place, attributes, "configdb", setting_values.text)
    if chosen != "url":
        return chosen
    url = given(place, attributes, "configdb_url", setting_values.address)
    if url is None:
        raise SettingsError(f"{place}: ConfigDB is said to be at an address, and there is none", way_out="give one")
    return url


def _policy(place: str, attributes: Mapping[str, Any]) -> tuple[str, ...] | None:
    if _POLICY.keys().isdisjoint(attributes):
        return None
    chosen = [name for field, name in _POLICY.items() if given(place, attributes, field, setting_values.flag)]
    return tuple(chosen) or ("none",)


def _listed(
    place: str, metadata: Mapping[str, Any], name: str, reader: Callable[[Any], tuple[str, ...]]
) -> tuple[str, ...]:
    value = metadata.get(name)
    if value is None or value == []:
        return ()
    if not isinstance(value, list):
        raise SettingsError(f"{place}: metadata.{name} is no list", way_out=f"write `{name}: [..., ...]`")
    return checked(place, f"metadata.{name}", value, reader)


AskNailgun = Callable[[Sequence[SettingsLayer]], "Section | None"]
"""Asks Nailgun for the plugin's settings, with the layers known so far; None if it can't tell."""


def plugin_layers(
    master: Master, package: Path, env: int, *, staged: bool, ask_nailgun: AskNailgun | None = None
) -> tuple[SettingsLayer, ...]:
    """Return the plugin's settings for an environment, the most important first; none where it isn't enabled.

    In a deployment (``staged``) the environment's file comes first: the deployment uses it. Otherwise Nailgun's newer
    settings come first, if Nailgun can be asked. The plugin's own defaults come last. Raises ``SettingsError``.
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


def without_login(settings: Settings, layers: Sequence[SettingsLayer]) -> Settings:
    """Return the settings without Nailgun if only the plugin names it, and there is no user to log in as.

    Nailgun on a master always wants a login, and an embedded ConfigDB needs none.
    """
    named = settings.origins.get("nailgun") in {each.place for each in layers}
    if not named or settings.names_user:
        return settings
    origins = {**settings.origins, "nailgun": "not used: no user to log in as"}
    return dataclasses.replace(settings, nailgun=None, origins=origins)


def _layer(section: Section, address: str | None) -> SettingsLayer:
    return layer(section.place, section.attributes, section.metadata, section.master_ip or address)
