"""Nodes that are folders: the very commands that go to nodes, run here by ``sh`` with the folder as ``/``."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from configdb_sync.errors import NodeError
from configdb_sync.mcollective.outcomes import ErrorReply, Outcome, Reply, ReplyCounts
from configdb_sync.nodes.node_files import NodeRead, ReadLimits
from configdb_sync.nodes.remote.command_output import CommandOutput
from configdb_sync.nodes.remote.commands import Commands
from configdb_sync.nodes.remote.reading import NodeReading
from tests.support.rpc import OneByOne

SHELL = os.environ.get("CONFIGDB_SYNC_TEST_SHELL", "/bin/sh")
PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
MESSAGE_LIMIT = 2_000_000
ARGUMENT = 128 << 10
"""Bytes of one argument that Linux takes: a command is one of ``sh -c``."""


def run(
    command: str, path: str = PATH, prefix: Sequence[str] = (), environ: Mapping[str, str] | None = None
) -> CommandOutput:
    """Run a command as the agent does: by ``/bin/sh``, with nothing to read and little of an environment."""
    done = subprocess.run(
        [*prefix, SHELL, "-c", command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        cwd="/tmp",
        env={"PATH": path, "LC_ALL": "C", **(environ or {})},
    )
    code = done.returncode if done.returncode >= 0 else 128 - done.returncode
    return CommandOutput(done.stdout, done.stderr, code)


def read(root: Path, limits: ReadLimits | None = None, prefix: Sequence[str] = ()) -> tuple[NodeRead | NodeError, int]:
    """Read the node at ``root``; return what was read and how many commands that took. ``prefix``: who runs them."""
    limits = limits or ReadLimits()
    reading = NodeReading("46", Commands(root=str(root), file_limit=limits.file), limits)
    outcome: str | NodeRead | NodeError = reading.first()
    count = 0
    while isinstance(outcome, str):
        count += 1
        output = run(outcome, prefix=prefix)
        assert len(output.stdout) < MESSAGE_LIMIT
        outcome = reading.take(output)
    return outcome, count


@dataclass
class ShellRpc(OneByOne):
    """A bus of one machine. Commands run here; ``uploadfile`` is done here, its faults included.

    ``asked``: what was asked, as agent and inputs. ``fault``: answers a request in the node's place, or
    None.
    """

    path: str = PATH
    environ: Mapping[str, str] | None = None
    fault: Callable[[str, str, Mapping[str, Any]], Outcome | None] | None = None
    asked: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    counts: ReplyCounts = field(default_factory=ReplyCounts)

    def ask(self, identity: str, agent: str, action: str, data: Mapping[str, Any]) -> Outcome:
        """Do here what the node's agent does."""
        self.asked.append((agent, data))
        given = None if self.fault is None else self.fault(identity, agent, data)
        if given is not None:
            return given
        if agent != "execute_shell_command":
            return upload(identity, data)
        output = run(data["cmd"], self.path, environ=self.environ)
        return Reply(identity, {"stdout": output.stdout, "stderr": output.stderr, "exit_code": output.code})

    def discover(self, *, timeout: float, expected: Collection[str] = ()) -> list[str]:
        return ["master", "46"]


def upload(identity: str, data: Mapping[str, Any]) -> Outcome:
    """Do what the agent ``uploadfile`` does."""
    path = Path(data["path"])
    assert len(data["content"]) < MESSAGE_LIMIT
    if not data["content"].strip(b"\n"):
        return ErrorReply(identity, 4, "Cannot validate input content: value should match ^.+$")
    if path.exists() and not data["overwrite"]:
        return ErrorReply(identity, 1, f"{path} exists")
    if not path.parent.is_dir():
        return ErrorReply(identity, 1, f"{path.parent} does not exist")
    try:
        path.write_bytes(data["content"])
    except OSError as error:
        return ErrorReply(identity, 5, f"{error.strerror} @ io_write - {path}")
    if os.geteuid() == 0:
        shutil.chown(path, data["user_owner"], data["group_owner"])
    path.chmod(int(data["permissions"], 8))
    return Reply(identity, {"msg": "File was uploaded!"})


def slow(folder: Path, program: str, script: str) -> str:
    """Return a PATH with a ``program`` that first does something else."""
    place = folder / "bin"
    place.mkdir(exist_ok=True)
    (place / program).write_text(f'#!/bin/sh\n{script}\nexec /bin/{program} "$@"\n')
    (place / program).chmod(0o755)
    return f"{place}:{PATH}"
