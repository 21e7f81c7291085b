"""``configdb-sync tenants``: the tenant admin API, and its calls for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from configdb_sync.cli import tenant_commands, tenant_reports
from configdb_sync.cli.chronicles import history_of
from configdb_sync.cli.options import CONNECTION, Session, service_id, settings_options
from configdb_sync.cli.service_options import configured
from configdb_sync.cli.tokens import read_token
from configdb_sync.clock import SystemClock
from configdb_sync.configdb import clouds
from configdb_sync.configdb.retry import RetryPolicy
from configdb_sync.status_page.sessions import KeystoneSessions, Sessions, TokenSessions, log_in, revoke
from configdb_sync.store.opening import open_store
from configdb_sync.tenants.access import (
    Access,
    LimitedAccess,
    MetricsAccess,
    OpenAccess,
    TenantTokenAccess,
    TokenAccess,
)
from configdb_sync.tenants.drivers import DEFAULT
from configdb_sync.tenants.limiting import buckets
from configdb_sync.tenants.registry import Registry

_PATIENCE = RetryPolicy(attempts=2, whole=5.0)
"""A request waits for its answer: what can't be asked now is asked again later."""


@click.group(commands=[*tenant_commands.COMMANDS, *tenant_reports.COMMANDS])
def tenants() -> None:
    """Tenants: who owns which environment and data source."""


@tenants.command()
@settings_options(*CONNECTION, "levels")
@configured("tenants")
@click.option("--admin", default="127.0.0.1:8083", show_default=True, metavar="HOST:PORT", help="The admin endpoint.")
@click.option("--public", metavar="HOST:PORT", help="The public endpoint: a tenant's users read their own tenant.")
@click.option(
    "--public-page", is_flag=True, help="The public endpoint has the status page too: each tenant sees its own."
)
@click.option(
    "--auth",
    type=click.Choice(["token", "keystone", "none"]),
    default="token",
    show_default=True,
    help="Who may call: whoever has the token, users of Keystone (the settings' login is this service's own), or anyone"
    " on loopback.",
)
@click.option("--admin-role", default="admin", show_default=True, metavar="ROLE", help="Keystone's, for operators.")
@click.option(
    "--public-cloud", metavar="NAME", help="Another login (of clouds.yaml) to check the public endpoint's tokens with."
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="Holds the admin token, mode 0600. Default: made in the state folder.",
)
@click.option("--retention", type=click.FloatRange(0), default=30, show_default=True, metavar="DAYS", help="Recovery.")
@click.option("--listed", type=click.IntRange(0), default=100, show_default=True, help="Longest list of a move action.")
@click.option(
    "--drivers",
    default=",".join(DEFAULT),
    show_default=True,
    metavar="LIST",
    help="Status drivers in the order in which they are asked; none for none.",
)
@click.option("--max-age", type=click.FloatRange(0), default=10, show_default=True, help="Seconds a status holds.")
@click.option(
    "--usage-log",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Append a line of JSON for each request, with its tenant, to be summed for charge-back.",
)
@click.option(
    "--policy-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Rules over the defaults, oslo.policy's YAML; `configdb-sync tenants policy` prints them all.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0),
    default=100,
    show_default=True,
    metavar="N",
    help="Requests a second of one tenant's users on the public endpoint, in each process; 0: no limit.",
)
@click.option(
    "--admin-rate",
    type=click.FloatRange(0),
    default=0,
    show_default=True,
    metavar="N",
    help="The same of one user on the admin endpoint.",
)
@click.option(
    "--refused-rate",
    type=click.FloatRange(0),
    default=10,
    show_default=True,
    metavar="N",
    help="Bad tokens a second from one address; 0: no limit.",
)
@click.option(
    "--metrics-token-file",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Holds a token (mode 0600) that reads /metrics of the admin endpoint and nothing else.",
)
@click.option(
    "--metrics-tenants",
    type=click.IntRange(0),
    default=100,
    show_default=True,
    metavar="N",
    help="So many tenants have metrics of their own; all further ones share one.",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Log lines on standard error; json: one object a line.",
)
@click.option("--tls-cert", type=click.Path(path_type=Path), help="Certificate, PEM, with its chain.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its key, PEM, not encrypted.")
@click.option("--behind-proxy", is_flag=True, help="A proxy in front does TLS and holds back slow clients.")
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Processes.")
@click.option("--threads", type=click.IntRange(1, 64), default=4, show_default=True, help="Threads of each process.")
def serve(
    session: Session,
    *,
    admin: str,
    public: str | None,
    public_page: bool,
    auth: str,
    admin_role: str,
    public_cloud: str | None,
    token_file: Path | None,
    retention: float,
    listed: int,
    drivers: str,
    max_age: float,
    usage_log: Path | None,
    policy_file: Path | None,
    rate: float,
    admin_rate: float,
    refused_rate: float,
    metrics_token_file: Path | None,
    metrics_tenants: int,
    log_format: str,
    tls_cert: Path | None,
    tls_key: Path | None,
    behind_proxy: bool,
    workers: int,
    threads: int,
) -> None:
    """Serve the admin API until SIGTERM or Ctrl-C.

    What no flag says, `services.tenants` in the settings file does. With --auth keystone the service logs in by OS_*,
    or `login` there, to have the callers' tokens checked.
    """
    # Late, so that the other commands needn't load the server.
    from configdb_sync.status_page.pages import StatusPage
    from configdb_sync.tenants import service
    from configdb_sync.tenants.chain import Chain
    from configdb_sync.tenants.context import DAY, Limits, NoPull, Pull
    from configdb_sync.tenants.drivers import Surroundings, load
    from configdb_sync.tenants.following import Connected
    from configdb_sync.tenants.policy import Policy
    from configdb_sync.web.service import JsonFormatter, TextFormatter, Transport, read_listen, use

    own = service_id(session.run)
    formatter = JsonFormatter(run=own) if log_format == "json" else TextFormatter(own)
    use(formatter)
    accesses = _Accesses(session, auth, token_file, admin_role, public_cloud, refused_rate, metrics_token_file, workers)

    def policy() -> Policy:
        return Policy(SystemClock(), policy_file, admin_role)

    for made in (accesses.admin, accesses.public, policy):
        made()  # what is wrong with a login or the policy is said before anything listens

    def announce(urls: list[str]) -> None:
        click.echo(f"the tenant admin API listens on {urls[0]}")
        if auth == "token":
            click.echo(f"its token is in {accesses.token_path}")
        for url in urls[1:]:
            click.echo(f"the public endpoint listens on {url}")
        click.echo(f"the status page is {urls[0]}/status")

    named = [] if drivers == "none" else [name.strip() for name in drivers.split(",")]

    def pull(registry: Registry, client: Connected) -> Pull:
        around = Surroundings(registry.database, client, SystemClock())
        return Chain(registry, load(named, around), SystemClock(), max_age) if named else NoPull()

    open_store(session.database).close()  # what the runs recorded is asked for
    told = service.Service(
        admin=read_listen(admin, "--admin"),
        access=accesses.admin,
        database_url=session.database,
        unguarded=auth == "none",
        public=None if public is None else read_listen(public, "--public"),
        public_access=accesses.public,
        transport=Transport(tls_cert, tls_key, behind_proxy, workers, threads),
        limits=Limits(retention=int(retention * DAY)),
        listed=listed,
        connect=lambda: session.client(policy=_PATIENCE),
        usage_log=usage_log,
        pull=pull,
        site=lambda registry: StatusPage(
            history=history_of(session, registry.database),
            sessions=accesses.sessions,
            public_sessions=accesses.public_sessions if public_page else None,
            secure=tls_cert is not None or behind_proxy,
        ),
        policy=policy,
        rate=rate,
        admin_rate=admin_rate,
        metrics_tenants=metrics_tenants,
        log_formatter=formatter,
    )
    service.serve(told, announce)


