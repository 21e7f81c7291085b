"""Real Ruby's Marshal, in one process for many values."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from configdb_sync.mcollective.marshal import Ruby, String, Symbol


@dataclass(frozen=True)
class Oracle:
    """A Ruby process. Answers are ``(what it is, as told, how Ruby dumps it)``, None where Ruby refuses."""

    process: subprocess.Popen[str]

    def load(self, raw: bytes) -> tuple[str, bytes] | None:
        return self._ask(f"load {raw.hex()}")

    def make(self, seed: int) -> tuple[str, bytes]:
        found = self._ask(f"make {seed}")
        assert found is not None
        return found

    def _ask(self, line: str) -> tuple[str, bytes] | None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        state, *rest = self.process.stdout.readline().split()
        if state != "ok":
            return None
        return rest[0], bytes.fromhex(rest[1])


def told(value: Ruby) -> str:
    """Say what a value is, in the words of ``oracle.rb``."""
    match value:
        case None:
            return "n"
        case bool():
            return "t" if value else "f"
        case int():
            return f"i{value}"
        case str():
            return f"sUTF-8:{value.encode().hex()}"
        case bytes():
            return f"s:{value.hex()}"
        case String():
            return f"s{value.encoding or ''}:{value.content.hex()}"
        case Symbol():
            return f"y{value.name.encode().hex()}"
        case list():
            return f"[{','.join(map(told, value))}]"
        case dict():
            return f"{{{','.join(f'{told(key)}>{told(item)}' for key, item in value.items())}}}"
    raise AssertionError(type(value))


@contextlib.contextmanager
def running() -> Iterator[Oracle]:
    with subprocess.Popen(
        ["ruby", "-W0", str(Path(__file__).with_name("oracle.rb"))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"},
    ) as process:
        yield Oracle(process)
