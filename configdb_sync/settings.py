"""The one reader of settings: from flags, variables, a file and defaults to one frozen value (U3).

Every value knows where it came from. Precedence: the command's flags, ``CONFIGDB_SYNC_<NAME>`` variables, the
settings file (mode 0600), further layers (the Fuel plugin's settings: ``plugin.fuel_settings``), defaults. The login to
Keystone is made of the same places and held as keystoneauth's own ``OS_*`` variables.
"""

from __future__ import annotations

import difflib
import ssl
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import yaml

from configdb_sync import setting_values as values
from configdb_sync.closed_files import read_closed
from configdb_sync.errors import SettingsError
from configdb_sync.setting_values import DEFAULT_LEVELS, Levels

DEFAULT_FILE = Path("/etc/configdb-sync/settings.yaml")
ENVIRON_PREFIX = "CONFIGDB_SYNC_"

DEFAULT_WRITABLE = (
    "/etc/hiera",
    "/etc/astute.yaml",
    f"{values.CLUSTERS}/{values.ENV}",
    f"/etc/{values.ROLE}.yaml",
)
"""What Fuel writes on nodes: ``writable`` unless it is set."""

FAILURES = ("deploying", "ready", "configdb", "post")
"""What ``failure_policy`` may name: the failures that stop a deployment (``sync.deployment``)."""

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
"""The place that names the Keystone gives the whole login; places before it can only change single values of it."""
OTHER_VARIABLES = frozenset(
    {
        *("SETTINGS", "FAILPOINT", "PYTHON", "PYTHONS", "RUNTIME", "RUNTIME_GLIBC", "RUNTIME_SHA256"),
        *("CACHE", "PACKAGES", "FIXTURES", "TEST_SHELL", "CONTRACT_URL"),
    }
)
"""Variables of the launcher, the build and the tests, without the prefix: no settings."""
_USERS = frozenset({"OS_USERNAME", "OS_USER_ID", "OS_CLOUD", "OS_TOKEN", "OS_APPLICATION_CREDENTIAL_ID"})

_MORE = ("login", "services")
_LINES = "write `name: value` lines"

SERVICES = ("configdb", "tenants", "watch")
"""What ``services`` in the settings file may hold: one mapping of options for each service that the product brings."""


@dataclass(frozen=True)
class SettingsLayer:
    """The settings of one place: ``values`` by their names, ``login`` by keystoneauth's variables (``OS_*``)."""

    place: str
    values: Mapping[str, Any]
    login: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Settings:
    """All settings of a command, each with its reader from ``setting_values``.

    ``origins`` names the place that each value came from, by field name. ``login`` holds keystoneauth's ``OS_*``
    variables, secrets among them; ``login_origins`` their places. ``services`` holds the options of each of
    ``SERVICES`` as the settings file gives them.
    """

    configdb: Annotated[str, values.configdb] = "embedded"
    configdb_database: Annotated[str | None, values.text] = None
    configdb_token_file: Annotated[Path | None, values.path] = None
    configdb_ca: Annotated[Path | None, values.path] = None
    configdb_insecure: Annotated[bool, values.flag] = False
    database: Annotated[str | None, values.text] = None
    key_file: Annotated[Path | None, values.path] = None
    state: Annotated[str | None, values.text] = None
    tenant: Annotated[str, values.tenant] = "admin"
    levels: Annotated[Levels, values.levels] = DEFAULT_LEVELS
    data_sources: Annotated[tuple[str, ...], values.names] = ()
    writable: Annotated[tuple[str, ...], values.places] = DEFAULT_WRITABLE
    parallel: Annotated[int, values.whole(1, 64)] = 4
    unsafe_share: Annotated[float, values.number(0, 1)] = 0.5
    wait: Annotated[float, values.number(0, 86400)] = 240.0
    nailgun: Annotated[str | None, values.address] = None
    nailgun_ca: Annotated[Path | None, values.path] = None
    page_url: Annotated[str | None, values.address] = None
    mco_config: Annotated[Path, values.path] = Path("/etc/mcollective/client.cfg")
    mco_timeout: Annotated[float, values.number(0.1, 86400)] = 60.0
    mco_connect_limit: Annotated[float, values.number(0.1, 3600)] = 10.0
    mco_attempts: Annotated[int, values.whole(1, 100)] = 3
    time_limit: Annotated[float | None, values.number(1, 86400)] = None
    failure_policy: Annotated[tuple[str, ...], values.choices(FAILURES)] = ("deploying", "configdb")
    keep_runs: Annotated[int, values.whole(1, 100000)] = 50
    keep_versions: Annotated[int, values.whole(1, 100000)] = 30
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    login: Mapping[str, str] = field(default_factory=dict, repr=False)
    login_origins: Mapping[str, str] = field(default_factory=dict, compare=False)
    services: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def names_user(self) -> bool:
        """Whether the login names a user or token. The plugin alone always names Keystone, and maybe no user."""
        return not _USERS.isdisjoint(self.login)

    def file(self, name: str) -> Path | None:
        """Return the file that a setting names, None if it names none; ``SettingsError`` if it isn't there."""
        found: Path | None = getattr(self, name)
        if found is not None and self.origins[name] != "default" and not found.is_file():
            raise SettingsError(
                f"{self.origins[name]}: {name} names {found}, which is no file", way_out="give the path of a file"
            )
        return found

    def authorities(self, name: str) -> Path | None:
        """Return the file of certificates that a setting names. Raises as ``file``, and if it holds none."""
        return _authorities(self.origins[name], name, self.file(name))

    def checked_login(self) -> Mapping[str, str]:
        """Return ``login``; ``SettingsError`` if a file that it names isn't there."""
        for name in ("OS_CACERT", "OS_CLIENT_CONFIG_FILE"):
            path, origin = self.login.get(name), self.login_origins.get(name, "")
            if path is not None and not Path(path).is_file():
                raise SettingsError(
                    f"{origin}: {name} names {path}, which is no file", way_out="give the path of a file"
                )
            if path is not None and name == "OS_CACERT":
                _authorities(origin, name, Path(path))
        return self.login


