"""Identities are never given twice: a change whose COMMIT was lost is found again by one (R2)."""

from __future__ import annotations

import random
import subprocess
import sys

from configdb_sync.clock import new_call_id

FORKED = """
import os
from configdb_sync.clock import new_call_id
if child := os.fork():
    os.waitpid(child, 0)
print(new_call_id(), flush=True)
"""


def test_no_seed_brings_an_identity_back() -> None:
    found = set()
    for _ in range(3):
        random.seed(1)
        found.add(new_call_id())
    assert len(found) == 3


def test_a_fork_gives_others_than_its_parent() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True)
    assert len(set(done.stdout.split())) == 2
