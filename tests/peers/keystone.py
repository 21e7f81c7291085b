"""A real Keystone (v3) on loopback, from PyPI: its own virtual environment under ``.cache``, made on demand.

Run as a script by that environment's Python it is the server itself: ``keystone.py PORT``.
"""

from __future__ import annotations

import contextlib
import fcntl
import getpass
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import requests

CACHE = Path(__file__).resolve().parents[2] / ".cache"
START = 60.0
INSTALL = 600.0
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
[credential]
key_repository = {folder}/credential
[cache]
enabled = {caching}
backend = oslo_cache.dict
[identity]
password_hash_rounds = 4
"""


@dataclass(frozen=True)
class Keystone:
    """A running Keystone; its user ``admin`` has the role admin on project ``admin``."""

    url: str

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

    def token(self, name: str = "admin", password: str = PASSWORD) -> str:
        """Return a new token of a user, on project ``admin``."""
        scope = {"project": {"name": "admin", "domain": {"id": "default"}}}
        user = {"name": name, "password": password, "domain": {"id": "default"}}
        identity = {"methods": ["password"], "password": {"user": user}}
        body = {"auth": {"identity": identity, "scope": scope}}
        answer = requests.post(f"{self.url}/auth/tokens", json=body, timeout=CALL)
        answer.raise_for_status()
        return answer.headers["X-Subject-Token"]

    def valid(self, token: str) -> bool:
        """Tell whether Keystone takes this token."""
        headers = {"X-Auth-Token": self.token(), "X-Subject-Token": token}
        return requests.get(f"{self.url}/auth/tokens", headers=headers, timeout=CALL).status_code == 200

    def revoke(self, token: str) -> None:
        """Take a token back."""
        headers = {"X-Auth-Token": self.token(), "X-Subject-Token": token}
        requests.delete(f"{self.url}/auth/tokens", headers=headers, timeout=CALL).raise_for_status()

    def add_user(self, name: str, password: str, role: str) -> None:
        """Make a user with one role, made if it isn't there, on project ``admin``."""
        headers = {"X-Auth-Token": self.token()}

        def found(kind: str, wanted: str) -> list[str]:
            answer = requests.get(f"{self.url}/{kind}", params={"name": wanted}, headers=headers, timeout=CALL)
            return [item["id"] for item in answer.json()[kind]]

        def made(kind: str, body: dict[str, dict[str, str]]) -> str:
            answer = requests.post(f"{self.url}/{kind}", json=body, headers=headers, timeout=CALL)
            answer.raise_for_status()
            return str(next(iter(answer.json().values()))["id"])

        project = found("projects", "admin")[0]
        role_id = next(iter(found("roles", role)), None) or made("roles", {"role": {"name": role}})
        user = made("users", {"user": {"name": name, "password": password, "domain_id": "default"}})
        link = f"{self.url}/projects/{project}/users/{user}/roles/{role_id}"
        requests.put(link, headers=headers, timeout=CALL).raise_for_status()

    def add_endpoint(self, url: str, region: str = "RegionOne") -> None:
        """Put a ConfigDB into the catalog."""
        headers = {"X-Auth-Token": self.token()}
        service = {"type": "config", "name": "tuning-box"}
        made = requests.post(f"{self.url}/services", json={"service": service}, headers=headers, timeout=CALL)
        made.raise_for_status()
        endpoint = {"service_id": made.json()["service"]["id"], "interface": "public", "region": region, "url": url}
        body = {"endpoint": endpoint}
        requests.post(f"{self.url}/endpoints", json=body, headers=headers, timeout=CALL).raise_for_status()


def python() -> Path:
    """Return the Python of the peer's environment, made if it isn't there."""
    folder = CACHE / f"keystone-{sys.version_info.major}.{sys.version_info.minor}"
    interpreter = folder / "bin/python"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "keystone.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, timeout=INSTALL)
            command = [str(interpreter), "-m", "pip", "install", "-q", "--disable-pip-version-check", "keystone"]
            subprocess.run(command, check=True, timeout=INSTALL, capture_output=True)
            (folder / "ready").touch()
    return interpreter


def packages() -> Path:
    """Return the folder of its environment's packages; keystonemiddleware is among them."""
    return next(python().parents[1].glob("lib/python*/site-packages"))


@contextlib.contextmanager
def running(
    folder: Path, *, expiration: int = 3600, caching: bool = False, server: str = __file__
) -> Iterator[Keystone]:
    """Yield a Keystone that keeps its things in ``folder``; its tokens live ``expiration`` seconds.

    ``server`` is the script that serves it, on the port that is its argument.
    """
    interpreter = python()
    (folder / "keystone.conf").write_text(_CONFIG.format(folder=folder, expiration=expiration, caching=caching))
    for name in ("fernet", "credential"):
        (folder / name).mkdir(mode=0o700)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v3"
    manage = [str(interpreter.with_name("keystone-manage")), "--config-file", str(folder / "keystone.conf")]
    owner = ["--keystone-user", getpass.getuser(), "--keystone-group", getpass.getuser()]
    bootstrap = ["bootstrap", "--bootstrap-password", PASSWORD, "--bootstrap-region-id", "RegionOne"]
    bootstrap += [word for kind in ("public", "internal", "admin") for word in (f"--bootstrap-{kind}-url", url)]
    for command in (["db_sync"], ["fernet_setup", *owner], ["credential_setup", *owner], bootstrap):
        subprocess.run([*manage, *command], check=True, timeout=INSTALL, capture_output=True)
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environ |= {"OS_KEYSTONE_CONFIG_DIR": str(folder), "OS_KEYSTONE_CONFIG_FILES": str(folder / "keystone.conf")}
    with (folder / "log").open("wb") as log:
        command = [str(interpreter), "-P", "-W", "ignore", server, str(port)]
        process = subprocess.Popen(command, env=environ, stdout=log, stderr=log)
        try:
            _await(process, url, folder / "log")
            yield Keystone(url)
        finally:
            process.terminate()
            process.wait(timeout=10)


def _await(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"Keystone didn't answer: {log.read_text()[-2000:]}")


def _serve(port: int) -> None:
    sys.argv = ["keystone"]  # it reads the command line when it is imported
    from socketserver import ThreadingMixIn
    from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

    from keystone.wsgi.api import application  # type: ignore[import-not-found]

    class Server(ThreadingMixIn, WSGIServer):
        daemon_threads = True

    class Handler(WSGIRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    make_server("127.0.0.1", port, application, Server, Handler).serve_forever()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
