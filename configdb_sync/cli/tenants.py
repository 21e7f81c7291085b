"""``configdb-sync tenants``: the calls of the tenant admin API for people."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import click

from configdb_sync.cli import completion, serve
from configdb_sync.cli.help import CommandGroup, HelpfulCommand
from configdb_sync.cli.listing import ListOutput, list_options
from configdb_sync.cli.options import CONNECTION, env_option, format_option, what_option, with_session
from configdb_sync.cli.output import show_json
from configdb_sync.clock import SystemClock
from configdb_sync.errors import ProductError, SettingsError, StateError
from configdb_sync.tenants import paths
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.proxy_check import probe
from configdb_sync.tenants.status import word_of
from configdb_sync.web.refusals import RefusalError

if TYPE_CHECKING:
    from configdb_sync.cli.command_session import Session
    from configdb_sync.configdb.client import ConfigDBClient
    from configdb_sync.tenants.outbox_worker import Done, Outbox
    from configdb_sync.tenants.queries import Page
    from configdb_sync.tenants.registry import Registry
    from configdb_sync.tenants.rows import ChangeInfo, Tenant

_ALL = 10**6


@click.group(cls=CommandGroup)
def tenants() -> None:
    """Manage tenants, and serve the tenant API.

    A tenant owns environments and data sources.
    """


def _command(name: str, *, example: str) -> Callable[[Callable[..., Any]], HelpfulCommand]:
    """Make a command that gets a ``Session``; a refusal of the registry is an error with an exit code."""

    def decorate(function: Callable[..., Any]) -> HelpfulCommand:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except RefusalError as refusal:
                if refusal.status >= 500:
                    raise StateError(refusal.what, way_out="try again later") from refusal
                raise SettingsError(refusal.what, way_out="`configdb-sync tenants list` shows all tenants") from refusal

        made = tenants.command(name, example=f"configdb-sync tenants {example}")(with_session(*CONNECTION)(run))
        assert isinstance(made, HelpfulCommand)
        return made

    return decorate


def _with_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that name an environment or a data source; it gets their ``ResourcePath``."""

    @env_option("Only this environment of the tenant.", lowest=0, required=False)
    @what_option("--data-source", "-r", "source", metavar="NAME", help="Only this data source of the environment.")
    @functools.wraps(function)
    def wrapped(session: Session, *, tenant: str, environment: int | None, source: str | None, **options: Any) -> Any:
        if source is not None and environment is None:
            raise SettingsError("--data-source needs --env", way_out="name the environment too")
        place = ResourcePath(
            paths.tenant_id(tenant), environment, None if source is None else paths.data_source(source)
        )
        return function(session, place, **options)

    return wrapped


def _change(session: Session) -> ChangeInfo:
    from configdb_sync.tenants.rows import change_now

    return change_now(SystemClock(), session.author, "command line")


def _outbox(registry: Registry, client: ConfigDBClient) -> Outbox:
    from configdb_sync.tenants.outbox_worker import Outbox

    return Outbox(registry, lambda: client, SystemClock())


@_command("list", example="list")
@click.option("--recoverable", is_flag=True, help="List the tenants marked for deletion.")
@list_options(
    "tenants",
    *("id", "status", "status_details", "resource_count", "created_at", "updated_at", "recoverable_until", "metadata"),
)
def list_command(session: Session, *, recoverable: bool, output: ListOutput) -> None:
    """List all tenants.

    Shows their ID, status and number of data sources.
    """
    from configdb_sync.tenants import queries, representations

    found: list[Tenant] = []
    with closing(session.registry()) as registry:
        page: Page[Tenant] | None = None
        while page is None or page.marker is not None:
            marker = None if page is None else page.marker
            page = registry.read(functools.partial(queries.tenants, marker=marker, limit=1000, recoverable=recoverable))
            found += page.items
    if not output.is_own:
        output.show(map(representations.tenant_item, found))
        return
    for tenant in found:
        until = (
            [] if tenant.purge_after is None else [f"recoverable until {representations.moment(tenant.purge_after)}"]
        )
        status = word_of(tenant.status) or "-"
        click.echo("  ".join([repr(tenant.id), status, f"{tenant.counts.size} data sources", *until]))


