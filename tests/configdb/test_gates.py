"""One first request at a time (U6, R1)."""

from __future__ import annotations

import threading

import pytest

from configdb_sync.configdb.gates import Gates


def test_the_first_goes_alone_and_the_others_together() -> None:
    gates = Gates()
    inside: list[int] = []
    most: list[int] = []
    first = threading.Event()
    together = threading.Barrier(3, timeout=60)

    def go(number: int) -> None:
        with gates.through("node"):
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
        with gates.through("node"):
            together.wait()

    others = [threading.Thread(target=meet) for _ in range(3)]
    for thread in others:
        thread.start()
    for thread in others:
        thread.join()
    assert not together.broken


def test_a_failure_leaves_the_gate_shut_and_its_holder_may_come_again() -> None:
    gates = Gates()
    with pytest.raises(RuntimeError), gates.through(1):
        raise RuntimeError
    with gates.through(1), gates.through(1):
        pass
    with gates.through(1):
        pass
