"""The embedded ConfigDB in a process of its own, fresh for each measurement."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COMMAND = (sys.executable, "-m", "configdb_sync")


@contextmanager
def serving(state: Path, *more: str) -> Iterator[tuple[str, ...]]:
    """Serve ConfigDB from the state folder; give the options that lead a client to it."""
    listen = (*COMMAND, "configdb", "serve", "--state", str(state), "--listen", "127.0.0.1:0", *more)
    with subprocess.Popen(listen, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None, "the server didn't say where it listens"
            yield ("--configdb", found[0], "--configdb-token-file", str(state / "configdb.token"))
        finally:
            server.terminate()
            server.wait(30)
