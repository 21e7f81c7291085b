"""Makes ConfigDB known to Keystone: its user with a role, its service and endpoints (U5). What is there stays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from configdb_sync.configdb import urls
from configdb_sync.configdb.catalog import SERVICE_TYPE
from configdb_sync.configdb.identity import Identity, Thing
from configdb_sync.errors import AccessError, MissingError, SettingsError, UnexpectedAnswerError

INTERFACES = ("public", "internal", "admin")


@dataclass(frozen=True)
class Wanted:
    """What is to be there. ``user`` None: no user is touched. ``region`` None: the only one that there is.

    ``renew``: whether a user that is there already, with another password, gets this one.
    """

    url: str
    interfaces: tuple[str, ...] = INTERFACES
    region: str | None = None
    service: str = "configdb"
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    renew: bool = False
    project: str = "services"
    role: str = "admin"
    domain: str = "Default"


@dataclass(frozen=True)
class Step:
    """One thing that is there now. ``done``: what was done for it, None if it was there."""

    what: str
    done: str | None = None


@dataclass(frozen=True)
class _There:
    """What Keystone has of it already."""

    region: str
    service: Thing | None
    endpoints: dict[str, Thing | None]
    user: Thing | None = None
    role: Thing | None = None
    domain: Thing = field(default_factory=dict)
    project: Thing = field(default_factory=dict)
    renew: bool = False


def register(identity: Identity, wanted: Wanted) -> Iterator[Step]:
    """Yield each thing once it is there. What can't be is refused before anything is changed.

    Raises ``SettingsError``, ``AccessError``, ``MissingError``, ``UnavailableError``, ``UnexpectedAnswerError``.
    """
    url = urls.base_url(wanted.url)
    there = _look(identity, wanted)
    if wanted.user is not None:
        yield from _user(identity, wanted, wanted.user, there)
    service = there.service
    if service is None:
        service = identity.make("services", type=SERVICE_TYPE, name=wanted.service, enabled=True)
        yield Step(_named(service), "made")
    elif service.get("enabled", True) is False:
        identity.change("services", service, enabled=True)
        yield Step(_named(service), "enabled")
    else:
        yield Step(_named(service))
    for interface, found in there.endpoints.items():
        what = f"{interface} endpoint {url} in {there.region}"
        if found is None:
            place = {"service_id": service["id"], "interface": interface, "region_id": there.region}
            identity.make("endpoints", **place, url=url, enabled=True)
            yield Step(what, "made")
        elif found.get("url") != url:
            identity.change("endpoints", found, url=url, enabled=True)
            yield Step(what, f"changed, it was {urls.shown(str(found.get('url')))}")
        elif found.get("enabled", True) is False:
            identity.change("endpoints", found, enabled=True)
            yield Step(what, "enabled")
        else:
            yield Step(what)


def _user(identity: Identity, wanted: Wanted, name: str, there: _There) -> Iterator[Step]:
    user, role = there.user, there.role
    if user is None:
        facts = {"name": name, "domain_id": there.domain["id"], "enabled": True}
        user = identity.make("users", **facts, password=wanted.password)
        yield Step(f"user {name}", "made")
    elif there.renew:
        identity.change("users", user, password=wanted.password)
        yield Step(f"user {name}", "given the new password")
    else:
        yield Step(f"user {name}")
    if role is None:
        role = identity.make("roles", name=wanted.role)
        yield Step(f"role {wanted.role}", "made")
    given = identity.give_role(there.project, user, role)
    yield Step(f"role {wanted.role} of {name} on project {wanted.project}", "given" if given else None)


def _look(identity: Identity, wanted: Wanted) -> _There:
    region = _region(identity, wanted.region)
    service = _only(identity, f"services of type {SERVICE_TYPE}", _services(identity, wanted.service))
    ends = {kind: _endpoint(identity, service, kind, region) for kind in wanted.interfaces}
    if wanted.user is None:
        return _There(region, service, ends)
    domain = _one(identity, "domain", wanted.domain)
    project = _one(identity, "project", wanted.project, domain_id=domain["id"])
    roles = identity.listed("roles", name=wanted.role)
    users = identity.listed("users", name=wanted.user, domain_id=domain["id"])
    renew = _renewed(identity, users[0], wanted) if users else False
    if not users and wanted.password is None:
        raise SettingsError(f"user {wanted.user!r} is to be made, and has no password", way_out="give --password-file")
    return _There(
        region, service, ends, users[0] if users else None, roles[0] if roles else None, domain, project, renew
    )


def _renewed(identity: Identity, user: Thing, wanted: Wanted) -> bool:
    """Tell whether a user is to get the password that is given; it was asked whether it has it already."""
    if user.get("enabled", True) is False:
        raise AccessError(f"user {wanted.user!r} is disabled", way_out="enable it: `openstack user set --enable`")
    if wanted.password is None or identity.takes(user, wanted.password):
        return False
    if not wanted.renew:
        raise AccessError(
            f"user {wanted.user!r} is there already, with another password", way_out="--new-password gives it this one"
        )
    return True


def _region(identity: Identity, wanted: str | None) -> str:
    there = sorted(str(region["id"]) for region in identity.listed("regions"))
    known = f"there are: {', '.join(there) or 'none'}"
    if wanted is None and len(there) != 1:
        raise SettingsError("which region isn't said", way_out=f"give --region; {known}")
    if wanted is not None and wanted not in there:
        raise MissingError(
            f"Keystone {identity.where} has no region {wanted!r}",
            way_out=f"{known}; `openstack region create` makes one",
        )
    return wanted or there[0]


def _services(identity: Identity, name: str) -> list[Thing]:
    """Return the services of this name, else all: clients go by the type."""
    found = identity.listed("services", type=SERVICE_TYPE)
    return [service for service in found if service.get("name") == name] or found


def _endpoint(identity: Identity, service: Thing | None, interface: str, region: str) -> Thing | None:
    if service is None:
        return None
    listed = identity.listed("endpoints", service_id=str(service["id"]), interface=interface)
    found = [one for one in listed if region in {one.get("region_id"), one.get("region")}]
    return _only(identity, f"{interface} endpoints of ConfigDB in {region}", found)


def _only(identity: Identity, what: str, found: list[Thing]) -> Thing | None:
    if len(found) > 1:
        numbers = ", ".join(str(one["id"]) for one in found)
        raise UnexpectedAnswerError(
            f"Keystone {identity.where} has several {what}: {numbers}", way_out="delete all but one of them"
        )
    return found[0] if found else None


def _one(identity: Identity, kind: str, name: str, **more: str) -> Thing:
    found = identity.listed(f"{kind}s", name=name, **more)
    if not found:
        raise MissingError(
            f"Keystone {identity.where} has no {kind} {name!r}",
            way_out=f"give --{kind}, or make it: `openstack {kind} create`",
        )
    return found[0]


def _named(service: Thing) -> str:
    return f"service {service.get('name')} of type {SERVICE_TYPE}"
