"""The watchdog ends a process that hangs, after the report and with its exit code; it never ends one that is done."""

from __future__ import annotations

import subprocess
import sys

LIMIT_S = 60
HANGS = """
import sys, threading
from configdb_sync.cli.execution import Watchdog

def act():
    print("report")
    {act}

with Watchdog({seconds}, act, lambda: {then}):
    {work}
print("came back")
"""


def run(*, seconds: float | None, act: str = "return 11", then: str = "None", work: str) -> tuple[int, str]:
    code = HANGS.format(seconds=seconds, act=act, then=then, work=work)
    command = [sys.executable, "-c", code]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_S)
    return told.returncode, told.stdout


FOREVER = "threading.Event().wait()"


def test_what_hangs_is_ended_after_the_report_and_with_its_code() -> None:
    assert run(seconds=0.01, work=FOREVER) == (11, "report\n")


def test_the_rest_is_done_and_may_hang_itself() -> None:
    assert run(seconds=0.01, then="print('rest', flush=True)", work=FOREVER) == (11, "report\nrest\n")
    assert run(seconds=0.01, then=FOREVER, work=FOREVER) == (11, "report\n")


def test_a_report_that_fails_ends_the_process_too() -> None:
    assert run(seconds=0.01, act="raise ValueError", work=FOREVER)[0] == 1


def test_what_is_done_in_time_comes_back() -> None:
    assert run(seconds=3600, work="pass") == (0, "came back\n")
    assert run(seconds=None, work="pass") == (0, "came back\n")


def test_what_is_done_while_the_report_is_made_does_not_come_back() -> None:
    """Else two reports would be printed, and the exit code were that of a run in time."""
    act = "acting.set(); return 11"
    work = "acting = threading.Event(); globals().update(acting=acting); acting.wait()"
    assert run(seconds=0.01, act=act, work=work) == (11, "report\n")
