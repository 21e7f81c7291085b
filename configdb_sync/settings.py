"""The one reader of settings: from flags, variables, a file and defaults to one frozen value (U3).

Every value knows where it came from. Precedence: the command's flags, ``CONFIGDB_SYNC_<NAME>`` variables, the
settings file (mode 0600), further layers (the Fuel plugin's settings: ``plugin.layers``), defaults. The login to
Keystone is made of the same places and held as keystoneauth's own ``OS_*`` variables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from configdb_sync.closed_files import read_closed
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import is_unicode

DEFAULT_FILE = Path("/etc/configdb-sync/settings.yaml")
ENVIRON_PREFIX = "CONFIGDB_SYNC_"

FAILURES = ("deploying", "ready", "configdb", "post")
"""What ``failure_policy`` may name: the failures that stop a deployment (``sync.stage``)."""

Levels = tuple[tuple[str, str], ...]

LOGIN = frozenset(
    {
        *("auth_url", "auth_type", "username", "user_id", "password", "passcode", "token"),
        *("project_name", "project_id", "tenant_name", "user_domain_name", "user_domain_id"),
        *("project_domain_name", "project_domain_id", "default_domain_name", "default_domain_id"),
        *("application_credential_id", "application_credential_name", "application_credential_secret"),
        *("region_name", "interface", "cacert", "insecure", "cloud", "client_config_file"),
    }
)
"""What ``login`` in the settings file may hold: keystoneauth's variables without ``OS_``, in lower case."""
_WHOLE = frozenset({"OS_AUTH_URL", "OS_CLOUD"})
"""A place that names the Keystone gives the whole login; places before it may only change single values of it."""
_USERS = frozenset({"OS_USERNAME", "OS_USER_ID", "OS_CLOUD", "OS_TOKEN", "OS_APPLICATION_CREDENTIAL_ID"})

_MORE = ("login", "services")

SERVICES = ("configdb", "tenants")
"""What ``services`` in the settings file may hold: one mapping of options for each service that the product brings."""


@dataclass(frozen=True)
class Layer:
    """What one place says: ``values`` by the settings' names, ``login`` by keystoneauth's variables (``OS_*``)."""

    place: str
    values: Mapping[str, Any]
    login: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Settings:
    """All settings of a command. ``origins`` names the place that each value came from, by field name.

    ``login`` holds keystoneauth's ``OS_*`` variables, secrets among them; ``login_origins`` their places. ``services``
    holds what the settings file says of each of ``SERVICES``, as it stands there.
    """

    configdb: str = "embedded"
    configdb_database: str | None = None
    configdb_token_file: Path | None = None
    configdb_ca: Path | None = None
    configdb_insecure: bool = False
    database: str | None = None
    state: str | None = None
    tenant: str = "admin"
    levels: Levels = (("nodes", "%{uid}"),)
    data_sources: tuple[str, ...] = ()
    parallel: int = 4
    unsafe_share: float = 0.5
    wait: float = 240.0
    nailgun: str | None = None
    nailgun_ca: Path | None = None
    page_url: str | None = None
    mco_config: Path = Path("/etc/mcollective/client.cfg")
    mco_timeout: float = 60.0
    mco_connect_limit: float = 10.0
    mco_attempts: int = 3
    time_limit: float | None = None
    failure_policy: tuple[str, ...] = ("deploying", "configdb")
    keep_runs: int = 50
    keep_versions: int = 30
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    login: Mapping[str, str] = field(default_factory=dict, repr=False)
    login_origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    services: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def names_user(self) -> bool:
        """Whether the login says as whom; the plugin alone always names Keystone."""
        return not _USERS.isdisjoint(self.login)


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError("give a text")
    return value


def _address(value: Any) -> str:
    text = _text(value).rstrip("/")
    parts = urlsplit(text)
    odd = not text.isascii() or not text.isprintable() or set(text) & set(' "<>\\^`{|}')
    if (
        odd
        or parts.scheme not in {"http", "https"}
        or not parts.hostname
        or parts.query
        or parts.fragment
        or "@" in text
    ):
        raise ValueError("give an address like https://10.20.0.2:8083")
    return text


def _flag(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    words = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise ValueError("give true or false")


def _whole(low: int, high: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        number = int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value
        if type(number) is not int or not low <= number <= high:
            raise ValueError(f"give a whole number from {low} to {high}")
        return number

    return read


def _number(low: float, high: float) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = low - 1
        if isinstance(value, bool) or not low <= number <= high:
            raise ValueError(f"give a number from {low:g} to {high:g}")
        return number

    return read


def _tenant(value: Any) -> str:
    text = _text(value)
    if len(text) > 255 or "/" in text or "\0" in text or not is_unicode(text):
        raise ValueError("give 1 to 255 characters without a slash")
    return text


def _levels(value: Any) -> Levels:
    items = [part.partition("=") for part in value.split(",")] if isinstance(value, str) else []
    if isinstance(value, Mapping):
        items = [(str(name), "=", str(template)) for name, template in value.items()]
    levels = tuple((name.strip(), template.strip()) for name, _, template in items)
    names = [name for name, _ in levels]
    if not levels or not all(name and template for name, template in levels) or len(set(names)) < len(names):
        raise ValueError("give the levels outermost first: cluster=%{deployment_id},nodes=%{uid}")
    return levels


def _list(value: Any) -> tuple[str, ...]:
    items = [part.strip() for part in value.split(",")] if isinstance(value, str) else value
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, str) and item for item in items):
        raise ValueError("give a list of data sources")
    return tuple(items)