@_command("show", example="show acme --env 1")
@click.argument("tenant", shell_complete=completion.tenants)
@_with_place
@format_option("text", "json", "yaml")
def show_command(session: Session, place: ResourcePath, *, form: str) -> None:
    """Show a tenant, an environment or a data source."""
    with closing(session.registry()) as registry:
        view = _view(registry, place)
    if form != "text":
        show_json(view, form)
        return
    for key in ("id", "status", "status_details", "metadata", "home", "created_at", "updated_at"):
        if view.get(key) not in (None, {}):
            click.echo(f"{key}: {view[key]}")
    for item in view.get("resources", []):
        click.echo(f"  {item['id']}  {item['status'] or '-'}")


def _view(registry: Registry, place: ResourcePath) -> dict[str, Any]:
    from configdb_sync.tenants import queries, representations
    from configdb_sync.tenants.queries import Located, Moved

    if place.environment is None:
        tenant = registry.tenant(place.tenant)
        held = registry.read(lambda one: queries.environments(one, tenant.number, None, _ALL))
        return representations.tenant_view(tenant, held, _ALL)
    _, found = registry.locate(place)
    if isinstance(found, Moved):
        raise SettingsError(f"it has been moved to tenant {found.owner.id!r}", way_out="show it there")
    assert isinstance(found, Located)
    if found.resource is not None:
        return representations.resource_item(place.tenant, found.resource)
    number = found.holding.number
    page = registry.read(lambda one: queries.resources(one, number, None, _ALL))
    return representations.environment_view(place.tenant, found.holding, page, _ALL)


@_command("create", example="create acme --metadata contact=ops@example.com")
@click.argument("tenant")
@click.option(
    "--metadata", "pairs", multiple=True, metavar="KEY=VALUE", help="Text to keep with the tenant. Repeat it."
)
@click.option("--fixed", is_flag=True, help="Forbid later changes of the metadata.")
def create_command(session: Session, *, tenant: str, pairs: tuple[str, ...], fixed: bool) -> None:
    """Create a tenant.

    With --metadata, an existing tenant is modified.
    """
    from configdb_sync.tenants.representations import read_body

    metadata: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise SettingsError(f"--metadata {pair!r} is no KEY=VALUE", way_out="give the key and the value")
        metadata[key] = value
    name = paths.tenant_id(tenant)
    body = read_body({"metadata": metadata}, name) if pairs else None
    with closing(session.registry()) as registry:
        _, made = registry.put(_change(session), name, body, updatable=not fixed)
    click.echo(f"tenant {name!r} was {'created' if made else 'modified'}")


@_command("delete", example="delete acme --retention 7")
@click.argument("tenant", shell_complete=completion.tenants)
@click.option(
    "--retention",
    type=click.FloatRange(0),
    default=30,
    show_default=True,
    metavar="DAYS",
    help="How long the tenant can be recovered.",
)
def delete_command(session: Session, *, tenant: str, retention: float) -> None:
    """Mark a tenant for deletion.

    The tenant can be recovered until the retention time is over.
    """
    from configdb_sync.tenants.requests import DAY

    name = paths.tenant_id(tenant)
    with closing(session.registry()) as registry:
        registry.mark(_change(session), name, int(retention * DAY))
    click.echo(f"tenant {name!r} is marked for deletion; `configdb-sync tenants recover` brings it back")


@_command("recover", example="recover acme")
@click.argument("tenant", shell_complete=completion.tenants)
def recover_command(session: Session, *, tenant: str) -> None:
    """Recover a tenant that is marked for deletion."""
    name = paths.tenant_id(tenant)
    with closing(session.registry()) as registry:
        registry.recover(_change(session), name)
    click.echo(f"tenant {name!r} was recovered")


