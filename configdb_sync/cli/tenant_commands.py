"""The calls of the tenant admin API for people: ``configdb-sync tenants list``, ``show``, ``move`` and the others."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from configdb_sync.cli.options import CONNECTION, Session, settings_options
from configdb_sync.cli.output import show_json
from configdb_sync.clock import SystemClock
from configdb_sync.errors import ProductError, SettingsError, StateError
from configdb_sync.tenants import listing, names, views
from configdb_sync.tenants.adopting import adoptable
from configdb_sync.tenants.context import DAY
from configdb_sync.tenants.following import change_now, check_movable, purge_due
from configdb_sync.tenants.locating import Live, Moved
from configdb_sync.tenants.metadata import read_body
from configdb_sync.tenants.move_action import Summary
from configdb_sync.tenants.opening import open_registry
from configdb_sync.tenants.outbox import Done, Outbox
from configdb_sync.tenants.owning import owned
from configdb_sync.tenants.paths import Place
from configdb_sync.tenants.registry import Registry
from configdb_sync.tenants.rows import Change, State, Tenant
from configdb_sync.web.refusals import RefusalError

F = TypeVar("F", bound=Callable[..., Any])

_FORMAT = click.option(
    "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True, help="How to print."
)
_PLACE = (
    click.option("--env", "environment", type=click.IntRange(0), metavar="N", help="Only this environment of it."),
    click.option("--data-source", "-r", "source", metavar="NAME", help="Only this data source of the environment."),
)


def _command(name: str) -> Callable[[F], click.Command]:
    """Make a command that is handed a ``Session``; what the registry refuses is a line and an exit code."""

    def decorate(function: F) -> click.Command:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except RefusalError as refusal:
                kind = StateError if refusal.status >= 500 else SettingsError
                raise kind(refusal.what) from refusal

        return click.command(name)(settings_options(*CONNECTION)(run))

    return decorate


def _with_place(function: F) -> F:
    for option in reversed(_PLACE):
        function = option(function)
    return function


@contextmanager
def _registry(session: Session) -> Iterator[Registry]:
    registry = Registry(open_registry(session.database))
    try:
        yield registry
    finally:
        registry.close()


def _change(session: Session) -> Change:
    return change_now(SystemClock(), session.author, "command line")


def _place(tenant: str, environment: int | None, source: str | None) -> Place:
    if source is not None and environment is None:
        raise SettingsError("--data-source needs --env", way_out="name the environment too")
    return Place(names.tenant_id(tenant), environment, None if source is None else names.data_source(source))


def _line(name: str, state: State, *more: str) -> str:
    status = "-" if state.status is None else state.status.shown
    return "  ".join([name, status, *more])


@_command("list")
@click.option("--recoverable", is_flag=True, help="Those marked for deletion.")
@_FORMAT
def list_command(session: Session, *, recoverable: bool, form: str) -> None:
    """List all tenants: their ID, status and number of data sources."""
    with _registry(session) as registry:
        marker: str | None = None
        found: list[Tenant] = []
        while True:
            page = registry.read(
                lambda one, marker=marker: listing.tenants(one, marker, 1000, recoverable=recoverable)  # type: ignore[misc]
            )
            found += page.items
            marker = page.marker
            if marker is None:
                break
    if form == "json":
        show_json({"tenants": [views.tenant_item(tenant) for tenant in found]})
        return
    for tenant in found:
        until = [] if tenant.purge_after is None else [f"recoverable until {views.moment(tenant.purge_after)}"]
        click.echo(_line(repr(tenant.id), tenant, f"{tenant.counts.size} data sources", *until))


@_command("show")
@click.argument("tenant")
@_with_place
@_FORMAT
def show_command(session: Session, *, tenant: str, environment: int | None, source: str | None, form: str) -> None:
    """Show a tenant with its environments, or an environment or a data source of it."""
    place = _place(tenant, environment, source)
    with _registry(session) as registry:
        view = _view(registry, place)
    if form == "json":
        show_json(view)
        return
    for key in ("id", "status", "status_details", "metadata", "home", "created_at", "updated_at"):
        if view.get(key) not in (None, {}):
            click.echo(f"{key}: {view[key]}")
    for item in view.get("resources", []):
        click.echo(f"  {item['id']}  {item['status'] or '-'}")


def _view(registry: Registry, place: Place) -> dict[str, Any]:
    if place.environment is None:
        tenant = registry.tenant(place.tenant)
        held = registry.read(lambda one: listing.environments(one, tenant.number, None, 10**6))
        return views.tenant_view(tenant, held, 10**6)
    _, found = registry.locate(place)
    if isinstance(found, Moved):
        raise SettingsError(f"it has been moved to tenant {found.owner.id!r}", way_out="show it there")
    assert isinstance(found, Live)
    if found.resource is not None:
        return views.resource_item(place.tenant, found.resource)
    number = found.holding.number
    page = registry.read(lambda one: listing.resources(one, number, None, 10**6))
    return views.environment_view(place.tenant, found.holding, page, 10**6)


@_command("create")
@click.argument("tenant")
@click.option("--metadata", "pairs", multiple=True, metavar="KEY=VALUE", help="Repeated: a text to keep with it.")
@click.option("--fixed", is_flag=True, help="Its metadata can't be modified later.")
def create_command(session: Session, *, tenant: str, pairs: tuple[str, ...], fixed: bool) -> None:
    """Create a tenant. With --metadata one that is there is modified."""
    metadata: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise SettingsError(f"--metadata {pair!r} is no KEY=VALUE")
        metadata[key] = value
    name = names.tenant_id(tenant)
    body = read_body({"metadata": metadata}, name) if pairs else None
    with _registry(session) as registry:
        _, made = registry.put(_change(session), name, body, updatable=not fixed)
    click.echo(f"tenant {name!r} was {'created' if made else 'modified'}")


@_command("delete")
@click.argument("tenant")
@click.option("--retention", type=click.FloatRange(0), default=30, show_default=True, metavar="DAYS", help="Recovery.")
def delete_command(session: Session, *, tenant: str, retention: float) -> None:
    """Mark a tenant for deletion; until the retention is over it can be recovered."""
    name = names.tenant_id(tenant)
    with _registry(session) as registry:
        registry.mark(_change(session), name, int(retention * DAY))
    click.echo(f"tenant {name!r} is marked for deletion; `configdb-sync tenants recover` brings it back")


@_command("recover")
@click.argument("tenant")
def recover_command(session: Session, *, tenant: str) -> None:
    """Bring back a tenant that is marked for deletion, as it was."""
    name = names.tenant_id(tenant)
    with _registry(session) as registry:
        registry.recover(_change(session), name)
    click.echo(f"tenant {name!r} is back")


@_command("move")
@click.argument("tenant")
@click.argument("destination")
@_with_place
@click.option("--dry-run", is_flag=True, help="Only show what would be moved.")
def move_command(
    session: Session, *, tenant: str, destination: str, environment: int | None, source: str | None, dry_run: bool
) -> None:
    """Move a data source, an environment, or all that TENANT has to DESTINATION."""
    place, target = _place(tenant, environment, source), names.tenant_id(destination)
    with _registry(session) as registry, session.client() as client:
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
        _tell(Outbox(registry, lambda: client, SystemClock()).work_off())


def _show_action(resources: Any) -> None:
    if isinstance(resources, Summary):
        click.echo(f"{resources.counts.size} data sources")
        return
    for item in resources:
        click.echo(f"{item.path}  {'-' if item.status is None else item.status.shown}")


@_command("adopt")
@click.argument("tenant")
@click.option("--env", "environment", type=click.IntRange(0), required=True, metavar="N", help="The environment.")
@click.option("--data-source", "-r", "sources", multiple=True, metavar="NAME", help="Only these; default: all.")
def adopt_command(session: Session, *, tenant: str, environment: int, sources: tuple[str, ...]) -> None:
    """Give a tenant the data sources of an environment that nobody owns, such as an older plugin's."""
    name = names.tenant_id(tenant)
    with _registry(session) as registry, session.client() as client:
        known = {source for source, _ in registry.read(lambda one: owned(one, environment))}
        free = {one.name: one.definition for one in adoptable(client, environment, known)}
        missing = sorted(set(sources) - set(free))
        if missing:
            raise SettingsError(
                f"environment {environment} has no data source {missing[0]!r} that nobody owns",
                way_out=f"there are: {', '.join(sorted(free)) or 'none'}",
            )
        wanted = {source: free[source] for source in (sources or free)}
        given = registry.adopt(_change(session), name, environment, wanted)
        click.echo(f"tenant {name!r} got {len(given)} data sources: {', '.join(given) or 'none'}")
        _tell(Outbox(registry, lambda: client, SystemClock()).work_off())


