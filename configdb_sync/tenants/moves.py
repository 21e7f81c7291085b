"""Moves (T7, T8, T11): a data source, an environment, or all that a tenant has; completely or not at all.

A move action (T10) is the stored state that a move would affect, as JSON and XML, each with its digest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from xml.etree import ElementTree as ET

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.store import tenant_schema
from configdb_sync.tenants import queries
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.queries import Located
from configdb_sync.tenants.rows import (
    Holding,
    Resource,
    Tenant,
    Work,
    find_holding,
    find_tenant,
    holdings_of,
    require_tenant,
)
from configdb_sync.tenants.status import Status, StatusCounts, counted, word_of
from configdb_sync.web.refusals import refuse, shown
from configdb_sync.web.requests import Preconditions, encoded, tag_of_body

RESOURCES, HOLDINGS = tenant_schema.RESOURCES, tenant_schema.HOLDINGS


def move(work: Work, place: ResourcePath, destination: str, conditions: Preconditions, listed: int) -> None:
    """Move what a path names to another tenant.

    Raises ``RefusalError``: 301 if it was already moved, 400, 404, 409 for BUILD, 410, 412.
    """
    _refuse_same(place, destination)
    found = work.lock([place.tenant, destination])
    tenant = require_tenant(found.get(place.tenant), place.tenant)
    holding, resource = _subject(work.connection, tenant, place, destination)
    target = require_tenant(found.get(destination), destination)
    if conditions.match is not None or conditions.none_match is not None:
        items = _items(work.connection, tenant, holding, resource, listed)
        conditions.check(*MoveAction(place, destination, (tenant, target), items).etags)
    if resource is not None:
        counts = counted(resource.status)
    else:
        counts = tenant.counts if holding is None else holding.counts
    if counts.build:
        what = shown(place.path) if place.path else f"tenant {shown(place.tenant)}"
        raise refuse(409, f"a run is at work on {what} (status BUILD): it can't be moved until that is over")
    if holding is not None and resource is not None:
        _move_resource(work, tenant, holding, resource, target)
    else:
        held = holdings_of(work.connection, tenant.number) if holding is None else [holding]
        _move_holdings(work, tenant, held, target)
    details = {"from": tenant.id, "to": target.id, "data_sources": counts.size}
    work.audit(tenant.id, place.path, "move", **details)
    work.audit(target.id, replace(place, tenant=target.id).path, "arrive", **details)


def _refuse_same(place: ResourcePath, destination: str) -> None:
    if place.tenant == destination:
        raise refuse(400, "dest is the tenant that has it")


def _subject(
    connection: Connection, tenant: Tenant, place: ResourcePath, destination: str
) -> tuple[Holding | None, Resource | None]:
    """Return what is to be moved; both None for all of a tenant. Raises ``RefusalError`` 301, 404, 410."""
    if place.environment is None:
        return None, None
    found = queries.locate(connection, tenant, place)
    if isinstance(found, Located):
        return found.holding, found.resource
    owner = require_tenant(found.owner, found.owner.id)
    raise refuse(301, "it has been moved already", ("Location", place.under(owner.id).move_url(destination)))


def _move_resource(work: Work, tenant: Tenant, holding: Holding, resource: Resource, destination: Tenant) -> None:
    counts = counted(resource.status)
    target = work.holding(destination, resource.environment)
    chosen = RESOURCES.c.number == resource.number
    _remember(work, tenant.number, holding.number, chosen)
    _enter(work, chosen, target)
    work.count(holding, -counts)
    work.count(target, counts)
    work.count(tenant, -counts)
    work.count(destination, counts)
    work.enqueue(resource.environment)


def _enter(work: Work, chosen: sa.ColumnElement[bool], target: Holding) -> None:
    values = {"holding": target.number, "entered": target.version + 1, "version": RESOURCES.c.version + 1}
    work.connection.execute(sa.update(RESOURCES).where(chosen).values(**values, updated=work.time))


def _move_holdings(work: Work, tenant: Tenant, holdings: list[Holding], destination: Tenant) -> None:
    total = StatusCounts()
    for holding in holdings:
        total += holding.counts
        target = find_holding(work.connection, destination.number, holding.environment)
        if target is None:
            _give(work, tenant, holding, destination)
        else:
            _merge(work, tenant, holding, target)
        work.enqueue(holding.environment)
    if holdings:
        work.count(tenant, -total)
        work.count(destination, total)


def _give(work: Work, tenant: Tenant, holding: Holding, destination: Tenant) -> None:
    """Hand over a holding as it is: the destination has none in the environment."""
    version = holding.version + 1
    _forget_pointers(work, holding.environment, tenant.number, destination.number)
    holders = tenant_schema.FORMER_HOLDERS
    back = sa.and_(holders.c.tenant == destination.number, holders.c.holding == holding.number)
    work.connection.execute(sa.delete(holders).where(back))
    _hold(work, tenant.number, holding.number, cut=version, moved=work.time)
    work.connection.execute(
        sa.update(HOLDINGS)
        .where(HOLDINGS.c.number == holding.number)
        .values(tenant=destination.number, version=version, tag=HOLDINGS.c.tag + 1, updated=work.time)
    )


def _merge(work: Work, tenant: Tenant, holding: Holding, target: Holding) -> None:
    """Move the data sources of a holding into the destination's holding of the same environment."""
    holders = tenant_schema.FORMER_HOLDERS
    _forget_pointers(work, holding.environment, tenant.number, target.tenant)
    _remember(work, tenant.number, holding.number, sa.true())
    _enter(work, RESOURCES.c.holding == holding.number, target)
    earlier = work.connection.execute(
        sa.select(holders.c.tenant, holders.c.moved).where(holders.c.holding == holding.number)
    ).all()
    work.connection.execute(sa.delete(holders).where(holders.c.holding == holding.number))
    for former, moved in [*earlier, (tenant.number, work.time)]:
        if former != target.tenant and moved:
            # Cut 0: only the environment's path redirects; its data sources have their own entries.
            _hold(work, former, target.number, cut=0, moved=moved)
    work.count(holding, -holding.counts, home=False)
    work.count(target, holding.counts, home=target.home or holding.home)


