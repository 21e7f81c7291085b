"""``configdb serve`` as a process of its own."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import requests

URL = re.compile(r"ConfigDB listens on (\S+)\n")


@contextlib.contextmanager
def serving(
    *arguments: str, environ: dict[str, str] | None = None, packages: Path | None = None
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Yield the URL and the process of a running ``configdb serve`` on a free port of loopback.

    It finds what isn't installed beside it in ``packages``; warnings are errors unless there are such.
    """
    also = f"import sys; sys.path.append({str(packages)!r}); " if packages else ""
    strict = [] if packages else ["-W", "error"]
    code = f"{also}from configdb_sync.cli.serve import configdb; configdb()"
    command = [sys.executable, *strict, "-c", code, "serve", "--listen", "127.0.0.1:0", *arguments]
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
