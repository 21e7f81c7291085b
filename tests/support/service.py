"""``configdb serve`` as a process of its own."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import requests

URL = re.compile(r"ConfigDB listens on (\S+)\n")


@contextlib.contextmanager
def serving(*arguments: str, environ: dict[str, str] | None = None) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Yield the URL and the process of a running ``configdb serve`` on a free port of loopback; warnings are errors."""
    # What webob, below keystonemiddleware, uses of Python 3.12 and older is none of ours.
    strict = ["-W", "error", "-W", "ignore:'cgi' is deprecated:DeprecationWarning"]
    command = [sys.executable, *strict, "-m", "configdb_sync", "configdb", "serve"]
    command += ["--listen", "127.0.0.1:0", *arguments]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environ or dict(os.environ)
    )
    try:
        assert process.stdout is not None
        found = URL.fullmatch(process.stdout.readline())
        assert found, process.communicate(timeout=20)
        yield found[1], process
    finally:
        process.terminate()
        process.communicate(timeout=20)


def fill(url: str, headers: dict[str, str] | None = None) -> None:
    def post(path: str, body: Any) -> None:
        answer = requests.post(url + path, json=body, headers=headers, timeout=20)
        assert answer.status_code == 201, answer.text

    post("/components", {"name": "fuel", "resource_definitions": [{"name": "globals"}]})
    post("/environments", {"id": 5, "components": ["fuel"], "hierarchy_levels": ["cluster", "nodes"]})
