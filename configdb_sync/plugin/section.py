"""From the plugin's attributes, as Fuel gives them, to settings (U3, F3). Pure.

An environment's file holds them flattened below the plugin's name, ``metadata`` verbatim with Nailgun's own keys and
the plugin's constants.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from configdb_sync import setting_values
from configdb_sync.errors import SettingsError
from configdb_sync.setting_values import checked, given, is_empty
from configdb_sync.settings import Layer

NAME = "configdb-sync"
"""The plugin's name, and so the key of its settings."""

_POLICY = {"stop_deploying": "deploying", "stop_ready": "ready", "stop_configdb": "configdb", "stop_post": "post"}
_LOGIN = {
    "auth_url": "OS_AUTH_URL",
    "username": "OS_USERNAME",
    "password": "OS_PASSWORD",
    "project": "OS_PROJECT_NAME",
    "region": "OS_REGION_NAME",
    "ca_file": "OS_CACERT",
}


def layer(place: str, attributes: Mapping[str, Any], metadata: Mapping[str, Any], master_ip: Any) -> Layer:
    """Return what the attributes say as a layer of settings; what they leave empty is left to the next layer.

    ``place``: what an error or an origin calls it. ``master_ip``: where Keystone and Nailgun are unless it is said.
    Raises ``SettingsError`` that names the place and the field; what a setting's own rules forbid is found when it is
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
    return Layer(
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
