"""Options that mean the same in every command, and what they are made into (U3)."""

from __future__ import annotations

import functools
import getpass
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import click

import configdb_sync
from configdb_sync.addresses import Addresses
from configdb_sync.clock import SystemClock, new_run_id
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.connect import CATALOG, EMBEDDED, connect
from configdb_sync.configdb.model import Limits, Writer
from configdb_sync.configdb.retry import RetryPolicy
from configdb_sync.errors import ProductError, SettingsError
from configdb_sync.masking import Masker
from configdb_sync.nailgun.client import NailgunClient
from configdb_sync.nailgun.connect import LIMITS
from configdb_sync.nailgun.connect import connect as connect_nailgun
from configdb_sync.nodes.node_files import shown
from configdb_sync.plugin.fuel_settings import NAME, Master, Section, plugin_layers, without_login
from configdb_sync.settings import Settings, SettingsLayer, read_settings
from configdb_sync.state import State, locate, open_state
from configdb_sync.store.connections import with_key_file
from configdb_sync.store.keyring import Keyring
from configdb_sync.store.opening import open_store
from configdb_sync.store.records import names_seen
from configdb_sync.store.versions import VersionStore
from configdb_sync.sync import standing_overrides
from configdb_sync.sync.history import recorder

F = TypeVar("F", bound=Callable[..., Any])

_HIGHEST = 2**31 - 1  # What every database holds as an integer; Nailgun's numbers are no larger.
ENVIRONMENT = click.IntRange(1, _HIGHEST)
"""An environment of Fuel, by its number."""
STORED_ENVIRONMENT = click.IntRange(0, _HIGHEST)
"""Any environment that ConfigDB may hold."""

MASTER = Master()
"""Where a Fuel Master's files are: on this machine, if it is one."""
_LOG = logging.getLogger(__name__)
_HASTE = Limits(connect=3.0, read=5.0, total=10.0)

_OPTIONS: dict[str, Callable[[F], F]] = {
    "configdb": click.option(
        "--configdb",
        metavar="embedded|URL|catalog",
        help="Where ConfigDB is: in this process (default), at an address, or as Keystone's catalog says.",
    ),
    "configdb_database": click.option(
        "--configdb-database",
        metavar="URL",
        help="The embedded ConfigDB's database (default: in the state folder).",
    ),
    "configdb_token_file": click.option(
        "--configdb-token-file", metavar="FILE", help="File with the token for a ConfigDB at an address."
    ),
    "configdb_ca": click.option("--configdb-ca", metavar="FILE", help="Certificates to trust for ConfigDB."),
    "configdb_insecure": click.option(
        "--configdb-insecure", is_flag=True, default=None, help="Don't verify ConfigDB's certificate."
    ),
    "database": click.option(
        "--database", metavar="URL", help="The product's own database (default: a file in the state folder)."
    ),
    "key_file": click.option(
        "--key-file", metavar="FILE", help="Keys that the databases' contents are encrypted with (default: none)."
    ),
    "state": click.option("--state", metavar="DIR", help="Folder for databases, token and locks (mode 0700)."),
    "tenant": click.option("--tenant", metavar="ID", help="Tenant that owns new environments (default: admin)."),
    "levels": click.option(
        "--levels", metavar="NAME=TEMPLATE,...", help="Hierarchy levels, outermost first (default: nodes=%{uid})."
    ),
    "data_sources": click.option(
        "--data-sources",
        metavar="LIST",
        help="Data sources that add to the default list, with commas; -NAME takes one out.",
    ),
    "writable": click.option(
        "--writable",
        metavar="LIST",
        help="Files on nodes that may be written: absolute paths with commas, at or below each (default: /etc/hiera,"
        " /etc/astute.yaml, /etc/fuel/cluster/<env>, and /etc/<role>.yaml where /etc/astute.yaml links to it).",
    ),
    "parallel": click.option("--parallel", metavar="N", help="Nodes worked on at once (default: 4)."),
    "unsafe_share": click.option(
        "--unsafe-share",
        metavar="SHARE",
        help="Share of its keys that a document may lose in one run, 0 to 1 (default: 0.5).",
    ),
    "mco_config": click.option(
        "--mco-config", metavar="FILE", help="MCollective's settings (default: /etc/mcollective/client.cfg)."
    ),
    "mco_timeout": click.option(
        "--mco-timeout", metavar="SECONDS", help="How long a node has to answer a request (default: 60)."
    ),
    "mco_connect_limit": click.option(
        "--mco-connect-limit", metavar="SECONDS", help="How long one try to connect to a broker may take (default: 10)."
    ),
    "mco_attempts": click.option("--mco-attempts", metavar="N", help="How often each broker is tried (default: 3)."),
    "wait": click.option("--wait", metavar="SECONDS", help="How long to wait for another run (default: 240)."),
    "nailgun": click.option("--nailgun", metavar="URL", help="Nailgun: knows the nodes and how far they are."),
    "nailgun_ca": click.option(
        "--nailgun-ca",
        metavar="FILE",
        help="Certificates to trust for Nailgun (default: the master's own, if it is here).",
    ),
    "page_url": click.option(
        "--page-url",
        metavar="URL",
        help="Where `tenants serve` is for people's browsers: with --stage the Fuel UI gets a link to its status page.",
    ),
    "time_limit": click.option(
        "--time-limit",
        metavar="SECONDS",
        help="Stop before so many seconds are over (default: none; with --stage 280).",
    ),
    "failure_policy": click.option(
        "--failure-policy",
        metavar="LIST",
        help="With --stage: which failures stop the deployment, of deploying,ready,configdb,post; or none"
        " (default: deploying,configdb).",
    ),
    "keep_runs": click.option(
        "--keep-runs", metavar="N", help="How many runs of an environment are remembered (default: 50)."
    ),
    "keep_versions": click.option(
        "--keep-versions",
        metavar="N",
        help="How many versions of a document are remembered where ConfigDB keeps none (default: 30).",
    ),
}

