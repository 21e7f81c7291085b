"""Two PostgreSQL servers on one machine: a primary, and a standby that every commit waits for (R2)."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.peers.postgresql import START, USER, programs, run

SETTINGS = "-c listen_addresses= -c max_connections=100 -c full_page_writes=off -c max_wal_senders=4"


@dataclass(frozen=True)
class Pair:
    """``folder`` holds both servers' data and sockets. Nothing needs a password: the folder is closed."""

    folder: Path
    programs: Path

    def create(self, name: str) -> str:
        """Make an empty database and return the URL that names both servers, the standby first."""
        run([self.programs / "createdb", "-h", self._place("primary"), "-U", USER, "-T", "template0", name])
        return f"postgresql://{USER}@/{name}?host={self._place('standby')}&host={self._place('primary')}"

    def kill_primary(self) -> None:
        """Kill the primary, all its processes at once, as a power cut does."""
        pid = int((self._place("primary") / "data/postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for process in (pid, *map(int, children)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def promote(self) -> None:
        """Make the standby the primary; it waits for no other then."""
        control: list[str | Path] = [self.programs / "pg_ctl", "-D", self._place("standby") / "data"]
        run([*control, "-w", "-t", str(START), "promote"], owner=True)

    def _place(self, name: str) -> Path:
        return self.folder / name


@contextlib.contextmanager
def running() -> Iterator[Pair]:
    """Yield a pair of one's own, gone afterwards."""
    binaries = programs()
    assert binaries is not None
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    try:
        primary, standby = folder / "primary", folder / "standby"
        for place in (folder, primary, standby):
            place.mkdir(exist_ok=True)
            if os.geteuid() == 0:
                shutil.chown(place, USER)
        make = ("-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        run((binaries / "initdb", "-D", primary / "data", *make), owner=True)
        with contextlib.ExitStack() as stack:
            stack.enter_context(_server(binaries, primary))
            copy = ("-h", primary, "-U", USER, "-R", "--no-sync", "-c", "fast", "-X", "stream")
            run((binaries / "pg_basebackup", "-D", standby / "data", *copy), owner=True)
            stack.enter_context(_server(binaries, standby))
            sql = (binaries / "psql", "-h", primary, "-U", USER, "-d", "postgres", "-qc")
            # Only now: until there is a standby, no commit could come to its end.
            run((*sql, "ALTER SYSTEM SET synchronous_standby_names = '*'"))
            run((*sql, "SELECT pg_reload_conf()"))
            yield Pair(folder, binaries)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _server(binaries: Path, place: Path) -> Iterator[None]:
    control: list[str | Path] = [binaries / "pg_ctl", "-D", place / "data", "-w", "-t", str(START)]
    options = f"{SETTINGS} -c fsync=off -c unix_socket_directories={place}"
    run([*control, "-l", place / "log", "-o", options, "start"], owner=True)
    try:
        yield
    finally:
        with contextlib.suppress(RuntimeError):  # it may have been killed
            run([*control, "-m", "immediate", "stop"], owner=True)
