"""``configdb-sync configdb serve`` and ``tenants serve``, and what goes with the latter: ``usage`` and ``policy``."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from configdb_sync.cli.help import CommandGroup, command
from configdb_sync.cli.listing import ListOutput, list_options
from configdb_sync.cli.options import CONNECTION, file_option, with_session
from configdb_sync.cli.services import configured
from configdb_sync.clock import SystemClock
from configdb_sync.closed_files import read_closed
from configdb_sync.errors import SettingsError
from configdb_sync.exits import Exit
from configdb_sync.keystone import clouds
from configdb_sync.tenants.metrics import Usage
from configdb_sync.web.access import Access, KeystoneAccess, OpenAccess, TokenAccess, limited

if TYPE_CHECKING:
    from configdb_sync.cli.command_session import Session
    from configdb_sync.cli.options import F
    from configdb_sync.status_page.sessions import Sessions
    from configdb_sync.tenants.outbox_worker import Connected
    from configdb_sync.tenants.policy import Policy
    from configdb_sync.tenants.registry import Registry
    from configdb_sync.tenants.status_chain import Chain
    from configdb_sync.web.service import GunicornOptions


def read_token(path: Path) -> str:
    """Return the token of a file of mode 0600. Raises ``SettingsError``."""
    way_out = "name a file with a token of at least 16 ASCII characters"
    token = read_closed(path, "the token file", way_out=way_out).decode("latin-1").strip()
    if len(token) < 16 or not token.isascii() or not token.isprintable():
        raise SettingsError(f"the token file {path} holds no such token", way_out=way_out)
    return token


def _default_option(name: str, default: Any, kind: Any, metavar: str, text: str) -> Callable[[F], F]:
    return click.option(name, type=kind, default=default, show_default=True, metavar=metavar, help=text)


def _transport_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options on TLS and processes; it gets a ``GunicornOptions``."""

    @file_option("--tls-cert", text="TLS certificate with its chain, PEM.")
    @file_option("--tls-key", text="Key of the certificate, PEM, not encrypted.")
    @click.option("--behind-proxy", is_flag=True, help="A proxy in front does TLS and buffers slow clients.")
    @_default_option("--workers", 2, click.IntRange(1, 64), "N", "Number of processes.")
    @_default_option("--threads", 4, click.IntRange(1, 64), "N", "Number of threads in each process.")
    @functools.wraps(function)
    def wrapped(
        *args: Any,
        tls_cert: Path | None,
        tls_key: Path | None,
        behind_proxy: bool,
        workers: int,
        threads: int,
        **options: Any,
    ) -> Any:
        from configdb_sync.web.service import GunicornOptions

        return function(*args, transport=GunicornOptions(tls_cert, tls_key, behind_proxy, workers, threads), **options)

    return wrapped


_auth_option = click.option(
    "--auth",
    type=click.Choice(["token", "keystone", "none"]),
    default="token",
    show_default=True,
    help="Who may call: who has the token, users of Keystone, or everyone (loopback only).",
)
_metrics_token_option = file_option(
    "--metrics-token-file", text="File with a token (mode 0600) that can only read /metrics."
)
_refused_rate_option = _default_option(
    "--refused-rate", 10, click.FloatRange(0), "N", "Bad tokens per second from one address; 0: no limit."
)


@click.group(cls=CommandGroup)
def configdb() -> None:
    """Serve the built-in ConfigDB."""