@dataclass(frozen=True)
class _Accesses:
    """Who may call the two endpoints, each by its own means; made anew in each process."""

    session: Session
    auth: str
    token_file: Path | None
    admin_role: str
    public_cloud: str | None
    refused_rate: float
    metrics_token_file: Path | None
    workers: int

    @property
    def token_path(self) -> Path:
        return self.token_file or self.session.state.tenants_token_file

    def admin(self) -> Access:
        others = self._operators()
        if self.metrics_token_file is not None:
            others = MetricsAccess(others, read_token(self.metrics_token_file))
        return others if self.auth == "none" else self._limited(others)

    def _limited(self, access: Access) -> Access:
        # No process knows of what another refused: each lets its part through. Keystone is asked about each of them; to
        # compare one costs nothing, and many clients may share an address.
        at_once = 2 if self.auth == "keystone" else 8
        few = buckets(SystemClock(), self.refused_rate / self.workers, at_once)
        return access if few is None else LimitedAccess(access, few)

    def _operators(self) -> Access:
        if self.auth == "keystone":
            return _keystone(self.session.environ, self.admin_role, "configdb-sync-tenants-admin")
        if self.auth == "none":
            return OpenAccess(self.admin_role)
        token = read_token(self.token_file) if self.token_file else self.session.state.tenants_token()
        return TokenAccess(token, self.admin_role)

    def public(self) -> Access:
        return self._limited(self._tenants_users())

    def _tenants_users(self) -> Access:
        if self.auth != "keystone":
            return TenantTokenAccess(self.session.state.tenants_public_key())
        return _keystone(self._public_environ(), None, "configdb-sync-tenants-public")

    def sessions(self, access: Access) -> Sessions | None:
        """How operators sign in to the pages; None where anyone may look."""
        if self.auth == "keystone":
            return _keystone_sessions(self.session.environ, access, tenants=False)
        operators = self._operators()
        return TokenSessions(operators, lambda _: operators.token) if isinstance(operators, TokenAccess) else None

    def public_sessions(self, access: Access) -> Sessions | None:
        """How tenants' users do."""
        users = self._tenants_users() if self.auth != "keystone" else None
        if isinstance(users, TenantTokenAccess):
            return TokenSessions(users, lambda tenant: users.token(tenant or ""), tenants=True)
        return _keystone_sessions(self._public_environ(), access, tenants=True)

    def _public_environ(self) -> Mapping[str, str]:
        environ = self.session.environ
        if self.public_cloud is None:
            return environ
        file = {name: value for name, value in environ.items() if name == "OS_CLIENT_CONFIG_FILE"}
        others = {name: value for name, value in environ.items() if not name.startswith("OS_")}
        return {**others, **file, "OS_CLOUD": self.public_cloud}


def _keystone_sessions(environ: Mapping[str, str], access: Access, *, tenants: bool) -> Sessions:
    return KeystoneSessions(clouds.read(environ), access, log_in, tenants, lambda token: revoke(environ, token))


def _keystone(environ: Mapping[str, str], role: str | None, name: str) -> Access:
    from configdb_sync.tenants.keystone import KeystoneAccess

    return KeystoneAccess(clouds.read(environ), role, SystemClock(), name=name)
