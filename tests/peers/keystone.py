"""A real Keystone (v3) on loopback, from PyPI: its own virtual environment under ``.cache``, made on demand.

Run as a script by that environment's Python it is the server itself: ``keystone.py PORT [CERTIFICATE KEY]``. Tests
share one, started by the first that wants it (``peers.fixtures``): an empty database is made once and kept, so that it
is up in seconds.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import shutil
import sqlite3
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests
import yaml

START = 180.0
CALL = 30.0
PASSWORD = "CANARY-admin"

_CONFIG = """
[database]
connection = sqlite:///{folder}/keystone.db
[token]
provider = fernet
expiration = {expiration}
allow_expired_window = 0
[fernet_tokens]
key_repository = {folder}/fernet
[fernet_receipts]
key_repository = {folder}/fernet
[credential]
key_repository = {folder}/credential
[cache]
enabled = {cache}
backend = oslo_cache.dict
[identity]
password_hash_rounds = 4
"""


@dataclass(frozen=True)
class Keystone:
    """A running Keystone, kept in ``folder``; its user ``admin`` has the role admin on project ``admin``."""

    url: str
    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        """The variables that log in to it."""
        return {
            "OS_AUTH_URL": self.url,
            "OS_USERNAME": "admin",
            "OS_PASSWORD": PASSWORD,
            "OS_PROJECT_NAME": "admin",
            "OS_USER_DOMAIN_ID": "default",
            "OS_PROJECT_DOMAIN_ID": "default",
        }

    def settings(self, path: Path, **changed: str) -> Path:
        """Write a settings file (mode 0600) with this login, some of it changed; return its path."""
        login = {name.removeprefix("OS_").lower(): value for name, value in self.environ.items()} | changed
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump({"login": login}))
        return path

    def token(self, name: str = "admin", password: str = PASSWORD) -> str:
        """Return a new token of a user, on project ``admin``."""
        scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
        user = {"name": name, "password": password, "domain": {"id": "default"}}
        identity = {"methods": ["password"], "password": {"user": user}}
        body = {"auth": {"identity": identity, "scope": scope}}
        answer = requests.post(f"{self.url}/auth/tokens", json=body, timeout=CALL)
        answer.raise_for_status()
        return answer.headers["X-Subject-Token"]

    @functools.cached_property
    def _own(self) -> str:
        return self.token()

    def valid(self, token: str) -> bool:
        """Tell whether Keystone takes this token."""
        headers = {"X-Auth-Token": self._own, "X-Subject-Token": token}
        return requests.get(f"{self.url}/auth/tokens", headers=headers, timeout=CALL).status_code == 200

    def revoke(self, token: str) -> None:
        """Take a token back."""
        headers = {"X-Auth-Token": self._own, "X-Subject-Token": token}
        requests.delete(f"{self.url}/auth/tokens", headers=headers, timeout=CALL).raise_for_status()

    @contextlib.contextmanager
    def forgetful(self, expiration: int) -> Iterator[Keystone]:
        """Yield a second server of this Keystone, whose tokens live ``expiration`` seconds; either knows all tokens."""
        # Without a cache it sees at once what is changed at the first one.
        with _serving(self.folder, f"{expiration}s", expiration=expiration, cache=False) as found:
            yield found

    @contextlib.contextmanager
    def secure(self, certificate: Path, key: Path) -> Iterator[Keystone]:
        """Yield a second server of this Keystone, over TLS."""
        with _serving(self.folder, certificate.stem, expiration=3600, cache=False, tls=(certificate, key)) as found:
            yield found

    def add_user(self, name: str, password: str, role: str) -> None:
        """Make a user with one role, made if it isn't there, on project ``admin``."""
        project = self.ask("GET", "/projects?name=admin")["projects"][0]["id"]
        roles = self.ask("GET", f"/roles?name={role}")["roles"]
        role_id = (roles or [self.ask("POST", "/roles", {"role": {"name": role}})["role"]])[0]["id"]
        body = {"user": {"name": name, "password": password, "domain_id": "default"}}
        user = self.ask("POST", "/users", body)["user"]["id"]
        self.ask("PUT", f"/projects/{project}/users/{user}/roles/{role_id}")

    def add_endpoint(self, url: str, region: str = "RegionOne") -> None:
        """Put a ConfigDB into the catalog, in a region of its own."""
        services = self.ask("GET", "/services?type=config")["services"]
        if not services:
            services = [self.ask("POST", "/services", {"service": {"type": "config", "name": "tuning-box"}})["service"]]
        endpoint = {"service_id": services[0]["id"], "interface": "public", "region": region, "url": url}
        self.ask("POST", "/endpoints", {"endpoint": endpoint})

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Ask its API as ``admin``; return the JSON of the answer, None if it is empty."""
        headers = {"X-Auth-Token": self._own}
        answer = requests.request(method, f"{self.url}{path}", json=body, headers=headers, timeout=CALL)
        answer.raise_for_status()
        return answer.json() if answer.content else None


def python() -> Path:
    """Return the Python of the peer's environment, made if it isn't there."""
    from tests.peers import environments  # which the server itself doesn't find

    return environments.interpreter("keystone", ["keystone"])


@contextlib.contextmanager
def running(folder: Path, server: str = __file__) -> Iterator[Keystone]:
    """Yield a Keystone that keeps its things in ``folder``; its tokens live an hour.

    ``server`` is the script that serves it, on the port that is its argument.
    """
    shutil.copytree(_prepared(), folder, dirs_exist_ok=True)
    with _serving(folder, "hour", expiration=3600, cache=True, server=server) as found:
        with contextlib.closing(sqlite3.connect(folder / "keystone.db")) as database, database:
            database.execute("UPDATE endpoint SET url = ?", (found.url,))
        yield found


def _prepared() -> Path:
    """Return a folder with an empty database and keys, made if it isn't there."""
    from tests.peers import environments  # which the server itself doesn't find

    interpreter = python()
    folder = interpreter.parents[1] / "prepared"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return folder
        new = folder.with_name("prepared.new")
        shutil.rmtree(new, ignore_errors=True)
        for name in ("fernet", "credential"):
            (new / name).mkdir(mode=0o700, parents=True)
        config = _configured(new, "first", expiration=3600, cache=False)
        manage = [str(interpreter.with_name("keystone-manage")), "--config-file", str(config)]
        # It asks only root whose the keys are to be.
        owner = ["--keystone-user", "root", "--keystone-group", "root"] if os.geteuid() == 0 else []
        bootstrap = ["bootstrap", "--bootstrap-password", PASSWORD, "--bootstrap-region-id", "RegionOne"]
        for kind in ("public", "internal", "admin"):
            bootstrap += [f"--bootstrap-{kind}-url", "http://127.0.0.1:1/v3"]  # each copy has an address of its own
        for command in (["db_sync"], ["fernet_setup", *owner], ["credential_setup", *owner], bootstrap):
            environments.run([*manage, *command])
        new.rename(folder)
    return folder


