"""What a command works with: its settings, and the clients, databases and keys that are made from them (U3)."""

from __future__ import annotations

import functools
import getpass
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import configdb_sync
from configdb_sync.addresses import Addresses
from configdb_sync.clock import SystemClock, new_run_id
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.connect import CATALOG, EMBEDDED, connect
from configdb_sync.configdb.model import ChangeAuthor
from configdb_sync.errors import ProductError
from configdb_sync.http.session import RetryPolicy
from configdb_sync.http.transport import TransferLimits
from configdb_sync.masking import Masker
from configdb_sync.nodes.node_files import shown
from configdb_sync.plugin.fuel_settings import NAME, Master, Section, plugin_layers, without_login
from configdb_sync.settings import Settings, SettingsLayer, read_settings
from configdb_sync.state import StateFolder, locate, open_state
from configdb_sync.store.database import Database
from configdb_sync.store.engine import with_key_file
from configdb_sync.store.keyring import Keyring
from configdb_sync.store.opening import open_store

if TYPE_CHECKING:
    from configdb_sync.nailgun.client import NailgunClient
    from configdb_sync.overrides.note_store import NoteStore
    from configdb_sync.status_page.queries import History
    from configdb_sync.store.versions import VersionStore
    from configdb_sync.tenants.registry import Registry

MASTER = Master()
"""Where a Fuel Master's files are: on this machine, if it is one."""
_LOG = logging.getLogger(__name__)
_HASTE = TransferLimits(connect=3.0, read=5.0, total=10.0)


@dataclass(frozen=True)
class Session:
    """The settings of a command, and what is made from them on first use.

    ``reopened`` gives the session of the same command for one environment, which may have settings of its own.
    """

    settings: Settings
    run: str = field(default_factory=new_run_id)
    reopened: Callable[[int], Session] | None = field(default=None, repr=False)

    @functools.cached_property
    def state(self) -> StateFolder:
        """The state folder, made if it does not exist."""
        return open_state(locate(self.settings.state, os.environ, root=os.geteuid() == 0))

    @functools.cached_property
    def masker(self) -> Masker:
        """Shows values without secrets."""
        return Masker(self.state.mask_key())

    @functools.cached_property
    def author(self) -> str:
        """Who runs this: the local user's name."""
        try:
            return shown(getpass.getuser())
        except (KeyError, OSError):
            return f"uid {os.geteuid()}"

    @property
    def service_id(self) -> str:
        """A service's own identity, made from that of its run: not of the form of a request's."""
        return f"service-{self.run.removeprefix('req-')[:8]}"

    @property
    def configdb_database(self) -> str:
        """URL of the embedded ConfigDB's database."""
        return with_key_file(
            self.settings.configdb_database or self.state.configdb_database_url, self.settings.key_file
        )

    @property
    def database(self) -> str:
        """URL of the product's own database."""
        return with_key_file(self.settings.database or self.state.database_url, self.settings.key_file)

    @functools.cached_property
    def keyring(self) -> Keyring | None:
        """The keys that stored contents are encrypted with, None if no key file is set. Raises ``SettingsError``."""
        return None if self.settings.key_file is None else Keyring(self.settings.key_file.absolute())

    @property
    def environ(self) -> dict[str, str]:
        """The variables that a login to Keystone is read from: the settings' login replaces this process's ``OS_*``.

        Raises ``SettingsError`` if a file that the login names does not exist.
        """
        others = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        return others | dict(self.settings.checked_login())

    def records(self) -> Database:
        """Open the product's own database, its tables up to date."""
        return open_store(self.database)

    def registry(self, connections: int = 8) -> Registry:
        """Open the registry of tenants."""
        from configdb_sync.tenants.registry import Registry, open_registry

        return Registry(open_registry(self.database, connections=connections))

    def history(self, database: Database) -> History:
        """Return the history that the status page reads, from the product's own database."""
        from configdb_sync.hiera.arrangement import Arrangement
        from configdb_sync.status_page.queries import History
        from configdb_sync.store.runs import PastRuns

        past = PastRuns(database, SystemClock())
        arrangement = Arrangement(self.settings.data_sources)
        return History(database, past, self.versions, self.masker, self.settings.levels, arrangement)

    def seen(self, environment: int) -> dict[str, tuple[str, ...]]:
        """Return the FQDNs under which earlier runs saw nodes, by identity."""
        from configdb_sync.store.records import names_seen

        with closing(self.records()) as database:
            return names_seen(database, environment)

    def identity_of(self, environment: int, fqdn: str) -> str:
        """Return the identity of the node that earlier runs saw under this FQDN. Raises ``SettingsError``."""
        return Addresses(environment).named_value(fqdn, lambda: self.seen(environment))

    def addresses(self, client: ConfigDBClient, environment: int) -> Addresses:
        """Return the places of an environment's nodes, by the levels noted in ConfigDB, else by the settings."""
        from configdb_sync.sync import standing_overrides

        return standing_overrides.addresses_of(client, environment, self.settings.levels)

    def nailgun(self, *, hasty: bool = False) -> NailgunClient | None:
        """Return a client of the Nailgun that the settings name, None if they name none.

        ``hasty``: it stops trying after a few seconds.
        """
        settings = self.settings
        if settings.nailgun is None:
            return None
        from configdb_sync.nailgun.connect import LIMITS, connect

        limits, policy = (_HASTE, RetryPolicy(attempts=1)) if hasty else (LIMITS, None)
        ca_file = settings.authorities("nailgun_ca")
        return connect(settings.nailgun, environ=self.environ, ca_file=ca_file, limits=limits, policy=policy)

    @functools.cached_property
    def versions(self) -> VersionStore:
        """The versions that the product itself keeps; ``client`` closes the store."""
        from configdb_sync.store.versions import VersionStore

        return VersionStore(self.records, self.settings.keep_versions, SystemClock())

    @contextmanager
    def client(self, *, comment: str | None = None, policy: RetryPolicy | None = None) -> Iterator[ConfigDBClient]:
        """Yield a client of the ConfigDB that the settings name. The history records its changes (U17).

        ``policy``: how often to retry, if not as often as a run does.
        """
        from configdb_sync.sync.history import recorder

        author = ChangeAuthor(run=self.run, author=self.author, comment=comment)
        with closing(self.versions) as versions, self._connected(author, policy) as client:
            client.observe(recorder(versions, client.base, author))
            yield client

    @contextmanager
    def notes(self, client: ConfigDBClient) -> Iterator[NoteStore]:
        """Yield the notes on overrides in a client's ConfigDB (U27)."""
        from configdb_sync.overrides.note_store import NoteStore

        with closing(self.records()) as database:
            yield NoteStore(client, database)

    def _connected(self, author: ChangeAuthor, policy: RetryPolicy | None) -> ConfigDBClient:
        settings = self.settings
        embedded = settings.configdb == EMBEDDED
        return connect(
            settings.configdb,
            database_url=self.configdb_database if embedded else None,
            token_file=None if embedded else settings.file("configdb_token_file"),
            author=author,
            workers=settings.parallel,
            ca_file=None if embedded else settings.authorities("configdb_ca"),
            insecure=settings.configdb_insecure,
            environ=self.environ if settings.configdb == CATALOG else {},
            fallback=self._on_nailgun,
            policy=policy,
        )

    def _on_nailgun(self) -> str | None:
        """Return the address on Nailgun, for a Keystone whose catalog has no ConfigDB (U5)."""
        nailgun = self.nailgun()
        if nailgun is None:
            return None
        with nailgun:
            return f"{nailgun.address}/api/v1/config"