CONNECTION = (
    "database",
    "configdb",
    "configdb_database",
    "configdb_token_file",
    "configdb_ca",
    "configdb_insecure",
    "state",
    "keep_versions",
)
NAILGUN = ("nailgun", "nailgun_ca")
BUS = ("mco_config", "mco_timeout", "mco_connect_limit", "mco_attempts")
SYNC = ("wait", "time_limit", "failure_policy", "keep_runs", "page_url")
RUN = (*CONNECTION, "tenant", "levels", "data_sources", "writable", "parallel", "unsafe_share", *NAILGUN)
ALL = tuple(_OPTIONS)


@dataclass(frozen=True)
class Session:
    """What a command works with: its settings, and the things made from them when first asked for."""

    settings: Settings
    run: str = field(default_factory=new_run_id)

    @functools.cached_property
    def state(self) -> State:
        """The state folder, made if it isn't there."""
        return open_state(locate(self.settings.state, os.environ, root=os.geteuid() == 0))

    @functools.cached_property
    def masker(self) -> Masker:
        """Shows values without secrets."""
        return Masker(self.state.mask_key())

    @functools.cached_property
    def author(self) -> str:
        """Who runs this: the local user's name."""
        return _user()

    @property
    def configdb_database(self) -> str:
        """URL of the embedded ConfigDB's database."""
        return self._keyed(self.settings.configdb_database or self.state.configdb_database_url)

    @property
    def database(self) -> str:
        """URL of the product's own database."""
        return self._keyed(self.settings.database or self.state.database_url)

    @functools.cached_property
    def keyring(self) -> Keyring | None:
        """The keys that stored contents are encrypted with, None if no key file is set. Raises ``SettingsError``."""
        return None if self.settings.key_file is None else Keyring(self.settings.key_file.absolute())

    def _keyed(self, url: str) -> str:
        return with_key_file(url, self.settings.key_file)

    @property
    def environ(self) -> dict[str, str]:
        """The variables that a login to Keystone is read from: this process's, with the settings' login.

        Raises ``SettingsError`` if a file that the login names isn't there.
        """
        others = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        return others | dict(self.settings.checked_login())

    def seen(self, environment: int) -> dict[str, tuple[str, ...]]:
        """Return the FQDNs under which earlier runs saw nodes, by identity."""
        with closing(open_store(self.database)) as database:
            return names_seen(database, environment)

    def identity_of(self, environment: int, fqdn: str) -> str:
        """Return the identity of the node that earlier runs saw under this FQDN. Raises ``SettingsError``."""
        return Addresses(environment).named_value(fqdn, lambda: self.seen(environment))

    def addresses(self, client: ConfigDBClient, environment: int) -> Addresses:
        """Return the places of an environment's nodes: by what runs noted in ConfigDB, else by the settings."""
        return standing_overrides.addresses_of(client, environment, self.settings.levels)

    def nailgun(self, *, hasty: bool = False) -> NailgunClient | None:
        """Return a client of the Nailgun that the settings name, None if they name none.

        ``hasty``: it gives up after some seconds.
        """
        settings = self.settings
        if settings.nailgun is None:
            return None
        limits, policy = (_HASTE, RetryPolicy(attempts=1)) if hasty else (LIMITS, None)
        ca_file = settings.authorities("nailgun_ca")
        return connect_nailgun(settings.nailgun, environ=self.environ, ca_file=ca_file, limits=limits, policy=policy)

    @functools.cached_property
    def versions(self) -> VersionStore:
        """The versions that the product itself keeps; ``client`` closes it."""
        return VersionStore(lambda: open_store(self.database), self.settings.keep_versions, SystemClock())

    @contextmanager
    def client(self, *, comment: str | None = None, policy: RetryPolicy | None = None) -> Iterator[ConfigDBClient]:
        """Yield a client of the ConfigDB that the settings name. What it changes is in the history (U17).

        ``policy``: how often to try, if not as often as a run does.
        """
        writer = Writer(run=self.run, author=self.author, comment=comment)
        with closing(self.versions) as versions, self._connected(writer, policy) as client:
            client.observe(recorder(versions, client.base, writer))
            yield client

    def _connected(self, writer: Writer, policy: RetryPolicy | None) -> ConfigDBClient:
        settings = self.settings
        embedded = settings.configdb == EMBEDDED
        return connect(
            settings.configdb,
            database_url=self.configdb_database if embedded else None,
            token_file=None if embedded else settings.file("configdb_token_file"),
            writer=writer,
            workers=settings.parallel,
            ca_file=None if embedded else settings.authorities("configdb_ca"),
            insecure=settings.configdb_insecure,
            environ=self.environ if settings.configdb == CATALOG else {},
            fallback=self._on_nailgun,
            policy=policy,
        )

    def _on_nailgun(self) -> str | None:
        """Return where ConfigDB is if Keystone's catalog doesn't say: on Nailgun (U5)."""
        nailgun = self.nailgun()
        if nailgun is None:
            return None
        with nailgun:
            return f"{nailgun.address}/api/v1/config"


