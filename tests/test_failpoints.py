"""Steps at which a process ends as by a power cut: at the named one, at the time asked for, and never otherwise."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from configdb_sync import failpoints

PROGRAM = "from configdb_sync.failpoints import here\nfor _ in range(3): here('after-upload'); print('on', flush=True)"


def run(told: str | None) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if name != failpoints.VARIABLE}
    if told is not None:
        environ[failpoints.VARIABLE] = told
    return subprocess.run([sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("told", "lines"), [("after-upload", 0), ("after-upload:1", 0), ("after-upload:3:KILL", 2)])
def test_the_process_is_killed_at_the_step(told: str, lines: int) -> None:
    done = run(told)
    assert (done.returncode, done.stdout.count("on")) == (-signal.SIGKILL, lines)


@pytest.mark.parametrize("told", [None, "", "after-upload:4", "before-upload"])
def test_other_steps_cost_nothing(told: str | None) -> None:
    done = run(told)
    assert (done.returncode, done.stdout.count("on")) == (0, 3)


def test_the_process_can_be_frozen_and_goes_on() -> None:
    environ = os.environ | {failpoints.VARIABLE: "after-upload:2:STOP"}
    with subprocess.Popen([sys.executable, "-c", PROGRAM], env=environ, stdout=subprocess.PIPE, text=True) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        process.send_signal(signal.SIGCONT)
        assert process.communicate(timeout=60)[0].count("on") == 3


@pytest.mark.parametrize("told", ["nowhere", "after-upload:x", "after-upload:1:HUP"])
def test_a_misspelt_failpoint_is_refused(told: str) -> None:
    with pytest.raises(ValueError, match="NAME"):
        failpoints.Failpoint(told)


def test_every_step_is_somewhere_in_the_code() -> None:
    code = "\n".join(path.read_text("utf-8") for path in Path(failpoints.__file__).parent.rglob("*.py"))
    assert set(re.findall(r'failpoints\.here\("([a-z-]+)"\)', code)) == failpoints._ALL