@_command("move", example="move acme umbrella --env 1 --data-source globals")
@click.argument("tenant", shell_complete=completion.tenants)
@click.argument("destination", shell_complete=completion.tenants)
@_with_place
@click.option("--dry-run", is_flag=True, help="Only show what would be moved.")
def move_command(session: Session, place: ResourcePath, *, destination: str, dry_run: bool) -> None:
    """Move resources to another tenant.

    Moves a data source, an environment, or everything of TENANT to the tenant DESTINATION.
    """
    from configdb_sync.tenants.outbox_worker import check_movable

    target = paths.tenant_id(destination)
    with closing(session.registry()) as registry, session.client() as client:
        try:
            action = registry.move_action(place, target)
            if dry_run:
                _show_action(action.resources)
                return
            check_movable(lambda: client)
            new = registry.move(_change(session), place, target)
        except RefusalError as refusal:
            if refusal.status == 301:
                raise SettingsError("it has been moved already", way_out=f"it is at {refusal.headers[0][1]}") from None
            raise
        click.echo(f"moved: it is at {new.url}")
        _report(_outbox(registry, client).work_off())


def _show_action(resources: Any) -> None:
    from configdb_sync.tenants.moves import MoveSummary

    if isinstance(resources, MoveSummary):
        click.echo(f"{resources.counts.size} data sources")
        return
    for item in resources:
        click.echo(f"{item.path}  {word_of(item.status) or '-'}")


@_command("adopt", example="adopt acme --env 1")
@click.argument("tenant", shell_complete=completion.tenants)
@env_option(lowest=0)
@what_option(
    "--data-source", "-r", "sources", multiple=True, metavar="NAME", help="Data source. Repeat it.  [default: all]"
)
def adopt_command(session: Session, *, tenant: str, environment: int, sources: tuple[str, ...]) -> None:
    """Give a tenant the data sources without an owner.

    An environment may have such data sources from an older plugin.
    """
    from configdb_sync.tenants.ownership import owned
    from configdb_sync.tenants.reconcile import adoptable

    name = paths.tenant_id(tenant)
    with closing(session.registry()) as registry, session.client() as client:
        known = {source for source, _ in registry.read(lambda one: owned(one, environment))}
        free = {one.name: one.definition for one in adoptable(client, environment, known)}
        missing = sorted(set(sources) - set(free))
        if missing:
            raise SettingsError(
                f"environment {environment} has no data source {missing[0]!r} without an owner",
                way_out=f"without an owner: {', '.join(sorted(free)) or 'none'}",
            )
        wanted = {source: free[source] for source in (sources or free)}
        given = registry.adopt(_change(session), name, environment, wanted)
        click.echo(f"tenant {name!r} got {len(given)} data sources: {', '.join(given) or 'none'}")
        _report(_outbox(registry, client).work_off())


@_command("audit", example="audit acme --limit 20")
@click.argument("tenant", required=False, shell_complete=completion.tenants)
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, metavar="N", help="Length of the list.")
@list_options("entries", "number", "time", "tenant", "path", "action", "actor", "origin", "request_id", "details")
def audit_command(session: Session, *, tenant: str | None, limit: int, output: ListOutput) -> None:
    """Show who changed what, the newest change first.

    Shows the changes of one tenant or of all.
    """
    from configdb_sync.tenants import queries, representations

    with closing(session.registry()) as registry:
        page = registry.read(lambda one: queries.audit(one, tenant, None, limit))
    if not output.is_own:
        output.show(map(representations.entry_item, page.items))
        return
    for entry in page.items:
        what = f"{entry.action} {entry.tenant!r} {entry.path}".rstrip()
        click.echo(f"{representations.moment(entry.time)}  {entry.actor} ({entry.origin})  {what}")


