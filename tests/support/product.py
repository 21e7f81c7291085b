"""The command line called as a user would, with its exit code, its output and what it sent to ConfigDB."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import json
import os
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.cli.main import main
from configdb_sync.configdb import connect
from configdb_sync.http import session
from configdb_sync.http.transport import HttpAnswer, HttpRequest, Transport
from tests.support import outputs

MEANT = ("--new-key", "--new-node", "--change-type")
"""Options of ``override`` for a test that is about something else than mistakes: whatever is overridden is meant."""

CHANGING = frozenset({"POST", "PUT", "PATCH", "DELETE"})


@dataclass(frozen=True)
class Result:
    """What a command gave."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output read as JSON."""
        return json.loads(self.out)


Fault = Callable[[HttpRequest], "HttpAnswer | None"]
"""Answers a request in the server's place, or None to let it through; may raise what an exchange raises."""


@dataclass
class Product:
    """``configdb-sync`` with a state folder of its own and an embedded ConfigDB that keeps a list of its requests."""

    state: Path
    requests: list[HttpRequest] = field(default_factory=list)
    fault: Fault | None = None
    plain: bool = False
    """Whether the server hides that it is ours, so that it is taken for tuning-box."""
    remote: bool = False
    """Whether the command at work asks a server of its own: tuning-box refuses writers that come together."""

    def __call__(self, *arguments: object, stdin: str = "") -> Result:
        """Run a command; ``--state`` is added. JSON that it prints must be as its schema says."""
        self.remote = "--configdb" in arguments
        out, err = io.StringIO(), io.StringIO()
        code: Any = None
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), _stdin(stdin):
            try:
                main([*map(str, arguments), "--state", str(self.state)])
            except SystemExit as end:
                code = end.code
        outputs.check([*map(str, arguments)], out.getvalue())
        return Result(int(code or 0), out.getvalue(), err.getvalue())

    def changing(self) -> list[HttpRequest]:
        """The requests since the last call that would change something; the list begins anew."""
        found = [request for request in self.requests if request.method in CHANGING]
        self.requests.clear()
        return found


@contextlib.contextmanager
def _stdin(text: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        yield


@dataclass(frozen=True)
class _Watched:
    inner: Transport
    product: Product

    @property
    def base(self) -> str:
        return self.inner.base

    def send(self, request: HttpRequest) -> HttpAnswer:
        self.product.requests.append(request)
        answer = None if self.product.fault is None else self.product.fault(request)
        if answer is None:
            answer = self.inner.send(request)
        if self.product.plain:
            shown = {name: value for name, value in answer.headers.items() if name != "server-product"}
            answer = HttpAnswer(answer.status, shown, answer.body)
        return answer

    def close(self) -> None:
        self.inner.close()


def make_product(state: Path, patch: pytest.MonkeyPatch) -> Product:
    """Return a product whose embedded ConfigDB is watched."""
    for name in [name for name in os.environ if name.startswith(("OS_", "CONFIGDB_SYNC_"))]:
        if name != "CONFIGDB_SYNC_FIXTURES":
            patch.delenv(name)
    product = Product(state)
    embedded: Callable[[str | None, int], Transport] = connect._embedded

    def watched(database_url: str | None, workers: int) -> Transport:
        return _Watched(embedded(database_url, workers), product)

    patch.setattr(connect, "_embedded", watched)

    def rest(seconds: float) -> None:
        # What waits between two attempts is proven where it is decided; only a real server needs the time.
        time.sleep(seconds if product.remote else min(seconds, 0.01))

    patch.setattr(session, "Timing", functools.partial(session.Timing, sleep=rest))
    return product


def snapshot(root: Path) -> dict[str, tuple[object, ...]]:
    """Return all there is to know of a tree: kinds, modes, owners, links, contents, inodes, times."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(root.rglob("*")):
        info = path.lstat()
        if stat.S_ISLNK(info.st_mode):
            content: object = path.readlink()
        elif stat.S_ISREG(info.st_mode):
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            content = None
        kept = (info.st_ino, info.st_mtime_ns) if content is not None else ()
        found[str(path.relative_to(root))] = (info.st_mode, info.st_uid, info.st_gid, content, *kept)
    return found


def contents(root: Path) -> dict[str, tuple[object, ...]]:
    """Return the same without inodes and times, which a rewritten file changes."""
    return {path: facts[:4] for path, facts in snapshot(root).items()}