@configdb.command("serve", example="configdb-sync configdb serve --listen 127.0.0.1:8082 --workers 4")
@with_session("configdb_database", "state", "database")
@configured("configdb")
@_default_option("--listen", "127.0.0.1:8082", str, "HOST:PORT", "Address to listen on; port 0 takes any free one.")
@_auth_option
@file_option("--token-file", text="File with the token, mode 0600.  [default: made in the state folder]")
@_default_option("--write-role", "admin", str, "ROLE", "With keystone: role that may read and write.")
@click.option("--read-role", metavar="ROLE", help="With keystone: role that may only read.")
@_metrics_token_option
@_refused_rate_option
@_transport_options
@_default_option("--body-limit", 64, click.IntRange(1), "MIB", "Largest body of a request.")
@_default_option("--versions", 30, click.IntRange(1), "N", "Number of versions to keep of each document.")
def serve(
    session: Session,
    *,
    listen: str,
    auth: str,
    token_file: Path | None,
    write_role: str,
    read_role: str | None,
    metrics_token_file: Path | None,
    refused_rate: float,
    transport: GunicornOptions,
    body_limit: int,
    versions: int,
) -> None:
    """Serve ConfigDB until SIGTERM or Ctrl-C.

    `services.configdb` in the settings file sets what no option sets. With --auth keystone, the service logs in with
    the login of the settings to validate the callers' tokens.
    """
    from configdb_sync.cli.command_session import sign_log_lines
    from configdb_sync.configdb_server import app
    from configdb_sync.configdb_server.messages import ServerLimits
    from configdb_sync.store.gauges import gauges_text
    from configdb_sync.store.opening import open_store
    from configdb_sync.web.service import read_listen

    sign_log_lines(session.service_id)
    cloud = clouds.read(session.environ) if auth == "keystone" else None
    token = ""
    if auth == "token":
        token = session.state.token() if token_file is None else read_token(token_file)

    def access() -> Access:
        if auth == "none":
            return OpenAccess()
        rate = refused_rate / transport.workers
        if cloud is None:
            return limited(TokenAccess(token, realm="configdb"), SystemClock(), rate)
        users = KeystoneAccess(cloud, None, SystemClock(), name="configdb-sync-configdb")
        return limited(users, SystemClock(), rate, keystone=True)

    def announce(url: str) -> None:
        click.echo(f"ConfigDB listens on {url}")
        if auth == "token":
            click.echo(f"its token is in {token_file or session.state.token_file}")

    metrics_token = None if metrics_token_file is None else read_token(metrics_token_file)

    def gauges() -> app.Gauges:
        opened = functools.cache(lambda: open_store(session.database, connections=1))
        return app.Gauges(lambda: gauges_text(opened(), SystemClock()), metrics_token)

    settings = app.ServerSettings(
        listen=read_listen(listen),
        transport=transport,
        access=access,
        database_url=session.configdb_database,
        roles=None if cloud is None else app.KeystoneRoles(write_role, read_role),
        unguarded=auth == "none",
        limits=ServerLimits(body=body_limit * 1024 * 1024, versions=versions),
        gauges=gauges,
    )
    app.serve(settings, announce)


