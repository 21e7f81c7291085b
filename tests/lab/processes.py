"""Programs that the laboratory runs: each ends with it, and no other is ever touched."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass
class Program:
    """A program and how to start it; ``log`` gets what it prints. It is killed when its starter ends."""

    command: Sequence[str]
    environ: Mapping[str, str]
    log: Path
    user: str | None = None
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def pid(self) -> int:
        """The id of the running process."""
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it."""
        become = [f"--reuid={self.user}", f"--regid={self.user}", "--init-groups"] if self.user else []
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *become, "--", *self.command],
                env=dict(self.environ),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
            )

    def stop(self, seconds: float = 20) -> None:
        """End it, by force if it takes longer than ``seconds``."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once, with all that it started: RabbitMQ's is a script that runs the broker."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(30)

    def pause(self) -> None:
        """Keep it from running for now."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it run again."""
        os.kill(self.pid, signal.SIGCONT)

    def await_(self, ready: Callable[[], bool], seconds: float, what: str) -> None:
        """Return when ``ready``. Raises RuntimeError with the end of the log if it ends or takes too long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if ready():
                return
            if not self.running:
                break
            time.sleep(0.05)
        tail = self.log.read_bytes()[-2000:].decode(errors="replace")
        raise RuntimeError(f"{what} didn't come up: {tail}")


def listens(port: int) -> bool:
    """Tell whether something listens on a port of loopback."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