@_command("audit")
@click.argument("tenant", required=False)
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many to list.")
@_FORMAT
def audit_command(session: Session, *, tenant: str | None, limit: int, form: str) -> None:
    """Tell who changed what, when and from where, newest first; of one tenant or of all."""
    with _registry(session) as registry:
        page = registry.read(lambda one: listing.audit(one, tenant, None, limit))
    if form == "json":
        show_json({"entries": [views.entry_item(entry) for entry in page.items]})
        return
    for entry in page.items:
        what = f"{entry.action} {entry.tenant!r} {entry.path}".rstrip()
        click.echo(f"{views.moment(entry.time)}  {entry.actor} ({entry.origin})  {what}")


@_command("purge")
@click.option("--clock-is-right", is_flag=True, help="Go on though nothing was changed for a day.")
def purge_command(session: Session, *, clock_is_right: bool) -> None:
    """Remove the tenants whose time to be recovered is over, in ConfigDB too.

    That they are over is told by this machine's clock, and can't be undone. If it is a day or more after the newest
    entry in the audit trail, the clock may be wrong: then --clock-is-right is asked for.
    """
    with _registry(session) as registry, session.client() as client:
        if not clock_is_right:
            _check_clock(registry)
        for tenant in purge_due(registry, SystemClock(), session.author, "command line"):
            click.echo(f"tenant {tenant!r} is gone for good")
        _tell(Outbox(registry, lambda: client, SystemClock()).work_off())