def _remember(work: Work, tenant: int, holding: int, which: sa.ColumnElement[bool]) -> None:
    """Record that data sources of a holding were this tenant's, and its earlier owners'."""
    homes, holders = tenant_schema.FORMER_HOMES, tenant_schema.FORMER_HOLDERS
    own = sa.select(sa.literal(tenant, sa.BigInteger), RESOURCES.c.number).where(RESOURCES.c.holding == holding, which)
    earlier = (
        sa.select(holders.c.tenant, RESOURCES.c.number)
        .join(RESOURCES, RESOURCES.c.holding == holders.c.holding)
        .where(holders.c.holding == holding, holders.c.cut > RESOURCES.c.entered, which)
    )
    for former in (own, earlier):
        statement = work.database.insert(homes).from_select(["tenant", "resource"], former)
        work.connection.execute(statement.on_conflict_do_nothing())


def _forget_pointers(work: Work, environment: int, *tenants: int) -> None:
    """End redirects from these tenants' paths of an environment: they have it again, or move it again."""
    holders = tenant_schema.FORMER_HOLDERS
    here = holders.c.holding.in_(sa.select(HOLDINGS.c.number).where(HOLDINGS.c.environment == environment))
    work.connection.execute(sa.update(holders).where(holders.c.tenant.in_(tenants), here).values(moved=0))


def _hold(work: Work, tenant: int, holding: int, *, cut: int, moved: int) -> None:
    holders = tenant_schema.FORMER_HOLDERS
    statement = work.database.insert(holders).values(tenant=tenant, holding=holding, cut=cut, moved=moved)
    work.connection.execute(
        statement.on_conflict_do_update(
            index_elements=["tenant", "holding"],
            set_={
                "cut": sa.case((holders.c.cut > cut, holders.c.cut), else_=cut),
                "moved": sa.case((holders.c.moved > moved, holders.c.moved), else_=moved),
            },
        )
    )


NAMESPACE = "http://service.openstack.com/actions"
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


def move_action(connection: Connection, place: ResourcePath, destination: str, listed: int) -> MoveAction:
    """Return what a move would affect. Raises ``RefusalError`` 301 (already moved), 400, 404, 410."""
    _refuse_same(place, destination)
    found, target = find_tenant(connection, place.tenant), find_tenant(connection, destination)
    tenant = require_tenant(found, place.tenant)
    holding, resource = _subject(connection, tenant, place, destination)
    tenants = (tenant, require_tenant(target, destination))
    return MoveAction(place, destination, tenants, _items(connection, tenant, holding, resource, listed))


