"""A private PostgreSQL: Debian's programs, a cluster in a temporary folder, reached by a socket in it alone."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

START = 60
USER = "postgres"


@dataclass(frozen=True)
class Cluster:
    """A running cluster. Its only user is ``postgres``, without a password: the socket's folder is closed."""

    folder: Path
    programs: Path

    def create(self, name: str) -> str:
        """Make an empty database and return its URL, as SQLAlchemy and libpq take it."""
        run([self.programs / "createdb", "-h", self.folder, "-U", USER, "-T", "template0", "-E", "UTF8", name])
        return self.url(name)

    def drop(self, name: str) -> None:
        """Drop a database, with whoever is connected to it."""
        run([self.programs / "dropdb", "-h", self.folder, "-U", USER, "--force", name])

    def url(self, name: str) -> str:
        """Return the URL of a database."""
        return f"postgresql://{USER}@/{name}?host={self.folder}"


def programs() -> Path | None:
    """Return the folder of PostgreSQL's server programs, the newest; None where there are none."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return versions[-1].parent if versions else None


def unavailable() -> str | None:
    """Return why there can be no PostgreSQL here, or None."""
    if programs() is None:
        return "PostgreSQL is not installed here"
    if os.geteuid() == 0:
        try:
            pwd.getpwnam(USER)
        except KeyError:
            return "PostgreSQL can't run as root, and there is no user postgres here"
        if shutil.which("setpriv") is None:
            return "PostgreSQL can't run as root, and there is no setpriv here"
    return None


@contextlib.contextmanager
def running(*, durable: bool = False, below: str = "/tmp") -> Iterator[Cluster]:
    """Yield a cluster of one's own in a folder ``below``, gone afterwards. ``durable`` has it wait for the disk as real
    ones do."""
    binaries = programs()
    assert binaries is not None
    # A socket's path may have 107 characters: pytest's folders are too deep.
    folder = Path(tempfile.mkdtemp(prefix="pg-", dir=below))
    try:
        data = folder / "data"
        if os.geteuid() == 0:
            shutil.chown(folder, USER)
        run(
            [binaries / "initdb", "-D", data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
            owner=True,
        )
        options = f"-c listen_addresses= -c unix_socket_directories={folder} -c max_connections=200"
        if not durable:
            options += " -c fsync=off -c synchronous_commit=off -c full_page_writes=off"
        control: list[str | Path] = [binaries / "pg_ctl", "-D", data, "-w", "-t", str(START)]
        run([*control, "-l", folder / "log", "-o", options, "start"], owner=True)
        try:
            yield Cluster(folder, binaries)
        finally:
            run([*control, "-m", "immediate", "stop"], owner=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run(command: Sequence[str | Path], *, owner: bool = False) -> None:
    words = [str(word) for word in command]
    if owner and os.geteuid() == 0:
        words = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", *words]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    done = subprocess.run(words, capture_output=True, text=True, timeout=2 * START, check=False, env=environ, cwd="/")
    if done.returncode:
        raise RuntimeError(f"{Path(words[-1]).name}: {' '.join(words)}: {done.stderr[-1000:]}")
