"""The one reader of settings: from flags, variables, a file and defaults to one frozen value (U3).

Every value knows where it came from. Precedence: the command's flags, ``CONFIGDB_SYNC_<NAME>`` variables, the
settings file (mode 0600), further layers (the Fuel plugin's settings: ``plugin.fuel_settings``), defaults. The login to
Keystone is made of the same places and held as keystoneauth's own ``OS_*`` variables.
"""

from __future__ import annotations

import difflib
import ssl
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

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
"""What ``failure_policy`` may name: the failures that stop a deployment (``sync.stage``)."""

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
OTHER_VARIABLES = frozenset(
    {
        *("SETTINGS", "FAILPOINT", "PYTHON", "PYTHONS", "RUNTIME", "RUNTIME_GLIBC", "RUNTIME_SHA256"),
        *("CACHE", "PACKAGES", "FIXTURES", "TEST_SHELL", "CONTRACT_URL"),
    }
)
"""Variables that are no settings, without the prefix: of the launcher, the build and the tests."""
_USERS = frozenset({"OS_USERNAME", "OS_USER_ID", "OS_CLOUD", "OS_TOKEN", "OS_APPLICATION_CREDENTIAL_ID"})

_MORE = ("login", "services")

SERVICES = ("configdb", "tenants")
"""What ``services`` in the settings file may hold: one mapping of options for each service that the product brings."""


@dataclass(frozen=True)
class SettingsLayer:
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
    key_file: Path | None = None
    state: str | None = None
    tenant: str = "admin"
    levels: Levels = DEFAULT_LEVELS
    data_sources: tuple[str, ...] = ()
    writable: tuple[str, ...] = DEFAULT_WRITABLE
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


@dataclass(frozen=True)
class Setting:
    """One setting: its reader, and its option in the help of commands.

    ``group``: the heading that the option stands under. ``metavar``: what the option takes, None for a switch.
    ``unset``: what applies if the setting has no value.
    """

    name: str
    read: Callable[[Any], Any]
    group: str
    metavar: str | None
    help: str
    unset: str | None = None

    @property
    def flag(self) -> str:
        """The command's option."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def variable(self) -> str:
        """The environment variable."""
        return f"{ENVIRON_PREFIX}{self.name.upper()}"

    @property
    def default_text(self) -> str | None:
        """The default as the help shows it, None if there is nothing to show."""
        default = getattr(Settings, self.name)
        if default is None or default == ():
            return self.unset
        return (
            f"{default:g}"
            if isinstance(default, float)
            else None
            if default is False
            else shown(default).replace(",", ", ")
        )


_STATE_FILE = "a file in the state folder"
_RUN, _CONFIGDB, _STORAGE, _BUS, _NAILGUN = "Run", "ConfigDB", "State and database", "MCollective", "Nailgun"
_ALL = (
    Setting(
        "configdb",
        values.configdb,
        _CONFIGDB,
        "embedded|URL|catalog",
        "Use the built-in ConfigDB, the one at URL, or the one in Keystone's catalog.",
    ),
    Setting("configdb_database", values.text, _CONFIGDB, "URL", "Database of the built-in ConfigDB.", _STATE_FILE),
    Setting("configdb_token_file", values.path, _CONFIGDB, "FILE", "File with the token for the ConfigDB at URL."),
    Setting("configdb_ca", values.path, _CONFIGDB, "FILE", "CA certificates for ConfigDB.", "the system's"),
    Setting("configdb_insecure", values.flag, _CONFIGDB, None, "Do not verify ConfigDB's certificate."),
    Setting("database", values.text, _STORAGE, "URL", "Database for runs, records and tenants.", _STATE_FILE),
    Setting(
        "key_file", values.path, _STORAGE, "FILE", "File with the keys that encrypt the databases.", "no encryption"
    ),
    Setting("state", values.text, _STORAGE, "DIR", "State folder (mode 0700): databases, tokens, keys, locks."),
    Setting("tenant", values.tenant, _RUN, "ID", "Tenant that owns new environments."),
    Setting("levels", values.levels, _RUN, "NAME=TEMPLATE,...", "Hierarchy levels, outermost first."),
    Setting("data_sources", values.names, _RUN, "LIST", "Data sources to add to the default list; -NAME removes one."),
    Setting(
        "writable",
        values.places,
        _RUN,
        "LIST",
        "Absolute paths on nodes that may be written, with everything below them.",
    ),
    Setting("parallel", values.whole(1, 64), _RUN, "N", "Number of nodes to process in parallel."),
    Setting(
        "unsafe_share",
        values.number(0, 1),
        _RUN,
        "SHARE",
        "Share of its keys (0 to 1) that a document may lose in one run.",
    ),
    Setting("wait", values.number(0, 86400), _RUN, "SECONDS", "How long to wait for another run to end."),
    Setting("nailgun", values.address, _NAILGUN, "URL", "Nailgun's address. Nailgun knows the nodes and their state."),
    Setting(
        "nailgun_ca", values.path, _NAILGUN, "FILE", "CA certificates for Nailgun.", "the master's own, if present"
    ),
    Setting(
        "page_url",
        values.address,
        _NAILGUN,
        "URL",
        "Address of `tenants serve` for browsers. With --stage, the Fuel UI links to its status page.",
    ),
    Setting("mco_config", values.path, _BUS, "FILE", "MCollective's client settings."),
    Setting("mco_timeout", values.number(0.1, 86400), _BUS, "SECONDS", "How long to wait for a node's reply."),
    Setting(
        "mco_connect_limit",
        values.number(0.1, 3600),
        _BUS,
        "SECONDS",
        "How long one attempt to connect to a broker may take.",
    ),
    Setting("mco_attempts", values.whole(1, 100), _BUS, "N", "Number of attempts to connect to each broker."),
    Setting(
        "time_limit",
        values.number(1, 86400),
        _RUN,
        "SECONDS",
        "End the run within this time.",
        "no limit; 280 with --stage",
    ),
    Setting(
        "failure_policy",
        values.choices(FAILURES),
        _RUN,
        "LIST",
        f"With --stage: failures that stop the deployment, of {','.join(FAILURES)}; or none.",
    ),
    Setting("keep_runs", values.whole(1, 100000), _RUN, "N", "Number of runs to keep for each environment."),
    Setting(
        "keep_versions",
        values.whole(1, 100000),
        _CONFIGDB,
        "N",
        "Number of versions to keep of each document if ConfigDB keeps none.",
    ),
)
SETTINGS: Mapping[str, Setting] = {one.name: one for one in _ALL}
"""All settings by name, each with its reader (``setting_values``)."""


def shown(value: Any) -> str:
    """Return a setting's value as text, in the form that its option takes."""
    if isinstance(value, tuple):
        return ",".join("=".join(one) if isinstance(one, tuple) else str(one) for one in value)
    return str(value)


