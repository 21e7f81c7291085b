"""One first request at a time (U6, R1)."""

from __future__ import annotations

import threading

import pytest

from configdb_sync.configdb.connection import FirstRequestLock


def test_the_first_goes_alone_and_the_others_together() -> None:
    gates = FirstRequestLock()
    inside: list[int] = []
    most: list[int] = []
    first = threading.Event()
    together = threading.Barrier(3, timeout=60)

    def go(number: int) -> None:
        with gates.hold("node"):
            inside.append(number)
            most.append(len(inside))
            if not first.is_set():
                first.set()
                threading.Event().wait(0.05)
                assert len(inside) == 1
            inside.remove(number)

    threads = [threading.Thread(target=go, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert max(most) == 1

    def meet() -> None:
        with gates.hold("node"):
            together.wait()

    others = [threading.Thread(target=meet) for _ in range(3)]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join()
    assert not together.broken


def test_a_failure_leaves_the_gate_shut_and_its_holder_may_come_again() -> None:
    gates = FirstRequestLock()
    with pytest.raises(RuntimeError), gates.hold(1):
        raise RuntimeError
    with gates.hold(1), gates.hold(1):
        pass
    with gates.hold(1):
        pass
