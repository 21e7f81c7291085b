"""From the plugin's attributes, as Fuel gives them, to settings (U3, F3). Pure.

An environment's file holds them flattened below the plugin's name, ``metadata`` verbatim with Nailgun's own keys and
the plugin's constants (facts/fuel-plugin.md 2, Settings in deployment data).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from configdb_sync.errors import SettingsError
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


def layer(place: str, attributes: Mapping[str, Any], metadata: Mapping[str, Any], master_ip: str | None) -> Layer:
    """Return what the attributes say as a layer of settings; what they leave empty is left to the next layer.

    ``place``: what an error or an origin calls it. ``master_ip``: where Keystone and Nailgun are unless it is said.
    Raises ``SettingsError`` for what no setting can be made of; what a setting's own rules forbid is found when it is
    read.
    """
    if metadata.get("data_sources") is not None and not isinstance(metadata["data_sources"], list):
        raise SettingsError(f"{place}: metadata.data_sources is no list", way_out="write `data_sources: [name, ...]`")
    values: dict[str, Any] = {
        "configdb": _configdb(place, attributes),
        "configdb_ca": _text(attributes, "ca_file"),
        "tenant": _text(attributes, "tenant"),
        "parallel": _text(attributes, "parallel"),
        "unsafe_share": _text(attributes, "unsafe_share"),
        "page_url": _text(attributes, "page_url"),
        "failure_policy": _policy(attributes),
        "data_sources": tuple(metadata.get("data_sources") or ()),
    }
    login = {variable: _text(attributes, name) for name, variable in _LOGIN.items()}
    login |= {"OS_INTERFACE": _text(metadata, "interface"), "OS_DEFAULT_DOMAIN_NAME": _text(metadata, "default_domain")}
    if attributes.get("verify_tls") is False:
        values["configdb_insecure"] = True
        login["OS_INSECURE"] = "true"
    if master_ip is not None:
        values["nailgun"] = f"https://{_host(master_ip)}:{metadata.get('nailgun_port') or 8443}"
        login["OS_AUTH_URL"] = (
            login["OS_AUTH_URL"] or f"http://{_host(master_ip)}:{metadata.get('keystone_port') or 5000}"
        )
    return Layer(
        place,
        {name: value for name, value in values.items() if value is not None},
        {name: value for name, value in login.items() if value is not None},
    )


def _configdb(place: str, attributes: Mapping[str, Any]) -> str | None:
    chosen = _text(attributes, "configdb")
    if chosen != "url":
        return chosen
    url = _text(attributes, "configdb_url")
    if url is None:
        raise SettingsError(f"{place}: ConfigDB is said to be at an address, and there is none", way_out="give one")
    return url


def _policy(attributes: Mapping[str, Any]) -> tuple[str, ...] | None:
    if _POLICY.keys().isdisjoint(attributes):
        return None
    return tuple(name for attribute, name in _POLICY.items() if attributes.get(attribute) is True) or ("none",)


def _text(attributes: Mapping[str, Any], name: str) -> str | None:
    value = attributes.get(name)
    return str(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) and value != "" else None


def _host(address: str) -> str:
    return f"[{address}]" if ":" in address else address