@command("serve", example="configdb-sync tenants serve --admin 127.0.0.1:8083 --public 10.20.0.2:8084")
@with_session(*CONNECTION, "levels")
@configured("tenants")
@_default_option("--admin", "127.0.0.1:8083", str, "HOST:PORT", "Admin endpoint.")
@click.option("--public", metavar="HOST:PORT", help="Public endpoint: a tenant's users read their own tenant.")
@click.option("--public-page", is_flag=True, help="Public endpoint with the status page: each tenant sees its own.")
@_auth_option
@_default_option("--admin-role", "admin", str, "ROLE", "With keystone: role of operators.")
@click.option("--public-cloud", metavar="NAME", help="Login in clouds.yaml for the public endpoint's tokens.")
@file_option("--token-file", text="File with the admin token, mode 0600.  [default: made in the state folder]")
@_default_option("--retention", 30, click.FloatRange(0), "DAYS", "How long a deleted tenant can be recovered.")
@_default_option("--listed", 100, click.IntRange(0), "N", "Longest list in the answer of a move action.")
@_default_option("--drivers", "sync,configdb", str, "LIST", "Status drivers in the order of their use; none for none.")
@_default_option("--max-age", 10, click.FloatRange(0), "SECONDS", "How long a status is valid.")
@file_option("--usage-log", text="Append one line of JSON for each request, with its tenant, for charge-back.")
@file_option("--policy-file", text="oslo.policy rules (YAML) over the defaults; `tenants policy` prints all.")
@_default_option(
    "--rate", 100, click.FloatRange(0), "N", "Requests per second of a tenant's users, for each process; 0: no limit."
)
@_default_option("--admin-rate", 0, click.FloatRange(0), "N", "The same for one user of the admin endpoint.")
@_refused_rate_option
@_metrics_token_option
@_default_option(
    "--metrics-tenants", 100, click.IntRange(0), "N", "Number of tenants with their own metrics; others share one."
)
@_default_option("--log-format", "text", click.Choice(["text", "json"]), "text|json", "Format of log lines.")
@_transport_options
def serve_tenants(
    session: Session, *, public_page: bool, auth: str, log_format: str, transport: GunicornOptions, **given: Any
) -> None:
    """Serve the tenant API until SIGTERM or Ctrl-C.

    `services.tenants` in the settings file sets what no option sets. With --auth keystone, the service logs in with
    OS_* variables or `login` in the settings file to validate the callers' tokens.
    """
    from configdb_sync.http.session import RetryPolicy
    from configdb_sync.status_page.pages import StatusPage
    from configdb_sync.tenants import service
    from configdb_sync.tenants.policy import Policy
    from configdb_sync.tenants.requests import DAY, ApiLimits
    from configdb_sync.tenants.status_chain import Chain
    from configdb_sync.tenants.status_drivers import DriverServices, load
    from configdb_sync.web.service import JsonFormatter, TextFormatter, read_listen, use

    formatter = JsonFormatter(run=session.service_id) if log_format == "json" else TextFormatter(session.service_id)
    use(formatter)
    accesses = _Accesses(
        session,
        auth,
        given["token_file"],
        given["admin_role"],
        given["public_cloud"],
        given["refused_rate"] / transport.workers,
        given["metrics_token_file"],
    )

    def policy() -> Policy:
        return Policy(SystemClock(), given["policy_file"], given["admin_role"])

    for made in (accesses.admin, accesses.public, policy):
        made()  # Mistakes in a login or the policy are reported before the service listens.

    def announce(urls: list[str]) -> None:
        click.echo(f"the tenant admin API listens on {urls[0]}")
        if auth == "token":
            click.echo(f"its token is in {accesses.token_path}")
        for url in urls[1:]:
            click.echo(f"the public endpoint listens on {url}")
        click.echo(f"the status page is {urls[0]}/status")

    drivers = [] if given["drivers"] == "none" else [name.strip() for name in given["drivers"].split(",")]

    def chain(registry: Registry, client: Connected) -> Chain | None:
        around = DriverServices(registry.database, client, SystemClock())
        return Chain(registry, load(drivers, around), SystemClock(), given["max_age"]) if drivers else None

    # A request waits for its answer: what can't be asked now is asked again later.
    policy_of_requests = RetryPolicy(attempts=2, whole=5.0)
    session.records().close()  # Makes the tables of the runs, which the status needs.
    told = service.TenantsService(
        admin=read_listen(given["admin"], "--admin"),
        access=accesses.admin,
        database_url=session.database,
        unguarded=auth == "none",
        public=None if given["public"] is None else read_listen(given["public"], "--public"),
        public_access=accesses.public,
        transport=transport,
        limits=ApiLimits(retention=int(given["retention"] * DAY)),
        connect=lambda: session.client(policy=policy_of_requests),
        drivers=chain,
        site=lambda registry: StatusPage(
            history=session.history(registry.database),
            sessions=accesses.sessions,
            public_sessions=accesses.public_sessions if public_page else None,
            secure=transport.certificate is not None or transport.behind_proxy,
        ),
        policy=policy,
        log_formatter=formatter,
        **{name: given[name] for name in ("listed", "usage_log", "rate", "admin_rate", "metrics_tenants")},
    )
    service.serve(told, announce)


@dataclass(frozen=True)
class _Accesses:
    """Who may call the two endpoints; each process makes its own. ``refused_rate`` is that of one process."""

    session: Session
    auth: str
    token_file: Path | None
    admin_role: str
    public_cloud: str | None
    refused_rate: float
    metrics_token_file: Path | None

    @property
    def token_path(self) -> Path:
        return self.token_file or self.session.state.tenants_token_file

    def admin(self) -> Access:
        from configdb_sync.tenants.policy import MetricsAccess

        access = self._operators()
        if self.metrics_token_file is not None:
            access = MetricsAccess(access, read_token(self.metrics_token_file))
        return access if self.auth == "none" else self._limited(access)

    def _limited(self, access: Access) -> Access:
        return limited(access, SystemClock(), self.refused_rate, keystone=self.auth == "keystone")

    def _operators(self) -> Access:
        if self.auth == "keystone":
            return _keystone(self.session.environ, self.admin_role, "configdb-sync-tenants-admin")
        if self.auth == "none":
            return OpenAccess(self.admin_role)
        token = read_token(self.token_file) if self.token_file else self.session.state.tenants_token()
        return TokenAccess(token, self.admin_role)

    def public(self) -> Access:
        return self._limited(self._users())

    def _users(self) -> Access:
        from configdb_sync.tenants.policy import TenantTokenAccess

        if self.auth == "keystone":
            return _keystone(self._public_environ(), None, "configdb-sync-tenants-public")
        return TenantTokenAccess(self.session.state.tenants_public_key())

    def sessions(self, access: Access) -> Sessions | None:
        """How operators sign in to the pages; None if everyone may see them."""
        from configdb_sync.status_page.sessions import TokenSessions

        if self.auth == "keystone":
            return _keystone_sessions(self.session.environ, access, tenants=False)
        operators = self._operators()
        return TokenSessions(operators, lambda _: operators.token) if isinstance(operators, TokenAccess) else None

    def public_sessions(self, access: Access) -> Sessions | None:
        """How tenants' users sign in."""
        from configdb_sync.status_page.sessions import TokenSessions
        from configdb_sync.tenants.policy import TenantTokenAccess

        users = None if self.auth == "keystone" else self._users()
        if isinstance(users, TenantTokenAccess):
            return TokenSessions(users, lambda tenant: users.token(tenant or ""), tenants=True)
        return _keystone_sessions(self._public_environ(), access, tenants=True)

    def _public_environ(self) -> Mapping[str, str]:
        environ = self.session.environ
        if self.public_cloud is None:
            return environ
        kept = {
            name: value
            for name, value in environ.items()
            if name == "OS_CLIENT_CONFIG_FILE" or not name.startswith("OS_")
        }
        return kept | {"OS_CLOUD": self.public_cloud}


