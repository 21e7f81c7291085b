"""The web server of a Fuel Master: nginx with what Fuel's own settings of it say, before Nailgun and Keystone.

http leads to https, as with ``force_https``. Keystone is asked under the name that it has behind the web server, so it
says that its versions are where nobody may go.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.peers.proxies import START, nginx_command
from tests.support.ports import free_port

_SETTINGS = """
server {{
    listen 127.0.0.1:{plain};
    return 301 https://$host:{secure}$request_uri;
}}
server {{
    listen 127.0.0.1:{secure} ssl;
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    client_max_body_size 10M;
    location ~ ^/keystone/(.*) {{
        set $below $1;
        proxy_pass http://{keystone}/$below;
        proxy_set_header Host 10.20.0.2:5000;
        proxy_buffering off;
    }}
    location / {{
        root {folder}/static;
    }}
    location /api {{
        if ($request_method !~ ^(GET|POST|PUT|PATCH|DELETE)$) {{
            return 444;
        }}
        proxy_pass http://{nailgun};
    }}
}}
"""


@dataclass(frozen=True)
class FuelMaster:
    """Its addresses: ``plain`` leads to ``secure``."""

    plain: str
    secure: str


@contextlib.contextmanager
def running(folder: Path, nailgun: str, keystone: str, pair: tuple[Path, Path]) -> Iterator[FuelMaster]:
    """Yield the web server before the Nailgun and the Keystone at these addresses, with this certificate and key."""
    (folder / "static").mkdir(parents=True)
    plain, secure = free_port(), free_port()
    text = _SETTINGS.format(
        plain=plain,
        secure=secure,
        certificate=pair[0],
        key=pair[1],
        keystone=urlsplit(keystone).netloc,
        nailgun=urlsplit(nailgun).netloc,
        folder=folder,
    )
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(nginx_command(folder, text), stdout=output, stderr=output, cwd=folder)
    try:
        for port in (plain, secure):
            _await(process, port, log)
        yield FuelMaster(f"http://127.0.0.1:{plain}", f"https://127.0.0.1:{secure}")
    finally:
        process.terminate()
        process.wait(timeout=START)


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START
    while True:
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline, log.read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5):
            return
        time.sleep(0.05)
