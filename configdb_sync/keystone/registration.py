"""Makes ConfigDB known to Keystone: its user with a role, its service and endpoints (U5). What is there stays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from keystoneauth1 import exceptions as faults
from keystoneauth1 import plugin as plugins
from keystoneauth1.identity import v3

from configdb_sync.errors import AccessError, MissingError, SettingsError, UnexpectedAnswerError
from configdb_sync.http import urls
from configdb_sync.keystone.clouds import SERVICE_TYPE
from configdb_sync.keystone.login import Login, version_url

INTERFACES = ("public", "internal", "admin")


@dataclass(frozen=True)
class Registration:
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
class RegistrationStep:
    """One thing that is there now. ``done``: what was done for it, None if it was there."""

    what: str
    done: str | None = None


@dataclass(frozen=True)
class _Existing:
    """What Keystone has of it already."""

    region: str
    service: KeystoneObject | None
    endpoints: dict[str, KeystoneObject | None]
    user: KeystoneObject | None = None
    role: KeystoneObject | None = None
    domain: KeystoneObject = field(default_factory=dict)
    project: KeystoneObject = field(default_factory=dict)
    renew: bool = False


def register(login: Login, wanted: Registration) -> Iterator[RegistrationStep]:
    """Yield each thing once it is there. What can't be is refused before anything is changed.

    Raises ``SettingsError``, ``AccessError``, ``MissingError``, ``UnavailableError``, ``UnexpectedAnswerError``.
    """
    identity = KeystoneApi(login)
    url = wanted.url
    there = _look(identity, wanted)
    if wanted.user is not None:
        yield from _user(identity, wanted, wanted.user, there)
    service = there.service
    if service is None:
        service = identity.make("services", type=SERVICE_TYPE, name=wanted.service, enabled=True)
        yield RegistrationStep(_named(service), "made")
    elif service.get("enabled", True) is False:
        identity.change("services", service, enabled=True)
        yield RegistrationStep(_named(service), "enabled")
    else:
        yield RegistrationStep(_named(service))
    for interface, found in there.endpoints.items():
        what = f"{interface} endpoint {url} in {there.region}"
        if found is None:
            place = {"service_id": service["id"], "interface": interface, "region_id": there.region}
            identity.make("endpoints", **place, url=url, enabled=True)
            yield RegistrationStep(what, "made")
        elif found.get("url") != url:
            identity.change("endpoints", found, url=url, enabled=True)
            yield RegistrationStep(what, f"changed, it was {urls.shown(str(found.get('url')))}")
        elif found.get("enabled", True) is False:
            identity.change("endpoints", found, enabled=True)
            yield RegistrationStep(what, "enabled")
        else:
            yield RegistrationStep(what)


def _user(identity: KeystoneApi, wanted: Registration, name: str, there: _Existing) -> Iterator[RegistrationStep]:
    user, role = there.user, there.role
    if user is None:
        facts = {"name": name, "domain_id": there.domain["id"], "enabled": True}
        user = identity.make("users", **facts, password=wanted.password)
        yield RegistrationStep(f"user {name}", "made")
    elif there.renew:
        identity.change("users", user, password=wanted.password)
        yield RegistrationStep(f"user {name}", "given the new password")
    else:
        yield RegistrationStep(f"user {name}")
    if role is None:
        role = identity.make("roles", name=wanted.role)
        yield RegistrationStep(f"role {wanted.role}", "made")
    given = identity.give_role(there.project, user, role)
    yield RegistrationStep(f"role {wanted.role} of {name} on project {wanted.project}", "given" if given else None)


def _look(identity: KeystoneApi, wanted: Registration) -> _Existing:
    region = _region(identity, wanted.region)
    service = _only(identity, f"services of type {SERVICE_TYPE}", _services(identity, wanted.service))
    ends = {kind: _endpoint(identity, service, kind, region) for kind in wanted.interfaces}
    if wanted.user is None:
        return _Existing(region, service, ends)
    domain = _one(identity, "domain", wanted.domain)
    project = _one(identity, "project", wanted.project, domain_id=domain["id"])
    roles = identity.listed("roles", name=wanted.role)
    users = identity.listed("users", name=wanted.user, domain_id=domain["id"])
    renew = _renewed(identity, users[0], wanted) if users else False
    if not users and wanted.password is None:
        raise SettingsError(f"user {wanted.user!r} is to be made, and has no password", way_out="give --password-file")
    return _Existing(
        region, service, ends, users[0] if users else None, roles[0] if roles else None, domain, project, renew
    )


def _renewed(identity: KeystoneApi, user: KeystoneObject, wanted: Registration) -> bool:
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


def _region(identity: KeystoneApi, wanted: str | None) -> str:
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


def _services(identity: KeystoneApi, name: str) -> list[KeystoneObject]:
    """Return the services of this name, else all: clients go by the type."""
    found = identity.listed("services", type=SERVICE_TYPE)
    return [service for service in found if service.get("name") == name] or found


def _endpoint(
    identity: KeystoneApi, service: KeystoneObject | None, interface: str, region: str
) -> KeystoneObject | None:
    if service is None:
        return None
    listed = identity.listed("endpoints", service_id=str(service["id"]), interface=interface)
    found = [one for one in listed if region in {one.get("region_id"), one.get("region")}]
    return _only(identity, f"{interface} endpoints of ConfigDB in {region}", found)


def _only(identity: KeystoneApi, what: str, found: list[KeystoneObject]) -> KeystoneObject | None:
    if len(found) > 1:
        numbers = ", ".join(str(one["id"]) for one in found)
        raise UnexpectedAnswerError(
            f"Keystone {identity.where} has several {what}: {numbers}", way_out="delete all but one of them"
        )
    return found[0] if found else None


def _one(identity: KeystoneApi, kind: str, name: str, **more: str) -> KeystoneObject:
    found = identity.listed(f"{kind}s", name=name, **more)
    if not found:
        raise MissingError(
            f"Keystone {identity.where} has no {kind} {name!r}",
            way_out=f"give --{kind}, or make it: `openstack {kind} create`",
        )
    return found[0]


def _named(service: KeystoneObject) -> str:
    return f"service {service.get('name')} of type {SERVICE_TYPE}"


KeystoneObject = Mapping[str, Any]
"""What the API lists or makes, with its ``id``."""


class KeystoneApi:
    """The API of the Keystone of a login. All methods raise ``AccessError``, ``UnavailableError`` and
    ``UnexpectedAnswerError``; no text of Keystone's is repeated, it may hold what was sent."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._base = self._v3()

    @property
    def where(self) -> str:
        """Keystone's address, fit to be shown."""
        return self._login.where

    def listed(self, kind: str, **query: str) -> list[KeystoneObject]:
        """Return the things of a kind (``users``) that the query (``name``, ``domain_id``) finds."""
        answer = self._asked("GET", f"/{kind}", params=query)
        found = answer.get(kind) if isinstance(answer, dict) else None
        if not isinstance(found, list) or not all(isinstance(one, dict) and "id" in one for one in found):
            raise UnexpectedAnswerError(f"Keystone {self.where} lists no {kind}", way_out="is OS_AUTH_URL right?")
        return found

    def make(self, kind: str, **facts: Any) -> KeystoneObject:
        """Make a thing of a kind (``users``) and return it."""
        name = kind.removesuffix("s")
        answer = self._asked("POST", f"/{kind}", {name: facts})
        found = answer.get(name) if isinstance(answer, dict) else None
        if not isinstance(found, dict) or "id" not in found:
            raise UnexpectedAnswerError(f"Keystone {self.where} made no {name}")
        return found

    def change(self, kind: str, thing: KeystoneObject, **facts: Any) -> None:
        """Change facts of a thing."""
        self._asked("PATCH", f"/{kind}/{thing['id']}", {kind.removesuffix("s"): facts})

    def give_role(self, project: KeystoneObject, user: KeystoneObject, role: KeystoneObject) -> bool:
        """Give a user a role on a project; tell whether it hadn't got it yet."""
        link = f"/projects/{project['id']}/users/{user['id']}/roles/{role['id']}"
        if self._asked("HEAD", link) is not None:
            return False
        self._asked("PUT", link)
        return True

    def takes(self, user: KeystoneObject, password: str) -> bool:
        """Tell whether a user has this password."""
        plugin = v3.Password(self._base, user_id=str(user["id"]), password=password, unscoped=True)

        def taken() -> bool:
            try:
                plugin.get_access(self._login.connection)
            except faults.Unauthorized:
                return False
            return True

        return self._login.run(taken)

    def _v3(self) -> str:
        told = self._login
        told.token()
        try:
            found = told.run(
                lambda: told.plugin.get_endpoint(
                    told.connection,
                    interface=plugins.AUTH_INTERFACE,  # type: ignore[arg-type]  # a mark of keystoneauth's own
                    service_type="identity",
                    version="3",
                )
            )
        except UnexpectedAnswerError:
            found = None
        if not found:
            raise UnexpectedAnswerError(f"Keystone {told.where} has no v3", way_out="is OS_AUTH_URL right?")
        return version_url(told.cloud.auth["auth_url"], str(found), (3,)).rstrip("/")

    def _asked(self, method: str, path: str, body: Any = None, *, params: Mapping[str, str] | None = None) -> Any:
        """Return the answer's JSON, an empty text without any, None for a 404 to HEAD."""
        told = self._login
        answer = told.run(
            lambda: told.connection.request(
                self._base + path,
                method,
                json=body,
                params=dict(params or {}),
                auth=told.plugin,
                raise_exc=False,
                headers={"Accept": "application/json"},
            )
        )
        what = f"{method} {urls.shown(self._base + path)}"
        if answer.status_code in {401, 403}:
            raise AccessError(
                f"Keystone refuses {what} to this user", way_out="log in as an administrator of the cloud: OS_*"
            )
        if answer.status_code == 404 and method == "HEAD":
            return None
        if not 200 <= answer.status_code < 300:
            raise UnexpectedAnswerError(
                f"{what} answered {answer.status_code}",
                way_out="see Keystone's log",
                request_id=answer.headers.get("x-openstack-request-id"),
            )
        try:
            return answer.json() if answer.content else ""
        except ValueError:
            raise UnexpectedAnswerError(f"{what} answered no JSON", way_out="is OS_AUTH_URL right?") from None