def _check_clock(registry: Registry) -> None:
    now = change_now(SystemClock(), "", "").time
    late = sorted(name for name, held in registry.due(now).items() if held)
    newest = next((entry.time for entry in registry.read(lambda one: listing.audit(one, None, None, 1)).items), now)
    if late and now - newest >= DAY:
        raise SettingsError(
            f"{', '.join(map(repr, late))} would be gone for good by this machine's clock, which says"
            f" {views.moment(now)}; the last change of any tenant was at {views.moment(newest)}",
            way_out="check the clock; if it is right, say so with --clock-is-right",
        )


@_command("repair")
def repair_command(session: Session) -> None:
    """Finish what was cut off, bring ConfigDB in step with the registry everywhere, and say what was done."""
    with _registry(session) as registry, session.client() as client:
        outbox = Outbox(registry, lambda: client, SystemClock())
        done = outbox.work_off()
        failed = {one.environment for one in done if one.failure is not None}
        for environment in outbox.environments():
            if environment not in failed:
                done.append(_aligned(outbox, environment))
    _tell(done)
    if not any(one.actions or one.failure for one in done):
        click.echo("all is in step")


def _aligned(outbox: Outbox, environment: int) -> Done:
    try:
        return Done(environment, tuple(outbox.aligned(environment)))
    except ProductError as error:
        return Done(environment, (), str(error))


def _tell(done: list[Done]) -> None:
    for one in done:
        for action in one.actions:
            click.echo(f"environment {one.environment}: {action}")
    failed = [one for one in done if one.failure is not None]
    if failed:
        raise SettingsError(
            f"environment {failed[0].environment} in ConfigDB is not in step yet: {failed[0].failure}",
            way_out="the registry holds; run `configdb-sync tenants repair` when it can be reached",
        )


@_command("check")
@click.argument("url")
def check_command(session: Session, *, url: str) -> None:
    """Tell whether the service at URL is reached as it must be, also through a proxy.

    Request targets must arrive as they are sent, long ones too, and answers must come uncompressed.
    """
    from urllib.parse import urlsplit

    from configdb_sync.tenants.probing import probe

    del session
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path.strip("/"):
        raise SettingsError(f"{url!r} is no http(s)://HOST[:PORT]")
    tls = parts.scheme == "https"
    try:
        fault = probe(parts.hostname, parts.port or (443 if tls else 80), tls=tls)
    except OSError as error:
        raise SettingsError(f"{url} can't be reached: {error}") from None
    if fault is not None:
        raise SettingsError(fault, way_out="see docs/tenants.md for a proxy's settings")
    click.echo(f"{url}: request targets arrive as they are sent")


@_command("token")
@click.argument("tenant")
def token_command(session: Session, *, tenant: str) -> None:
    """Print the token with which a tenant's user reads it on the public endpoint (without Keystone)."""
    from configdb_sync.tenants.access import TenantTokenAccess

    click.echo(TenantTokenAccess(session.state.tenants_public_key()).token(names.tenant_id(tenant)))


COMMANDS = [
    token_command,
    list_command,
    show_command,
    create_command,
    delete_command,
    recover_command,
    move_command,
    adopt_command,
    audit_command,
    purge_command,
    repair_command,
    check_command,
]
