"""A node that is a folder: the very commands that go to nodes, run here by ``sh`` with the folder as ``/``."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from configdb_sync.errors import NodeError
from configdb_sync.nodes.model import NodeRead
from configdb_sync.nodes.remote.commands import Commands
from configdb_sync.nodes.remote.limits import Limits
from configdb_sync.nodes.remote.output import Output
from configdb_sync.nodes.remote.reading import Reading


def run(command: str, env: Mapping[str, str] | None = None) -> Output:
    """Run a command as the agent does: by ``/bin/sh``, with nothing to read and little of an environment."""
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", **(env or {})},
    )
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return Output(done.stdout, done.stderr, code)


def read(root: Path, limits: Limits | None = None) -> tuple[NodeRead | NodeError, int]:
    """Read the node at ``root``; return what was read and how many commands that took."""
    limits = limits or Limits()
    reading = Reading("46", Commands(root=str(root), file_limit=limits.file), limits)
    outcome: str | NodeRead | NodeError = reading.first()
    count = 0
    while isinstance(outcome, str):
        count += 1
        output = run(outcome)
        assert len(output.stdout) < 2_000_000
        outcome = reading.take(output)
    return outcome, count
