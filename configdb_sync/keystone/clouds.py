"""What ``OS_*`` variables and ``clouds.yaml`` say about logging in to Keystone (U3, U5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from configdb_sync import setting_values
from configdb_sync.closed_files import is_trusted
from configdb_sync.errors import SettingsError

SERVICE_TYPE = "config"
"""ConfigDB's type in Keystone's service catalog."""

_NOT_AUTH = frozenset(
    {
        "cloud",
        "auth_type",
        "region_name",
        "interface",
        "endpoint_type",
        "cacert",
        "insecure",
        "client_config_file",
    }
)


@dataclass(frozen=True)
class Cloud:
    """How to log in. ``auth`` holds what the auth type takes (``auth_url``, ``username``, ``password``, ...): never
    shown."""

    auth_type: str
    auth: Mapping[str, str] = field(repr=False)
    region: str | None = None
    interface: str = "public"
    ca_file: Path | None = None
    insecure: bool = False


def read(environ: Mapping[str, str]) -> Cloud:
    """Return the cloud that the environment's variables name; a variable goes before the file.

    ``OS_CLOUD`` picks one of ``clouds.yaml`` (``OS_CLIENT_CONFIG_FILE``, the working folder, ``~/.config/openstack``,
    ``/etc/openstack``; ``secure.yaml`` beside it is laid over it). Raises ``SettingsError``.
    """
    named = environ.get("OS_CLOUD")
    entry = _cloud(named, environ) if named else {}
    given = {name[3:].lower(): value for name, value in environ.items() if name.startswith("OS_") and value != ""}
    auth = dict(entry.get("auth", {}))
    auth |= {name: value for name, value in given.items() if name not in _NOT_AUTH}
    if "tenant_name" in auth:
        auth.setdefault("project_name", auth.pop("tenant_name"))

    def one(*names: str) -> str | None:
        return next((place[name] for place in (given, entry) for name in names if place.get(name)), None)

    if "auth_url" not in auth:
        raise SettingsError("Keystone's address isn't known", way_out="set OS_AUTH_URL, or OS_CLOUD and a clouds.yaml")
    ca_file = one("cacert")
    return Cloud(
        auth_type=one("auth_type") or "password",
        auth=auth,
        region=one("region_name"),
        interface=(one("interface", "endpoint_type") or "public").removesuffix("URL"),
        ca_file=Path(ca_file) if ca_file else None,
        insecure=given.get("insecure", "").lower() in {"1", "true", "yes"} or entry.get("verify") is False,
    )


def _cloud(name: str, environ: Mapping[str, str]) -> dict[str, Any]:
    path = _file(environ)
    clouds = _clouds(path)
    if name not in clouds:
        raise SettingsError(
            f"{path} has no cloud {name!r}", way_out=f"it has {', '.join(clouds) or 'none'}: set OS_CLOUD"
        )
    entry = _mapping(clouds[name], f"cloud {name} of {path}")
    secure_file = path.with_name("secure.yaml")
    if secure_file.is_file():
        secure = _mapping(_clouds(secure_file).get(name, {}), f"cloud {name} of {secure_file}")
        auth = {
            **_mapping(entry.get("auth", {}), f"auth of cloud {name}"),
            **_mapping(secure.get("auth", {}), f"auth of cloud {name}"),
        }
        entry = {**entry, **secure, "auth": auth}
    return _checked(f"{path}, cloud {name}", entry)


def _checked(place: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is used of a cloud, each value by the rule of all settings; what is empty is left out."""
    auth = _mapping(entry.get("auth", {}), f"auth of {place}")
    texts = {
        name: setting_values.given(place, entry, name, setting_values.login(name))
        for name in ("auth_type", "region_name", "interface", "endpoint_type", "cacert")
    }
    logins = {
        str(name): setting_values.given(place, {f"auth.{name}": value}, f"auth.{name}", setting_values.login(str(name)))
        for name, value in auth.items()
    }
    return {
        **texts,
        "auth": {name: value for name, value in logins.items() if value is not None},
        "verify": setting_values.given(place, entry, "verify", setting_values.flag),
    }


def _file(environ: Mapping[str, str]) -> Path:
    named = environ.get("OS_CLIENT_CONFIG_FILE")
    if named and not Path(named).is_file():
        raise SettingsError(f"OS_CLIENT_CONFIG_FILE names {named}, which is no file", way_out="name a clouds.yaml")
    home = environ.get("XDG_CONFIG_HOME") or (f"{environ['HOME']}/.config" if environ.get("HOME") else None)
    places = [
        *([Path(named)] if named else []),
        Path("clouds.yaml"),
        *([Path(home) / "openstack/clouds.yaml"] if home else []),
        Path("/etc/openstack/clouds.yaml"),
    ]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise SettingsError(
            "OS_CLOUD is set, but there is no clouds.yaml", way_out="name it with OS_CLIENT_CONFIG_FILE"
        )
    if not is_trusted(found.stat()):
        # The working folder may belong to anybody. Whoever writes this file decides which Keystone gets the password.
        raise SettingsError(f"{found} belongs to another user", way_out="name another with OS_CLIENT_CONFIG_FILE")
    return found


def _clouds(path: Path) -> dict[str, Any]:
    try:
        content = yaml.safe_load(path.read_bytes())
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"{path} can't be read: {type(error).__name__}", way_out="is it the clouds.yaml that openstackclient reads?"
        ) from None
    return _mapping(_mapping(content, str(path)).get("clouds", {}), f"clouds of {path}")


def _mapping(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise SettingsError(f"{what} is no mapping", way_out="write `name: value` lines")
    return value
