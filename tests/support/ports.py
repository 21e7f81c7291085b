"""Ports of loopback for the servers of tests: each worker of a parallel run takes them from a range of its own."""

from __future__ import annotations

import itertools
import os
import socket

_FIRST, _LAST = 10_000, 32_000
"""Below the range from which Linux gives ports to outgoing connections: none of these can take one meanwhile."""
_WORKERS = 11

_each = itertools.count(os.getpid())


def free_port() -> int:
    """Return a port of loopback that nobody has now and that no other worker of this run is given."""
    size = (_LAST - _FIRST) // _WORKERS
    start = _FIRST + size * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS)
    for number in itertools.islice(_each, size):
        port = start + number % size
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no port of {start} to {start + size - 1} is free")
