"""What a command left behind on a node, and what is wrong with it."""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass, field

from configdb_sync.nodes.faults import WAYS_OUT
from configdb_sync.nodes.names import shown

_SHOWN = 200
_TIMED_OUT = frozenset({124, 137})
_NOT_STARTED = 42
_ON_NODES = {
    errno.EROFS: "its file system is read-only on the node",
    errno.EACCES: "look on the node for what denies it: attributes (lsattr), SELinux, a network file system",
    errno.EPERM: "look on the node for what denies it: attributes (lsattr), SELinux, a network file system",
}
_WAYS_OUT = {os.strerror(number): way_out for number, way_out in (WAYS_OUT | _ON_NODES).items()}


@dataclass(frozen=True)
class Output:
    """The outputs of the agent ``execute_shell_command``."""

    stdout: bytes = field(repr=False)
    stderr: bytes = field(repr=False)
    code: int


def fault(output: Output) -> str | None:
    """Return why a command didn't run to its end, None if it did."""
    if output.code == 0:
        return None
    if output.code in _TIMED_OUT:
        return "its command took too long and was ended"
    if output.code == _NOT_STARTED and not output.stdout and not output.stderr:
        return "its command could not be started (exit code 42)"
    said = last_words(output.stderr)
    return f"its command failed (exit code {output.code})" + (f": {said}" if said else "")


def last_words(stderr: bytes) -> str:
    """Return the last line of an error output, made harmless and cut."""
    lines = stderr.decode("utf-8", "surrogateescape").strip().splitlines()
    text = shown(lines[-1]) if lines else ""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def system_words(stderr: bytes) -> tuple[str, str | None]:
    """Return what the system said in a program's last error line (``No space left on device``), and the way out."""
    words = re.sub(r"^.*: ", "", last_words(stderr)) or "it doesn't say why"
    return words, _WAYS_OUT.get(words)