def _authorities(origin: str, name: str, path: Path | None) -> Path | None:
    if path is not None:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
        except OSError as error:
            raise SettingsError(
                f"{origin}: {name} names {path}, which can't be used: {error.strerror or type(error).__name__}",
                way_out="give a file of certificates in PEM form",
            ) from None
    return path


READERS: Mapping[str, Callable[[Any], Any]] = {
    name: hint.__metadata__[0]
    for name, hint in get_type_hints(Settings, include_extras=True).items()
    if get_origin(hint) is Annotated
}
"""How each setting is read, by name."""

_USERS_VARIABLES = frozenset(name.upper() for name in READERS) | {"SETTINGS", "PYTHON"}
_VARIABLES = _USERS_VARIABLES | OTHER_VARIABLES


def read_settings(
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    file: Path | None = None,
    layers: Sequence[SettingsLayer] = (),
) -> Settings:
    """Return the settings.

    ``flags``: by field name, None where the flag wasn't given. An empty flag is refused; elsewhere an empty value
    counts as not given. ``file``: named by the user; otherwise the default one if it exists. ``layers``: the places
    after the file, the most important first. Raises ``SettingsError`` that names the setting, its place and what it
    takes, and for an unknown ``CONFIGDB_SYNC_...`` variable.
    """
    own, services = _from_file(file)
    places = (_flags(flags), _variables(environ), *own, *layers)
    found: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name, reader in READERS.items():
        origins[name] = "default"
        for layer in places:
            value = layer.values.get(name)
            if values.is_empty(value) or value == ():
                continue
            origins[name] = _place(layer, name)
            found[name] = values.checked(origins[name], name, value, reader)
            break
    login, login_origins = _login(places)
    return Settings(**found, origins=origins, login=login, login_origins=login_origins, services=services)


def _flags(flags: Mapping[str, Any]) -> SettingsLayer:
    for name, value in flags.items():
        # An unset variable of a shell leaves an empty value, which its author doesn't mean.
        if isinstance(value, str) and values.is_empty(value):
            flag = f"--{name.replace('_', '-')}"
            raise SettingsError(f"{flag}: {name} is empty", way_out="give a value, or leave the flag out")
    return SettingsLayer("flags", flags)


def _variables(environ: Mapping[str, str]) -> SettingsLayer:
    for name in environ:
        known = name.removeprefix(ENVIRON_PREFIX)
        if known != name and known not in _VARIABLES:
            raise SettingsError(
                f"the variable {name[:80]!r} is none of the product's",
                way_out=_meant(known, _USERS_VARIABLES, ENVIRON_PREFIX),
            )
    login = {
        name: values.checked("environment", name, value, values.login(name[3:].lower()))
        if name[3:].lower() in LOGIN
        else value
        for name, value in environ.items()
        if name.startswith("OS_") and not values.is_empty(value)
    }
    return SettingsLayer(
        "environment", {name: environ.get(f"{ENVIRON_PREFIX}{name.upper()}") for name in READERS}, login
    )


