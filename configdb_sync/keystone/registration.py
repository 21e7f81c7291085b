"""Registers ConfigDB in Keystone: its user with a role, its service and endpoints (U5). What exists stays."""

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

KeystoneObject = Mapping[str, Any]
"""An object of the API, with its ``id``."""

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
    """One object. ``done``: what was done for it, None if it was there already."""

    what: str
    done: str | None = None


def register(login: Login, wanted: Registration) -> Iterator[RegistrationStep]:
    """Make what is missing and yield each object. What can't be made is refused before anything is changed.

    Raises ``SettingsError``, ``AccessError``, ``MissingError``, ``UnavailableError``, ``UnexpectedAnswerError``.
    """
    api = KeystoneApi(login)
    region = _region(api, wanted.region)
    service = _only(api, f"services of type {SERVICE_TYPE}", _services(api, wanted.service))
    endpoints = {interface: _endpoint(api, service, interface, region) for interface in wanted.interfaces}
    if wanted.user is not None:
        yield from _user_steps(api, wanted, wanted.user)
    done = None
    if service is None:
        service = api.make("services", type=SERVICE_TYPE, name=wanted.service, enabled=True)
        done = "made"
    elif service.get("enabled", True) is False:
        api.change("services", service, enabled=True)
        done = "enabled"
    yield RegistrationStep(f"service {service.get('name')} of type {SERVICE_TYPE}", done)
    for interface, endpoint in endpoints.items():
        done = None
        if endpoint is None:
            place = {"service_id": service["id"], "interface": interface, "region_id": region}
            api.make("endpoints", **place, url=wanted.url, enabled=True)
            done = "made"
        elif endpoint.get("url") != wanted.url:
            api.change("endpoints", endpoint, url=wanted.url, enabled=True)
            done = f"changed, it was {urls.shown(str(endpoint.get('url')))}"
        elif endpoint.get("enabled", True) is False:
            api.change("endpoints", endpoint, enabled=True)
            done = "enabled"
        yield RegistrationStep(f"{interface} endpoint {wanted.url} in {region}", done)


def _user_steps(api: KeystoneApi, wanted: Registration, name: str) -> Iterator[RegistrationStep]:
    domain = _one(api, "domain", wanted.domain)
    project = _one(api, "project", wanted.project, domain_id=domain["id"])
    role = next(iter(api.listed("roles", name=wanted.role)), None)
    user = next(iter(api.listed("users", name=name, domain_id=domain["id"])), None)
    done = None
    if user is None:
        if wanted.password is None:
            raise SettingsError(f"user {name!r} is to be made, and has no password", way_out="give --password-file")
        user = api.make("users", name=name, domain_id=domain["id"], enabled=True, password=wanted.password)
        done = "made"
    elif _needs_password(api, user, wanted):
        api.change("users", user, password=wanted.password)
        done = "given the new password"
    yield RegistrationStep(f"user {name}", done)
    if role is None:
        role = api.make("roles", name=wanted.role)
        yield RegistrationStep(f"role {wanted.role}", "made")
    given = api.give_role(project, user, role)
    yield RegistrationStep(f"role {wanted.role} of {name} on project {wanted.project}", "given" if given else None)


def _needs_password(api: KeystoneApi, user: KeystoneObject, wanted: Registration) -> bool:
    """Tell whether a user is to get the password that is given; it was asked whether it has it already."""
    if user.get("enabled", True) is False:
        raise AccessError(f"user {wanted.user!r} is disabled", way_out="enable it: `openstack user set --enable`")
    if wanted.password is None or api.takes(user, wanted.password):
        return False
    if not wanted.renew:
        raise AccessError(
            f"user {wanted.user!r} is there already, with another password", way_out="--new-password gives it this one"
        )
    return True


def _region(api: KeystoneApi, wanted: str | None) -> str:
    there = sorted(str(region["id"]) for region in api.listed("regions"))
    known = f"there are: {', '.join(there) or 'none'}"
    if wanted is None and len(there) != 1:
        raise SettingsError("which region isn't said", way_out=f"give --region; {known}")
    if wanted is not None and wanted not in there:
        raise MissingError(
            f"Keystone {api.where} has no region {wanted!r}",
            way_out=f"{known}; `openstack region create` makes one",
        )
    return wanted or there[0]


def _services(api: KeystoneApi, name: str) -> list[KeystoneObject]:
    """Return the services of this name, else all: clients go by the type."""
    found = api.listed("services", type=SERVICE_TYPE)
    return [service for service in found if service.get("name") == name] or found


def _endpoint(api: KeystoneApi, service: KeystoneObject | None, interface: str, region: str) -> KeystoneObject | None:
    if service is None:
        return None
    listed = api.listed("endpoints", service_id=str(service["id"]), interface=interface)
    found = [one for one in listed if region in {one.get("region_id"), one.get("region")}]
    return _only(api, f"{interface} endpoints of ConfigDB in {region}", found)


def _only(api: KeystoneApi, what: str, found: list[KeystoneObject]) -> KeystoneObject | None:
    if len(found) > 1:
        numbers = ", ".join(str(one["id"]) for one in found)
        raise UnexpectedAnswerError(
            f"Keystone {api.where} has several {what}: {numbers}", way_out="delete all but one of them"
        )
    return found[0] if found else None


def _one(api: KeystoneApi, kind: str, name: str, **more: str) -> KeystoneObject:
    found = api.listed(f"{kind}s", name=name, **more)
    if not found:
        raise MissingError(
            f"Keystone {api.where} has no {kind} {name!r}",
            way_out=f"give --{kind}, or make it: `openstack {kind} create`",
        )
    return found[0]


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
        login = self._login
        login.token()
        try:
            found = login.run(
                lambda: login.plugin.get_endpoint(
                    login.connection,
                    interface=plugins.AUTH_INTERFACE,  # type: ignore[arg-type]  # a mark of keystoneauth's own
                    service_type="identity",
                    version="3",
                )
            )
        except UnexpectedAnswerError:
            found = None
        if not found:
            raise UnexpectedAnswerError(f"Keystone {login.where} has no v3", way_out="is OS_AUTH_URL right?")
        return version_url(login.cloud.auth["auth_url"], str(found), (3,)).rstrip("/")

    def _asked(self, method: str, path: str, body: Any = None, *, params: Mapping[str, str] | None = None) -> Any:
        """Return the answer's JSON, an empty text without any, None for a 404 to HEAD."""
        login = self._login
        answer = login.run(
            lambda: login.connection.request(
                self._base + path,
                method,
                json=body,
                params=dict(params or {}),
                auth=login.plugin,
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