@_command("purge", example="purge")
@click.option("--clock-is-right", is_flag=True, help="Purge even if there was no change for a day.")
def purge_command(session: Session, *, clock_is_right: bool) -> None:
    """Delete the tenants whose retention time is over.

    Deletes them in ConfigDB too. This cannot be undone, and depends on this machine's clock. The clock may be wrong if
    it is a day or more after the newest entry of the audit trail: then the command needs --clock-is-right.
    """
    from configdb_sync.tenants.outbox_worker import purge_due

    with closing(session.registry()) as registry, session.client() as client:
        if not clock_is_right:
            _check_clock(registry)
        for tenant in purge_due(registry, SystemClock(), session.author, "command line"):
            click.echo(f"tenant {tenant!r} was deleted for good")
        _report(_outbox(registry, client).work_off())


def _check_clock(registry: Registry) -> None:
    from configdb_sync.tenants import queries, representations
    from configdb_sync.tenants.requests import DAY
    from configdb_sync.tenants.rows import change_now

    now = change_now(SystemClock(), "", "").time
    late = sorted(name for name, held in registry.due(now).items() if held)
    newest = next((entry.time for entry in registry.read(lambda one: queries.audit(one, None, None, 1)).items), now)
    if late and now - newest >= DAY:
        raise SettingsError(
            f"{', '.join(map(repr, late))} would be deleted for good, because this machine's clock says"
            f" {representations.moment(now)}; the last change of any tenant was at {representations.moment(newest)}",
            way_out="check the clock; if it is right, give --clock-is-right",
        )


@_command("repair", example="repair")
def repair_command(session: Session) -> None:
    """Finish interrupted changes and correct ConfigDB.

    Makes ConfigDB agree with the registry everywhere, and says what was done.
    """
    from configdb_sync.tenants.outbox_worker import Done

    with closing(session.registry()) as registry, session.client() as client:
        outbox = _outbox(registry, client)
        done = outbox.work_off()
        failed = {one.environment for one in done if one.failure is not None}
        for environment in outbox.environments():
            if environment in failed:
                continue
            try:
                done.append(Done(environment, tuple(outbox.aligned(environment))))
            except ProductError as error:
                done.append(Done(environment, (), str(error)))
    _report(done)
    if not any(one.actions or one.failure for one in done):
        click.echo("all is in step")


def _report(done: list[Done]) -> None:
    """Print what was done in ConfigDB. Raises ``SettingsError`` if an environment doesn't agree with the registry."""
    for one in done:
        for action in one.actions:
            click.echo(f"environment {one.environment}: {action}")
    failed = [one for one in done if one.failure is not None]
    if failed:
        raise SettingsError(
            f"environment {failed[0].environment} in ConfigDB is not in step yet: {failed[0].failure}",
            way_out="the registry is right; run `configdb-sync tenants repair` when ConfigDB can be reached",
        )


@_command("check", example="check https://tenants.example.com")
@click.argument("url")
def check_command(session: Session, *, url: str) -> None:
    """Test the way to the service at URL.

    A proxy on the way must leave request targets as they are, long ones too, and must not compress answers.
    """
    del session
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/"):
        raise SettingsError(f"{url!r} is no http(s)://HOST[:PORT]", way_out="give the address of the service")
    tls = parts.scheme == "https"
    try:
        fault = probe(parts.hostname, parts.port or (443 if tls else 80), tls=tls)
    except OSError as error:
        raise SettingsError(f"{url} can't be reached: {error}", way_out="check the address") from None
    if fault is not None:
        raise SettingsError(fault, way_out="see docs/tenants.md for a proxy's settings")
    click.echo(f"{url}: request targets arrive as they are sent")


@_command("token", example="token acme")
@click.argument("tenant", shell_complete=completion.tenants)
def token_command(session: Session, *, tenant: str) -> None:
    """Print a tenant's token for the public endpoint.

    A tenant's user reads the tenant with it, where the service does not use Keystone.
    """
    from configdb_sync.tenants.policy import TenantTokenAccess

    click.echo(TenantTokenAccess(session.state.tenants_public_key()).token(paths.tenant_id(tenant)))


for _made in (serve.serve_tenants, serve.usage, serve.policy):
    tenants.add_command(_made)
