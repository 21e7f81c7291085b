"""Nodes in turn: read one after the other, worked on some at once, few held in memory (U13)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from configdb_sync.errors import BusyError, NodeError, OutOfTimeError, ProductError
from configdb_sync.nodes.node_files import NodeRead, Nodes
from configdb_sync.sync.pace import Pace

T = TypeVar("T")


def each(
    nodes: Nodes, identities: Sequence[str], work: Callable[[NodeRead | NodeError], T], pace: Pace, parallel: int
) -> Iterator[tuple[str, T | ProductError]]:
    """Do ``work`` on every node, ``parallel`` of them at once; yield each outcome as it comes.

    An error that ``work`` raises is yielded, and no further node is begun; so is the end of the time.
    """
    running: dict[Future[T], str] = {}

    def paced(read: NodeRead | NodeError) -> T:
        with pace.step("node"):
            return work(read)

    with ThreadPoolExecutor(parallel, thread_name_prefix="node") as pool:
        for read in _in_time(nodes, identities, pace):
            if isinstance(read, (OutOfTimeError, BusyError)):
                yield "", read
                break
            identity = (read.node or "") if isinstance(read, NodeError) else read.identity
            running[pool.submit(paced, read)] = identity
            stop = False
            if len(running) > parallel:
                for name, outcome in _finished(running):
                    stop = stop or isinstance(outcome, ProductError)
                    yield name, outcome
            if stop:
                break
        while running:
            yield from _finished(running)


def _in_time(
    nodes: Nodes, identities: Sequence[str], pace: Pace
) -> Iterator[NodeRead | NodeError | OutOfTimeError | BusyError]:
    """Yield what is read of each node, or at last why no further one is."""
    reads = iter(nodes.read(identities))
    for _ in identities:
        try:
            pace.check("node")
        except (OutOfTimeError, BusyError) as error:
            yield error
            return
        found = next(reads, None)
        if found is None:
            return
        yield found


def _finished(running: dict[Future[T], str]) -> Iterator[tuple[str, T | ProductError]]:
    done, _ = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        identity = running.pop(future)
        error = future.exception()
        if isinstance(error, ProductError):
            yield identity, error
        else:
            yield identity, future.result()
