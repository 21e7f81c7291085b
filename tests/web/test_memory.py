"""Bodies that stop short of their end fill no memory (R4)."""

from __future__ import annotations

import socket
from types import SimpleNamespace
from typing import Any

import pytest

from configdb_sync.web.connections import Connection, Patience, Phase
from configdb_sync.web.worker import RefusalLog, Worker

MIB = 1024 * 1024


@pytest.fixture
def worker() -> Any:
    """A worker without a loop, for which 64 MiB are the most."""
    found = object.__new__(Worker)
    found._connections, found.nr_conns = set(), 0
    found.lines = []
    found._refusals = RefusalLog(found.lines.append)
    found.app, found.cfg = SimpleNamespace(body_limit=MIB), SimpleNamespace(threads=4)
    return found


def connection(worker: Any, size: int, phase: Phase) -> Connection:
    ours, theirs = socket.socketpair()
    theirs.close()
    found = Connection(ours, ("10.0.0.9", 1), None, MIB, Patience(), phase, 0.0, bytearray(size))
    worker._connections.add(found)
    worker.nr_conns += 1
    return found


def test_who_holds_most_is_closed_when_it_is_too_much(worker: Any) -> None:
    small, large = connection(worker, 20 * MIB, Phase.BODY), connection(worker, 40 * MIB, Phase.BODY)
    worker._bound_memory()
    assert worker.nr_conns == 2
    busy = connection(worker, 41 * MIB, Phase.BUSY)
    worker._bound_memory()
    assert worker._connections == {small, busy}
    assert (large.phase, large.held, worker.nr_conns) == (Phase.CLOSED, 0, 2)
    assert worker.lines == [
        "requests refused before the service saw them: 1 x closed, since too much came at once; the last from 10.0.0.9"
    ]
    for one in (small, busy):
        one.close()
