"""Keystone's own API, v3, as an administrator's login uses it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keystoneauth1 import exceptions as faults
from keystoneauth1 import plugin as plugins
from keystoneauth1.identity import v3

from configdb_sync.configdb import keystone_address, urls
from configdb_sync.configdb.catalog import Login
from configdb_sync.errors import AccessError, UnexpectedAnswerError

Thing = Mapping[str, Any]
"""What the API lists or makes, with its ``id``."""


class Identity:
    """The API of the Keystone of a login. All methods raise ``AccessError``, ``UnavailableError`` and
    ``UnexpectedAnswerError``; no text of Keystone's is repeated, it may hold what was sent."""

    def __init__(self, login: Login) -> None:
        self._login = login
        self._base = self._v3()

    @property
    def where(self) -> str:
        """Keystone's address, fit to be shown."""
        return self._login.where

    def listed(self, kind: str, **query: str) -> list[Thing]:
        """Return the things of a kind (``users``) that the query (``name``, ``domain_id``) finds."""
        answer = self._asked("GET", f"/{kind}", params=query)
        found = answer.get(kind) if isinstance(answer, dict) else None
        if not isinstance(found, list) or not all(isinstance(one, dict) and "id" in one for one in found):
            raise UnexpectedAnswerError(f"Keystone {self.where} lists no {kind}", way_out="is OS_AUTH_URL right?")
        return found

    def make(self, kind: str, **facts: Any) -> Thing:
        """Make a thing of a kind (``users``) and return it."""
        name = kind.removesuffix("s")
        answer = self._asked("POST", f"/{kind}", {name: facts})
        found = answer.get(name) if isinstance(answer, dict) else None
        if not isinstance(found, dict) or "id" not in found:
            raise UnexpectedAnswerError(f"Keystone {self.where} made no {name}")
        return found

    def change(self, kind: str, thing: Thing, **facts: Any) -> None:
        """Change facts of a thing."""
        self._asked("PATCH", f"/{kind}/{thing['id']}", {kind.removesuffix("s"): facts})

    def give_role(self, project: Thing, user: Thing, role: Thing) -> bool:
        """Give a user a role on a project; tell whether it hadn't got it yet."""
        link = f"/projects/{project['id']}/users/{user['id']}/roles/{role['id']}"
        if self._asked("HEAD", link) is not None:
            return False
        self._asked("PUT", link)
        return True

    def takes(self, user: Thing, password: str) -> bool:
        """Tell whether a user has this password."""
        plugin = v3.Password(self._base, user_id=str(user["id"]), password=password, unscoped=True)

        def taken() -> bool:
            try:
                plugin.get_access(self._login.connection)
            except faults.Unauthorized:
                return False
            return True

        return self._login.asked(taken)

    def _v3(self) -> str:
        told = self._login
        told.tokens().token()
        try:
            found = told.asked(
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
        return keystone_address.of_version(told.cloud.auth["auth_url"], str(found), (3,)).rstrip("/")

    def _asked(self, method: str, path: str, body: Any = None, *, params: Mapping[str, str] | None = None) -> Any:
        """Return the answer's JSON, an empty text without any, None for a 404 to HEAD."""
        told = self._login
        answer = told.asked(
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