def service_id(run: str) -> str:
    """Return a service's own identity from that of its run: not of the form of a request's."""
    return f"service-{run.removeprefix('req-')[:8]}"


def sign_log_lines(run: str) -> None:
    """Put the run's, or the service's, identity into every line that the command logs."""
    for handler in logging.getLogger().handlers:
        if type(handler) is logging.StreamHandler:
            handler.setFormatter(logging.Formatter(f"%(levelname)s {run} %(name)s: %(message)s"))


def _user() -> str:
    try:
        return shown(getpass.getuser())
    except (KeyError, OSError):
        return f"uid {os.geteuid()}"


def _read(flags: dict[str, Any], file: Path | None, asked: dict[str, Any]) -> Settings:
    """Return the settings of a command; on a Fuel Master those of the plugin are among them (U3).

    ``asked``: what else the command was told, an environment and a deployment among it.
    """
    env = asked.get("environment") or asked.get("env")
    if not isinstance(env, int):
        return read_settings(flags, os.environ, file)

    def ask(layers: Sequence[SettingsLayer]) -> Section | None:
        known = without_login(read_settings(flags, os.environ, file, layers), layers)
        return _ask_nailgun(Session(known), env)

    layers = plugin_layers(
        MASTER,
        Path(configdb_sync.__file__).parent,
        env,
        staged=asked.get("deployment") is not None,
        # A command that has no flag for Nailgun doesn't ask it.
        ask_nailgun=ask if "nailgun" in flags else None,
    )
    return without_login(read_settings(flags, os.environ, file, layers), layers)


def _ask_nailgun(session: Session, env: int) -> Section | None:
    try:
        client = session.nailgun()
        if client is None:
            return None
        with client:
            found = client.plugin_settings(env, NAME)
            place = f"Nailgun {client.base} ({NAME})"
    except ProductError as error:
        # What needs Nailgun will fail by itself, and may do so better with other settings.
        _LOG.info("Nailgun wasn't asked for settings: %s", error)
        return None
    return Section(place, found.values, found.metadata) if found is not None and found.enabled else None


def settings_options(*names: str) -> Callable[[F], F]:
    """Give a command the named settings' options and ``--settings``; it gets a ``Session`` as its first argument.

    Whoever opens a database gets the option for its keys, too.
    """

    if not {"database", "configdb_database"}.isdisjoint(names):
        names = (*dict.fromkeys((*names, "key_file")),)

    def decorate(command: F) -> F:
        @functools.wraps(command)
        def wrapped(*args: Any, settings_file: str | None, **kwargs: Any) -> Any:
            flags = {name: kwargs.pop(name) for name in names}
            file = settings_file or os.environ.get("CONFIGDB_SYNC_SETTINGS")
            session = Session(_read(flags, Path(file) if file else None, kwargs))
            sign_log_lines(session.run)
            return command(session, *args, **kwargs)

        decorated: Any = click.option(
            "--settings",
            "settings_file",
            metavar="FILE",
            help="Settings file of mode 0600 (default: /etc/configdb-sync/settings.yaml).",
        )(wrapped)
        for name in reversed(names):
            decorated = _OPTIONS[name](decorated)
        return decorated  # type: ignore[no-any-return]

    return decorate


def node_names(given: Iterable[str]) -> tuple[str, ...]:
    """Return the names in the lists of ``--node``, each once; none if it wasn't given.

    Raises ``SettingsError`` for lists without a name: they come from an empty variable, and don't mean all nodes.
    """
    lists = list(given)
    names = dict.fromkeys(name.strip() for names in lists for name in names.split(",") if name.strip())
    if lists and not names:
        raise SettingsError("--node names no node", way_out="give ids or FQDNs, or leave it out for all nodes")
    return tuple(names)


def configdb_options(command: F) -> F:
    """Give a command what it needs to reach ConfigDB."""
    return settings_options(*CONNECTION)(command)
