"""The programs that tests run against, as far as this machine lets us have them. Standard library only."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import debian


@dataclass(frozen=True)
class Peer:
    """A program, the Debian package that has it, and where it lies if not on PATH (newest version last)."""

    program: str
    package: str
    folders: str | None = None

    def folder(self, top: Path) -> Path | None:
        """Return the folder below ``top`` (a file system's root) that holds the program, None if it isn't there."""
        found = [path.parent for path in top.glob(f"{self.folders or 'usr/bin'}/{self.program}")]
        return max(found, key=_version, default=None)


PEERS = (
    Peer("ruby", "ruby"),
    Peer("hiera", "hiera"),
    Peer("puppet", "puppet-agent"),
    Peer("openssl", "openssl"),
    Peer("initdb", "postgresql", "usr/lib/postgresql/*/bin"),
    Peer("chromium", "chromium"),
    Peer("chromedriver", "chromium-driver"),
    Peer("nginx", "nginx", "usr/sbin"),
    Peer("haproxy", "haproxy", "usr/sbin"),
)
PACKAGING = (
    Peer("rpm", "rpm"),
    Peer("rpmbuild", "rpm"),
    Peer("createrepo_c", "createrepo-c"),
    Peer("dpkg-scanpackages", "dpkg-dev"),
)
"""What the Fuel plugin is built with."""
MASTER = (
    Peer("systemd-analyze", "systemd"),
    Peer("logrotate", "logrotate", "usr/sbin"),
)
"""What the services' files on a master are tried with; unpacked without root they don't find their own parts."""


def obtain(cache: Path, peers: Sequence[Peer] = PEERS) -> list[Path]:
    """Return the folders to put on PATH, after installing or unpacking what is missing.

    What can't be had is left out and said so; the tests that need it are skipped with their own reason.
    """
    missing = [peer for peer in peers if not _here(peer)]
    unpacked = cache / "peers"
    if missing and os.geteuid() == 0:
        debian.install(_packages(missing))
    elif any(peer.folder(unpacked) is None for peer in missing):
        debian.unpack(_packages(missing), cache, unpacked)
    folders = []
    for peer in peers:
        if shutil.which(peer.program):
            continue
        if own := peer.folder(Path("/")):
            folders.append(own)
        elif peer.folder(unpacked):
            folders.append(_wrapper(peer, unpacked, cache / "bin"))
        else:
            print(
                f"{peer.program} can't be had here; tests that need it are skipped",
                file=sys.stderr,
                flush=True,
            )
    return list(dict.fromkeys(folders))


def _packages(peers: Sequence[Peer]) -> list[str]:
    return list(dict.fromkeys(peer.package for peer in peers))


def _here(peer: Peer) -> bool:
    return shutil.which(peer.program) is not None or peer.folder(Path("/")) is not None


def _version(folder: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(folder))]


def _wrapper(peer: Peer, top: Path, folder: Path) -> Path:
    """Make scripts that run the programs beside an unpacked one with the libraries unpacked with it."""
    folder.mkdir(exist_ok=True)
    source = peer.folder(top)
    assert source is not None
    libraries = sorted({path.parent for path in top.glob("usr/lib/**/*.so*")} if top.is_dir() else ())
    shared = [path for path in libraries if path.name.endswith("-linux-gnu")]
    ruby = sorted(path.parent for path in top.glob("usr/lib/**/rbconfig.rb")) + sorted(top.glob("usr/lib/ruby/[0-9]*"))
    rubylib = [
        *ruby,
        *sorted(top.glob("usr/lib/*/ruby/[0-9]*")),
        *sorted(top.glob("usr/lib/ruby/vendor_ruby")),
    ]
    names = [path.name for path in source.iterdir()] if peer.folders else [peer.program]
    for name in names:
        script = folder / name
        script.write_text(
            "#!/bin/sh\n"
            f"export LD_LIBRARY_PATH='{_joined(shared)}'\n"
            f"export RUBYLIB='{_joined(rubylib)}'\n"
            f"export PERL5LIB='{top}/usr/share/perl5' RPM_CONFIGDIR='{top}/usr/lib/rpm'\n"
            f"exec {_interpreter(source / name)}'{source / name}' \"$@\"\n"
        )
        script.chmod(0o755)
    return folder


def _interpreter(program: Path) -> str:
    """Return what a script of Ruby is run by: its own first line may name a Ruby that isn't there."""
    with program.open("rb") as file:
        first = file.readline(100)
    return "ruby " if first.startswith(b"#!") and b"ruby" in first else ""


def _joined(paths: list[Path]) -> str:
    return ":".join(map(str, paths))