def _policy(value: Any) -> tuple[str, ...]:
    names = _list(value)
    if names == ("none",):
        return ()
    if not names or not set(names) <= set(FAILURES):
        raise ValueError(f"give a list of {', '.join(FAILURES)}, or none")
    return names


READERS: Mapping[str, Callable[[Any], Any]] = {
    "configdb": _text,
    "configdb_database": _text,
    "configdb_token_file": lambda value: Path(_text(str(value))),
    "configdb_ca": lambda value: Path(_text(str(value))),
    "configdb_insecure": _flag,
    "database": _text,
    "state": _text,
    "tenant": _tenant,
    "levels": _levels,
    "data_sources": _list,
    "parallel": _whole(1, 64),
    "unsafe_share": _number(0, 1),
    "wait": _number(0, 86400),
    "nailgun": _text,
    "nailgun_ca": lambda value: Path(_text(str(value))),
    "page_url": _address,
    "mco_config": lambda value: Path(_text(str(value))),
    "mco_timeout": _number(0.1, 86400),
    "mco_connect_limit": _number(0.1, 3600),
    "mco_attempts": _whole(1, 100),
    "time_limit": _number(1, 86400),
    "failure_policy": _policy,
    "keep_runs": _whole(1, 100000),
    "keep_versions": _whole(1, 100000),
}
"""How each setting is read; a reader raises ValueError with what it wants instead."""


def read_settings(
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    file: Path | None = None,
    layers: Sequence[Layer] = (),
) -> Settings:
    """Return the settings.

    ``flags``: by field name, None where the flag wasn't given. ``file``: named by the user; else the default one
    where it exists. ``layers``: what comes after the file, the most important first. Raises ``SettingsError`` that
    names the setting, its place and what it takes.
    """
    variables = Layer(
        "environment",
        {name: environ.get(f"{ENVIRON_PREFIX}{name.upper()}") or None for name in READERS},
        {name: value for name, value in environ.items() if name.startswith("OS_") and value},
    )
    own, services = _from_file(file)
    places = (Layer("flags", flags), variables, *own, *layers)
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name, reader in READERS.items():
        origins[name] = "default"
        for layer in places:
            value = layer.values.get(name)
            if value is None or value == ():
                continue
            origins[name] = _place(layer, name)
            try:
                values[name] = reader(value)
            except ValueError as error:
                raise SettingsError(f"{origins[name]}: {name} is {_cut(value)}", way_out=str(error)) from None
            break
    login, login_origins = _login(places)
    return Settings(**values, origins=origins, login=login, login_origins=login_origins, services=services)


def _place(layer: Layer, name: str) -> str:
    """Return what a value's origin is called."""
    named = {"flags": f"--{name.replace('_', '-')}", "environment": f"{ENVIRON_PREFIX}{name.upper()}"}
    return named.get(layer.place, layer.place)


def _login(places: Sequence[Layer]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the login to Keystone and its values' origins: the first place's, up to one that names the Keystone."""
    found: dict[str, str] = {}
    origins: dict[str, str] = {}
    for layer in places:
        for name, value in layer.login.items():
            if name not in found:
                found[name], origins[name] = value, layer.place
        if not _WHOLE.isdisjoint(found):
            break
    return found, origins


def _from_file(named: Path | None) -> tuple[tuple[Layer, ...], Mapping[str, Mapping[str, Any]]]:
    path = named or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    if path is None:
        return (), {}
    found = _file(path)
    services = _services(path, found.pop("services", None))
    login = found.pop("login", None) or {}
    if not isinstance(login, dict) or not all(name in LOGIN and _is_plain(value) for name, value in login.items()):
        raise SettingsError(
            f"the settings file {path}: login isn't as it must be",
            way_out=f"it holds one value each for some of {', '.join(sorted(LOGIN))}",
        )
    variables = {f"OS_{name.upper()}": str(value) for name, value in login.items() if value not in {None, ""}}
    return (Layer(str(path), found, variables),), services


def _services(path: Path, found: Any) -> Mapping[str, Mapping[str, Any]]:
    found = found or {}
    if not isinstance(found, dict) or not all(name in SERVICES for name in found):
        raise SettingsError(
            f"the settings file {path}: services isn't as it must be",
            way_out=f"it holds the options of {' and '.join(SERVICES)}, below their names",
        )
    for name, options in found.items():
        if not isinstance(options or {}, dict) or not all(map(_is_plain, (options or {}).values())):
            raise SettingsError(
                f"the settings file {path}: services.{name} isn't as it must be", way_out="write `option: value` lines"
            )
    return {name: options or {} for name, options in found.items()}


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))


def _cut(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _file(path: Path) -> dict[str, Any]:
    try:
        found = yaml.safe_load(read_closed(path, "the settings file"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        raise SettingsError(f"the settings file {path} is not YAML{line}") from None
    except (ValueError, RecursionError):
        # A date that no calendar has, or brackets by the thousand.
        raise SettingsError(f"the settings file {path} is not YAML that can be read") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise SettingsError(f"the settings file {path} holds no mapping", way_out="write `name: value` lines")
    for name in found:
        if name not in READERS and name not in _MORE:
            raise SettingsError(
                f"the settings file {path} has an unknown setting {_cut(name)}",
                way_out=f"known are: {', '.join(sorted({*READERS, *_MORE}))}",
            )
    return found


assert {one.name for one in fields(Settings)} == {*READERS, *_MORE, "origins", "login_origins"}