def _meant(name: str, known: Collection[str], prefix: str = "") -> str:
    close = difflib.get_close_matches(name, known, n=3)
    meant = " or ".join(f"{prefix}{one}" for one in close)
    listed = ", ".join(f"{prefix}{one}" for one in sorted(known))
    return f"is {meant} meant? known are: {listed}" if meant else f"known are: {listed}"


def _place(layer: SettingsLayer, name: str) -> str:
    """Return the name of a value's origin."""
    named = {"flags": f"--{name.replace('_', '-')}", "environment": f"{ENVIRON_PREFIX}{name.upper()}"}
    return named.get(layer.place, layer.place)


def _login(places: Sequence[SettingsLayer]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the login to Keystone and its values' origins: from all places up to the one that names the Keystone."""
    found: dict[str, str] = {}
    origins: dict[str, str] = {}
    for layer in places:
        for name, value in layer.login.items():
            if name not in found:
                found[name], origins[name] = value, layer.place
        if not _WHOLE.isdisjoint(found):
            break
    return found, origins


def _from_file(named: Path | None) -> tuple[tuple[SettingsLayer, ...], Mapping[str, Mapping[str, Any]]]:
    path = named or (DEFAULT_FILE if DEFAULT_FILE.exists() else None)
    if path is None:
        return (), {}
    found = _file(path)
    services = _services(path, found.pop("services", None))
    login = found.pop("login", None)
    login = {} if login is None else login
    if not isinstance(login, dict) or not all(name in LOGIN for name in login):
        raise SettingsError(
            f"the settings file {path}: login is not valid",
            way_out=f"it holds one value each for some of {', '.join(sorted(LOGIN))}",
        )
    variables = {
        f"OS_{name.upper()}": values.checked(f"the settings file {path}", f"login.{name}", value, values.login(name))
        for name, value in login.items()
        if not values.is_empty(value)
    }
    return (SettingsLayer(str(path), found, variables),), services


def _services(path: Path, found: Any) -> Mapping[str, Mapping[str, Any]]:
    found = {} if found is None else found
    if not isinstance(found, dict) or not all(name in SERVICES for name in found):
        raise SettingsError(
            f"the settings file {path}: services is not valid",
            way_out=f"it holds the options of {', '.join(SERVICES)}, below their names",
        )
    options_of = {name: {} if options is None else options for name, options in found.items()}
    for name, options in options_of.items():
        if not isinstance(options, dict) or not all(map(_is_plain, options.values())):
            raise SettingsError(
                f"the settings file {path}: services.{name} is not valid", way_out="write `option: value` lines"
            )
    return options_of


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, bool))


def _check_once(path: Path, node: yaml.Node | None) -> None:
    """Raise ``SettingsError`` for a name that occurs twice: one of the two values would be ignored (R7)."""
    if not isinstance(node, yaml.MappingNode):
        return
    seen = set()
    for key, value in node.value:
        if isinstance(key.value, str) and key.value in seen:
            raise SettingsError(
                f"the settings file {path} has {str(key.value)[:60]} twice, at line {key.start_mark.line + 1}",
                way_out="remove one of them",
            )
        seen.add(key.value if isinstance(key.value, str) else id(key))
        _check_once(path, value)


def _file(path: Path) -> dict[str, Any]:
    try:
        content = read_closed(path, "the settings file", way_out="name it with --settings or CONFIGDB_SYNC_SETTINGS")
        found = yaml.safe_load(content)
        _check_once(path, yaml.compose(content, Loader=yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f" at line {mark.line + 1}" if mark else ""
        raise SettingsError(f"the settings file {path} is not YAML{line}", way_out=_LINES) from None
    except (ValueError, RecursionError):
        # A date that no calendar has, or brackets by the thousand.
        raise SettingsError(f"the settings file {path} is not YAML that can be read", way_out=_LINES) from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise SettingsError(f"the settings file {path} holds no mapping", way_out=_LINES)
    for name in found:
        if name not in READERS and name not in _MORE:
            raise SettingsError(
                f"the settings file {path} has an unknown setting {str(name)[:60]!r}",
                way_out=_meant(str(name), {*READERS, *_MORE}),
            )
    return found
