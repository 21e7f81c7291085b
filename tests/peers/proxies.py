"""nginx and HAProxy as the documents set them up: ``docs/tenants.md`` with other addresses and paths."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.lab.certificates import make_authority
from tests.support.ports import free_port

DOCUMENT = Path(__file__).resolve().parents[2] / "docs/tenants.md"
START = 30.0
KINDS = ("nginx", "haproxy")


@dataclass(frozen=True)
class Proxy:
    """A running proxy: TLS ports of the admin and the public endpoint."""

    admin: int
    public: int


def unavailable(kind: str) -> str | None:
    """Return why there can be no such proxy here, or None."""
    for program in (kind, "openssl"):
        if shutil.which(program) is None:
            return f"{program} is not installed here"
    return None


def settings(kind: str) -> str:
    """Return the settings that the document gives."""
    found = re.search(rf"```{kind}\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    assert found, f"the document has no settings for {kind}"
    return found[1]


@contextlib.contextmanager
def running(
    kind: str, folder: Path, admin: int, public: int, changed: Mapping[str, str] | None = None
) -> Iterator[Proxy]:
    """Yield a proxy in front of these ports of loopback, with the document's settings; ``changed`` spoils them."""
    folder.mkdir(parents=True, exist_ok=True)
    ports = {"8083": admin, "8084": public, "8443": free_port(), "8444": free_port()}
    text = settings(kind)
    for old, new in (changed or {}).items():
        assert old in text, old
        text = text.replace(old, new)
    for old, port in ports.items():
        assert len(re.findall(rf"\b{old}\b", text)) == 1, f"{old} in {kind}'s settings"
        text = re.sub(rf"\b{old}\b", str(port), text)
    certificate, key = make_authority(folder, "ca").sign("proxy", "IP:127.0.0.1")
    both = folder / "both.pem"
    both.write_text(certificate.read_text() + key.read_text())
    for old, path in (("/etc/ssl/tenants.key", key), ("/etc/ssl/tenants.pem", both)):
        text = text.replace(old, str(path))
    command = nginx_command(folder, text) if kind == "nginx" else _haproxy(folder, text)
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder)
    try:
        _await(process, (ports["8443"], ports["8444"]), log)
        yield Proxy(ports["8443"], ports["8444"])
    finally:
        process.terminate()
        process.wait(timeout=START)


def nginx_command(folder: Path, text: str) -> list[str]:
    """Return the command of an nginx that keeps its things in ``folder``; ``text`` stands for what is in conf.d."""
    paths = "".join(
        f"{name}_temp_path {folder}/{name};\n" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    file = folder / "nginx.conf"
    user = "user root;\n" if os.geteuid() == 0 else ""  # who it would become couldn't write into this folder
    # As Debian's nginx.conf has it around conf.d, but in the foreground and in this folder.
    file.write_text(
        f"{user}daemon off;\nworker_processes 1;\npid {folder}/pid;\nerror_log stderr;\nevents {{}}\n"
        f"http {{\naccess_log off;\nsendfile on;\ntcp_nopush on;\ngzip on;\n{paths}{text}}}\n"
    )
    return ["nginx", "-p", str(folder), "-c", str(file), "-e", "stderr"]


def _haproxy(folder: Path, text: str) -> list[str]:
    file = folder / "haproxy.cfg"
    file.write_text(text)
    return ["haproxy", "-db", "-f", str(file)]


def _await(process: subprocess.Popen[bytes], ports: tuple[int, int], log: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    deadline = time.monotonic() + START
    for port in ports:
        while True:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            with (
                contextlib.suppress(OSError),
                socket.create_connection(("127.0.0.1", port), 5) as plain,
                context.wrap_socket(plain) as connection,
            ):
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                if connection.recv(4096).startswith(b"HTTP/1.1 200 "):
                    break
            time.sleep(0.05)