_USERS_VARIABLES = frozenset(name.upper() for name in SETTINGS) | {"SETTINGS", "PYTHON"}
_VARIABLES = _USERS_VARIABLES | OTHER_VARIABLES


def read_settings(
    flags: Mapping[str, Any],
    environ: Mapping[str, str],
    file: Path | None = None,
    layers: Sequence[SettingsLayer] = (),
) -> Settings:
    """Return the settings.

    ``flags``: by field name, None where the flag wasn't given. A flag that is empty is refused; elsewhere what is empty
    counts as not given. ``file``: named by the user; else the default one
    where it exists. ``layers``: what comes after the file, the most important first. Raises ``SettingsError`` that
    names the setting, its place and what it takes, and for an unknown
    ``CONFIGDB_SYNC_...`` variable.
    """
    own, services = _from_file(file)
    places = (_flags(flags), _variables(environ), *own, *layers)
    found: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name, setting in SETTINGS.items():
        origins[name] = "default"
        for layer in places:
            value = layer.values.get(name)
            if values.is_empty(value) or value == ():
                continue
            origins[name] = _place(layer, name)
            found[name] = values.checked(origins[name], name, value, setting.read)
            break
    login, login_origins = _login(places)
    return Settings(**found, origins=origins, login=login, login_origins=login_origins, services=services)


def _flags(flags: Mapping[str, Any]) -> SettingsLayer:
    for name, value in flags.items():
        # What an unset variable of a shell leaves isn't what its author means.
        if isinstance(value, str) and values.is_empty(value):
            raise SettingsError(
                f"{SETTINGS[name].flag}: {name} is empty", way_out="give a value, or leave the flag out"
            )
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
    return SettingsLayer("environment", {name: environ.get(one.variable) for name, one in SETTINGS.items()}, login)


def _meant(name: str, known: Collection[str], prefix: str = "") -> str:
    close = difflib.get_close_matches(name, known, n=3)
    meant = " or ".join(f"{prefix}{one}" for one in close)
    listed = ", ".join(f"{prefix}{one}" for one in sorted(known))
    return f"is {meant} meant? known are: {listed}" if meant else f"known are: {listed}"


def _place(layer: SettingsLayer, name: str) -> str:
    """Return what a value's origin is called."""
    named = {"flags": SETTINGS[name].flag, "environment": SETTINGS[name].variable}
    return named.get(layer.place, layer.place)


def _login(places: Sequence[SettingsLayer]) -> tuple[dict[str, str], dict[str, str]]:
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
            way_out=f"it holds the options of {' and '.join(SERVICES)}, below their names",
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
    """Raise ``SettingsError`` for a name that stands twice: one of both values would be passed by (R7)."""
    if not isinstance(node, yaml.MappingNode):
        return
    seen = set()
    for key, value in node.value:
        if isinstance(key.value, str) and key.value in seen:
            raise SettingsError(
                f"the settings file {path} has {str(key.value)[:60]} twice, at line {key.start_mark.line + 1}",
                way_out="take one of them out",
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
        raise SettingsError(f"the settings file {path} is not YAML{line}") from None
    except (ValueError, RecursionError):
        # A date that no calendar has, or brackets by the thousand.
        raise SettingsError(f"the settings file {path} is not YAML that can be read") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise SettingsError(f"the settings file {path} holds no mapping", way_out="write `name: value` lines")
    for name in found:
        if name not in SETTINGS and name not in _MORE:
            raise SettingsError(
                f"the settings file {path} has an unknown setting {str(name)[:60]!r}",
                way_out=_meant(str(name), {*SETTINGS, *_MORE}),
            )
    return found


assert {one.name for one in fields(Settings)} == {*SETTINGS, *_MORE, "origins", "login_origins"}