def sign_log_lines(run: str) -> None:
    """Put the identity of the run, or of the service, into every line that is logged; with ``--debug`` the time."""
    time = "%(asctime)s " if _LOG.isEnabledFor(logging.DEBUG) else ""
    for handler in logging.getLogger().handlers:
        if type(handler) is logging.StreamHandler:
            handler.setFormatter(logging.Formatter(f"{time}%(levelname)s {run} %(name)s: %(message)s"))


def open_session(flags: Mapping[str, Any], file: str | None, options: Mapping[str, Any]) -> Session:
    """Return the session of a command; on a Fuel Master the plugin's settings are among its settings (U3).

    ``flags``: the settings that were given as options. ``options``: the other options, such as the environment and the
    deployment.
    """
    settings = _read(flags, file or os.environ.get("CONFIGDB_SYNC_SETTINGS"), options)
    session = Session(settings, reopened=lambda env: open_session(flags, file, {**options, "environment": env}))
    sign_log_lines(session.run)
    return session


def _read(flags: Mapping[str, Any], name: str | None, options: Mapping[str, Any]) -> Settings:
    file, env = Path(name) if name else None, options.get("environment")
    if not isinstance(env, int):
        return read_settings(flags, os.environ, file)

    def ask(layers: Sequence[SettingsLayer]) -> Section | None:
        known = without_login(read_settings(flags, os.environ, file, layers), layers)
        return _ask_nailgun(Session(known), env)

    layers = plugin_layers(
        MASTER,
        Path(configdb_sync.__file__).parent,
        env,
        staged=options.get("deployment") is not None,
        # A command without an option for Nailgun doesn't ask it.
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
        # What needs Nailgun fails later, with a better message.
        _LOG.info("Nailgun was not asked for settings: %s", error)
        return None
    return Section(place, found.values, found.metadata) if found is not None and found.enabled else None