def _keystone_sessions(environ: Mapping[str, str], access: Access, *, tenants: bool) -> Sessions:
    from configdb_sync.status_page.sessions import KeystoneSessions, log_in, revoke

    return KeystoneSessions(clouds.read(environ), access, log_in, tenants, lambda token: revoke(environ, token))


def _keystone(environ: Mapping[str, str], role: str | None, name: str) -> Access:
    return KeystoneAccess(clouds.read(environ), role, SystemClock(), name=name)


_TIME = re.compile(r"\d{4}(-\d\d(-\d\d(T\d\d(:\d\d(:\d\d(\.\d+)?)?)?)?)?)?")
_HEADS = ("tenant", "requests", "changes", "refused", "bytes", "seconds")


def _time(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
    text = None if value is None else value.removesuffix("Z")
    if text is not None and not _TIME.fullmatch(text):
        raise click.BadParameter("is no time; for example 2026-11, 2026-11-30 or 2026-11-30T12:00")
    return text


@command("usage", example="configdb-sync tenants usage usage.log usage.log.1 --since 2026-11")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--since", metavar="TIME", callback=_time, help="First moment in UTC, or the beginning of it: 2026-11.")
@click.option("--until", metavar="TIME", callback=_time, help="First moment that no longer counts.")
@list_options("tenants", *_HEADS)
def usage(*, files: tuple[Path, ...], since: str | None, until: str | None, output: ListOutput) -> None:
    """Sum up usage records by tenant, for charge-back.

    Reads FILES that `tenants serve --usage-log` wrote; name rotated files too. Lines that are no records are counted
    and reported; the exit code is then 3.
    """
    found = Usage()
    for path in files:
        try:
            with path.open("rb") as file:
                found.add(file, since, until)
        except OSError as error:
            raise SettingsError(
                f"the usage log {path} can't be read: {error.strerror}", way_out="name the file of --usage-log"
            ) from None
    if not output.is_own:
        rows = [{"tenant": tenant, **each.json()} for tenant, each in found.ordered()]
        output.show(rows, {"unreadable": found.unreadable})
    else:
        click.echo("  ".join(_HEADS))
        for tenant, each in found.ordered():
            click.echo("  ".join(["-" if tenant is None else repr(tenant), *map(str, each.json().values())]))
    if found.unreadable:
        click.echo(f"configdb-sync: skipped {found.unreadable} lines that are no usage records", err=True)
        sys.exit(Exit.PARTIAL)


@command("policy", example="configdb-sync tenants policy /etc/configdb-sync/policy.yaml")
@click.argument("file", required=False, type=click.Path(path_type=Path))
def policy(*, file: Path | None) -> None:
    """Print all policy rules with their defaults, or check FILE."""
    from configdb_sync.tenants import policy

    if file is not None:
        found, _ = policy.read(file, {one.name: one.check_str for one in policy.rules()})
        click.echo(f"{file}: {len(found)} rules can be used")
        return
    from oslo_config import cfg
    from oslo_policy import generator

    generator.generate_sample(["--namespace", policy.NAMESPACE], cfg.ConfigOpts())