@dataclass(frozen=True)
class MoveItem:
    """An environment or a data source that a move affects; only environments have ``home``."""

    path: str
    status: Status | None
    home: bool | None = None


@dataclass(frozen=True)
class MoveSummary:
    """Replaces a list that would be long: ``tag`` changes with anything that the list would show."""

    tag: str
    counts: StatusCounts


@dataclass(frozen=True)
class MoveAction:
    """What a move from one tenant to another would affect."""

    place: ResourcePath
    destination: str
    tenants: tuple[Tenant, Tenant]
    resources: Sequence[MoveItem] | MoveSummary

    def json(self) -> bytes:
        """Return the JSON form."""
        if isinstance(self.resources, MoveSummary):
            resources: object = {"tag": self.resources.tag, **vars(self.resources.counts)}
        else:
            resources = [_item(item) for item in self.resources]
        tenants = [
            {"id": one.id, "status": word_of(one.status), "size": one.counts.size, "metadata": one.metadata}
            for one in self.tenants
        ]
        move = {"dest": self.destination, "tenants": tenants, "resources": resources}
        return json.dumps({"move": move}, sort_keys=True).encode("ascii") + b"\n"

    def xml(self) -> bytes:
        """Return the XML form. Text that XML can't contain is percent-encoded and marked by ``encoding``."""
        root = ET.Element("move", {"xmlns": NAMESPACE})
        _set(root, "dest", self.destination)
        tenants = ET.SubElement(root, "tenants")
        for party in self.tenants:
            element = ET.SubElement(tenants, "tenant")
            _set(element, "id", party.id)
            element.set("href", ResourcePath(party.id).url)
            element.set("size", str(party.counts.size))
            _status(element, party.status)
            for key, value in party.metadata.items():
                meta = ET.SubElement(element, "meta")
                _set(meta, "key", key)
                _set(meta, "value", value)
        self._xml_resources(root)
        text: bytes = ET.tostring(root, encoding="UTF-8", xml_declaration=True)
        return text + b"\n"

    def _xml_resources(self, root: ET.Element) -> None:
        resources = ET.SubElement(root, "resources")
        if isinstance(self.resources, MoveSummary):
            resources.set("tag", self.resources.tag)
            for name, value in vars(self.resources.counts).items():
                resources.set(name, str(value))
            return
        for item in self.resources:
            element = ET.SubElement(resources, "resource")
            _set(element, "id", item.path)
            _status(element, item.status)
            if item.home is not None:
                element.set("home", "true" if item.home else "false")

    @property
    def etags(self) -> tuple[str, str]:
        """The entity tags of both forms."""
        return tag_of_body(self.json()), tag_of_body(self.xml())


def _item(item: MoveItem) -> dict[str, object]:
    found: dict[str, object] = {"id": item.path, "status": word_of(item.status)}
    return found if item.home is None else {**found, "home": item.home}


def _status(element: ET.Element, status: Status | None) -> None:
    if status is not None:
        element.set("status", status.name)


def _set(element: ET.Element, name: str, text: str) -> None:
    if _NOT_XML.search(text):
        element.set(name, encoded(text))
        element.set(f"{name}-encoding", "percent")
    else:
        element.set(name, text)


def _items(
    connection: Connection, tenant: Tenant, holding: Holding | None, resource: Resource | None, listed: int
) -> list[MoveItem] | MoveSummary:
    def item(source: Resource) -> MoveItem:
        return MoveItem(ResourcePath(tenant.id, source.environment, source.name).path, source.status)

    if resource is not None:
        return [item(resource)]
    whole: Tenant | Holding = tenant if holding is None else holding
    summary = MoveSummary(f"{whole.number}.{whole.created}.{whole.tag}", whole.counts)
    if whole.counts.size > listed:
        return summary
    held = [holding] if holding else queries.environments(connection, tenant.number, None, listed).items
    found: list[MoveItem] = []
    for one in held:
        found.append(MoveItem(ResourcePath(tenant.id, one.environment).path, one.status, one.home))
        found += [item(source) for source in queries.resources(connection, one.number, None, listed + 1).items]
        if len(found) > listed:
            return summary
    return found