def _configured(folder: Path, name: str, *, expiration: int, cache: bool) -> Path:
    path = folder / f"{name}.conf"
    path.write_text(_CONFIG.format(folder=folder, expiration=expiration, cache=str(cache).lower()))
    return path


@contextlib.contextmanager
def _serving(
    folder: Path,
    name: str,
    *,
    expiration: int,
    cache: bool,
    tls: tuple[Path, Path] | None = None,
    server: str = __file__,
) -> Iterator[Keystone]:
    config = _configured(folder, name, expiration=expiration, cache=cache)
    # Late: as a script, by another environment's Python, this module finds none of the project.
    from tests.support.ports import free_port

    port = free_port()
    url = f"{'http' if tls is None else 'https'}://127.0.0.1:{port}/v3"
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "OS_"))}
    environ |= {"OS_KEYSTONE_CONFIG_DIR": str(folder), "OS_KEYSTONE_CONFIG_FILES": str(config)}
    log = folder / f"{name}.log"
    with log.open("wb") as file:
        command = [str(python()), "-P", "-W", "ignore", server, str(port), *map(str, tls or ())]
        process = subprocess.Popen(command, env=environ, stdout=file, stderr=file)
        try:
            _await(process, url, log)
            yield Keystone(url, folder)
        finally:
            process.terminate()
            process.wait(timeout=10)


def _await(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2, context=_unverified()):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"Keystone didn't answer: {log.read_text()[-2000:]}")


def _unverified() -> ssl.SSLContext:
    # Only whether it is up is asked, and a test may want a certificate that nobody trusts.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _serve(port: int, *tls: str) -> None:
    sys.argv = ["keystone"]  # it reads the command line when it is imported
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

    from keystone.wsgi.api import application  # type: ignore[import-not-found]

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True

    class Handler(WSGIRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = make_server("127.0.0.1", port, application, Server, Handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        os.environ["HTTPS"] = "on"  # where wsgiref looks for the scheme
    server.serve_forever()


if __name__ == "__main__":
    _serve(int(sys.argv[1]), *sys.argv[2:])
