"""Nodes: one MCollective daemon each, with folders of its own in the place of the machine's."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.lab.processes import PATH, Program

ROOT = Path(__file__).resolve().parents[2]
AGENTS = Path(__file__).with_name("agents")
UNPACKED = ROOT / ".cache/mcollective"
# Where things are put on nodes, apart from /etc. Nothing that the daemon needs may be there.
OWN = ("usr/local", "var/cache")
# Nothing on a node asks for these.
_LEFT_OUT = shutil.ignore_patterns("shadow*", "gshadow*", "private", "hiera", "fuel", "astute.yaml", ".git")


@dataclass(frozen=True)
class Daemon:
    """Where MCollective's daemon is; ``library`` for Ruby if it isn't where Ruby looks."""

    program: Path
    library: Path | None = None


def daemon() -> Daemon | None:
    """Return the installed or the unpacked daemon, None if there is neither."""
    for top in (Path("/"), UNPACKED):
        program = top / "usr/sbin/mcollectived"
        if program.exists():
            return Daemon(program, None if top == Path("/") else top / "usr/lib/ruby/vendor_ruby")
    return None


def ruby() -> str | None:
    """Return the Ruby of nodes: one that isn't in a folder that they have for themselves. None if there is none."""
    return shutil.which("ruby", path="/usr/bin:/bin")


@dataclass(frozen=True)
class Node:
    """A node. ``root`` holds what it sees as /etc, /usr/local and /var/cache; all else is the machine's."""

    identity: str
    folder: Path
    process: Program

    @property
    def root(self) -> Path:
        """The folder with those that are its own."""
        return self.folder / "root"

    @property
    def etc(self) -> Path:
        """The folder that it has as /etc."""
        return self.root / "etc"

    @property
    def hiera(self) -> Path:
        """The folder that it has as /etc/hiera."""
        return self.etc / "hiera"

    @property
    def fuel(self) -> Path:
        """The folder that it has as /etc/fuel."""
        return self.etc / "fuel"

    def clear(self) -> None:
        """Take away its settings; /etc/hiera and /etc/fuel are there, empty, and so is what else is its own."""
        for name in ("astute.yaml", "hiera.yaml", "puppet/hiera.yaml"):
            (self.etc / name).unlink(missing_ok=True)
        shutil.rmtree(self.etc / "configdb-sync", ignore_errors=True)
        for place in (self.hiera, self.fuel, *(self.root / name for name in OWN)):
            place.mkdir(parents=True, exist_ok=True)
            for path in place.iterdir():
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    @property
    def log(self) -> str:
        """What its daemon has logged."""
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("mcollective.log*")))


def make_node(folder: Path, identity: str, common: Sequence[str], *, level: str = "info", psk: str) -> Node:
    """Make a node in ``folder``; ``common``: lines that all configurations have. It doesn't run yet."""
    found = daemon()
    assert found is not None
    library = folder.parent / "plugins/mcollective/agent"
    if not library.exists():
        library.mkdir(parents=True)
        for path in (*AGENTS.glob("*.ddl"), *AGENTS.glob("[!r]*.rb")):
            shutil.copy(path, library)
    folder.mkdir(parents=True)
    lines = [
        *common,
        f"libdir = {library.parents[1]}",
        f"identity = {identity}",
        f"plugin.psk = {psk}",
        f"loglevel = {level}",
        f"logfile = {folder}/mcollective.log",
        "daemonize = 0",
    ]
    (folder / "server.cfg").write_text("\n".join(lines) + "\n")
    etc = folder / "root/etc"
    shutil.copytree("/etc", etc, symlinks=True, ignore=_LEFT_OUT, ignore_dangling_symlinks=True)
    mounts = [f"mount --bind '{folder}/root/{name}' /{name}" for name in ("etc", *OWN)]
    run = f"exec '{ruby()}' -r'{AGENTS}/ruby3.rb' '{found.program}' --config '{folder}/server.cfg'"
    command = ["unshare", "-m", "--propagation", "private", "sh", "-ec", "\n".join([*mounts, run])]
    environ = {"PATH": PATH, "HOME": "/root", "LANG": "C"}
    if found.library is not None:
        environ["RUBYLIB"] = str(found.library)
    node = Node(identity, folder, Program(command, environ, folder / "console.log"))
    node.clear()
    return node
