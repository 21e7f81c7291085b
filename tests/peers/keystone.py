"""A real Keystone on loopback from PyPI: its own virtual environment under ``.cache``, made on demand."""

from __future__ import annotations

import contextlib
import fcntl
import grp
import os
import pwd
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import requests

CACHE = Path(__file__).resolve().parents[2] / ".cache"
INSTALL = 600
START = 90
ADMIN = {
    "OS_USERNAME": "admin",
    "OS_PASSWORD": "admin-password",
    "OS_PROJECT_NAME": "admin",
    "OS_USER_DOMAIN_ID": "default",
    "OS_PROJECT_DOMAIN_ID": "default",
}
CONFIGURATION = """
[database]
connection = sqlite:///{folder}/keystone.db
[token]
provider = fernet
expiration = {expiration}
[fernet_tokens]
key_repository = {folder}/fernet
[credential]
key_repository = {folder}/credential
[cache]
enabled = true
backend = oslo_cache.dict
[identity]
password_hash_rounds = 4
"""


def unavailable() -> str | None:
    """Return why there can be no Keystone here, or None. Makes its environment, which takes minutes once."""
    try:
        _environment()
    except (subprocess.SubprocessError, OSError) as error:
        return f"Keystone can't be installed here: {error}"
    return None


def packages() -> Path:
    """Return the folder of its environment's packages; keystonemiddleware is among them."""
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    return _environment() / f"lib/python{version}/site-packages"


@dataclass(frozen=True)
class Keystone:
    """A running Keystone with an admin (``environ``), and users of this test's making."""

    url: str

    @property
    def environ(self) -> dict[str, str]:
        """The variables by which its admin logs in."""
        return {"OS_AUTH_URL": self.url, **ADMIN}

    def token(self, user: str = "admin", password: str = ADMIN["OS_PASSWORD"]) -> str:
        """Return a new token for project ``admin``."""
        domain = {"id": "default"}
        identity = {
            "methods": ["password"],
            "password": {"user": {"name": user, "password": password, "domain": domain}},
        }
        scope = {"project": {"name": "admin", "domain": domain}}
        answer = requests.post(
            f"{self.url}/auth/tokens", json={"auth": {"identity": identity, "scope": scope}}, timeout=START
        )
        answer.raise_for_status()
        return answer.headers["X-Subject-Token"]

    def revoke(self, token: str) -> None:
        """Make a token invalid."""
        headers = {"X-Auth-Token": self.token(), "X-Subject-Token": token}
        requests.delete(f"{self.url}/auth/tokens", headers=headers, timeout=START).raise_for_status()

    def user(self, name: str, password: str, role: str) -> None:
        """Make a user with one role on project ``admin``."""
        session = requests.Session()
        session.headers["X-Auth-Token"] = self.token()

        def first(kind: str, wanted: str) -> str | None:
            answer = session.get(f"{self.url}/{kind}", params={"name": wanted}, timeout=START).json()
            return next((item["id"] for item in answer[kind]), None)

        def made(kind: str, one: str, body: dict[str, object]) -> str:
            answer = session.post(f"{self.url}/{kind}", json={one: body}, timeout=START)
            answer.raise_for_status()
            return str(answer.json()[one]["id"])

        project = first("projects", "admin")
        role_id = first("roles", role) or made("roles", "role", {"name": role})
        user = made("users", "user", {"name": name, "password": password, "domain_id": "default"})
        session.put(f"{self.url}/projects/{project}/users/{user}/roles/{role_id}", timeout=START).raise_for_status()


@contextlib.contextmanager
def running(folder: Path, *, expiration: int = 3600) -> Iterator[Keystone]:
    """Yield a Keystone that keeps all it has in ``folder``; its tokens live ``expiration`` seconds."""
    programs = _environment() / "bin"
    configuration = folder / "keystone.conf"
    configuration.write_text(CONFIGURATION.format(folder=folder, expiration=expiration))
    for name in ("fernet", "credential"):
        (folder / name).mkdir(mode=0o700)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    url = f"http://127.0.0.1:{port}/v3"
    owner = [
        "--keystone-user",
        pwd.getpwuid(os.geteuid()).pw_name,
        "--keystone-group",
        grp.getgrgid(os.getegid()).gr_name,
    ]
    urls = [word for kind in ("admin", "public", "internal") for word in (f"--bootstrap-{kind}-url", url)]
    login = ["--bootstrap-username", "admin", "--bootstrap-password", ADMIN["OS_PASSWORD"]]
    names = [
        "--bootstrap-project-name",
        "admin",
        "--bootstrap-role-name",
        "admin",
        "--bootstrap-region-id",
        "RegionOne",
    ]
    for command in (
        ["db_sync"],
        ["fernet_setup", *owner],
        ["credential_setup", *owner],
        ["bootstrap", *login, *names, "--bootstrap-service-name", "keystone", *urls],
    ):
        _run([programs / "keystone-manage", "--config-file", configuration, *command], START)
    environ = {**_plain(), "OS_KEYSTONE_CONFIG_DIR": str(folder), "OS_KEYSTONE_CONFIG_FILES": str(configuration)}
    server: list[str | Path] = [programs / "uwsgi", "--http11-socket", f"127.0.0.1:{port}"]
    server += ["--module", "keystone.wsgi.api:application", "--master", "--die-on-term", "--processes", "1"]
    server += ["--threads", "2", "--lazy-apps", "--enable-threads", "-b", "65535"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(server, env=environ, stdout=log, stderr=log)
    try:
        _await(process, url, folder / "log")
        yield Keystone(url)
    finally:
        process.terminate()
        process.wait(20)


def _await(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(requests.RequestException):
            if requests.get(url, timeout=20).ok:
                return
        time.sleep(0.2)
    raise RuntimeError(f"Keystone didn't start: {log.read_text(errors='replace')[-2000:]}")


def _environment() -> Path:
    folder = CACHE / f"keystone-{sys.version_info.major}.{sys.version_info.minor}"
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "keystone.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "ready").exists():
            _run([sys.executable, "-m", "venv", "--clear", folder], INSTALL)
            command: list[str | Path] = [
                folder / "bin/python",
                "-m",
                "pip",
                "install",
                "-q",
                "--disable-pip-version-check",
            ]
            _run([*command, "keystone", "uwsgi"], INSTALL)
            (folder / "ready").touch()
    return folder


def _run(command: list[str | Path], limit: float) -> None:
    done = subprocess.run(
        list(map(str, command)), env=_plain(), capture_output=True, text=True, timeout=limit, check=False
    )
    if done.returncode:
        raise subprocess.SubprocessError(f"{Path(command[0]).name} {command[-1]}: {done.stderr[-1000:]}")


def _plain() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "PYTHON"))}
