"""The programs that tests run against, as far as this machine lets us have them. Standard library only."""

from __future__ import annotations

import os
import re
import shlex
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
    Peer("git", "git"),
    Peer("ruby", "ruby"),
    Peer("hiera", "hiera"),
    Peer("puppet", "puppet-agent"),
    Peer("openssl", "openssl"),
    Peer("initdb", "postgresql", "usr/lib/postgresql/*/bin"),
    Peer("chromium", "chromium"),
    Peer("chromedriver", "chromium-driver"),
    Peer("nginx", "nginx", "usr/sbin"),
    Peer("haproxy", "haproxy", "usr/sbin"),
    Peer("promtool", "prometheus"),
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

# Where Debian has Ruby's own library, that of its packages, and their gems; Perl's library and that of its packages.
RUBY = ("usr/lib/ruby/[0-9]*", "usr/lib/*/ruby/[0-9]*", "usr/lib/ruby/vendor_ruby", "usr/lib/*/ruby/vendor_ruby/[0-9]*")
GEMS = ("usr/share/rubygems-integration/*", "usr/lib/*/rubygems-integration/*", "usr/lib/ruby/gems/[0-9]*")
PERL = ("usr/share/perl5", "usr/share/perl/[0-9]*", "usr/lib/*/perl/[0-9]*", "usr/lib/*/perl5/[0-9]*")
PATHS = {"LD_LIBRARY_PATH", "RUBYLIB", "GEM_PATH", "PERL5LIB"}


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
    """Make scripts that run the programs beside an unpacked one with what was unpacked with it."""
    folder.mkdir(exist_ok=True)
    source = peer.folder(top)
    assert source is not None
    settings = "".join(_setting(name, value) for name, value in _environ(top).items())
    names = [path.name for path in source.iterdir()] if peer.folders else [peer.program]
    for name in names:
        script = folder / name
        program = shlex.quote(str(source / name))
        script.write_text(f'#!/bin/sh\n{settings}exec {_interpreter(source / name)}{program} "$@"\n')
        script.chmod(0o755)
    return folder


def _environ(top: Path) -> dict[str, str]:
    """Return the variables by which programs unpacked below ``top`` find their own libraries and settings."""
    libraries = sorted({path.parent for path in top.glob("usr/lib/**/*.so*")})
    compiled = [path.parent for path in sorted(top.glob("usr/lib/**/rbconfig.rb"))]
    values = {
        "LD_LIBRARY_PATH": _joined([path for path in libraries if path.name.endswith("-linux-gnu")]),
        "RUBYLIB": _joined([*compiled, *_found(top, RUBY)]),
        # Ending so, it adds to the places where Ruby looks by itself.
        "GEM_PATH": _joined(_found(top, GEMS)) + ":",
        "PERL5LIB": _joined(_found(top, PERL)),
        "RPM_CONFIGDIR": str(top / "usr/lib/rpm"),
    }
    if (settings := top / "etc/ssl/openssl.cnf").exists():
        values["OPENSSL_CONF"] = str(settings)
    return values


def _setting(name: str, value: str) -> str:
    """Return a line of a shell that sets a variable, unless the caller did; a path is added to the caller's."""
    if name in PATHS:
        return f'export {name}="${{{name}:+${{{name}%:}}:}}"{shlex.quote(value)}\n'
    return f'[ -n "${{{name}:-}}" ] || export {name}={shlex.quote(value)}\n'


def _interpreter(program: Path) -> str:
    """Return what a script of Ruby is run by: its own first line may name a Ruby that isn't there."""
    with program.open("rb") as file:
        first = file.readline(100)
    return "ruby " if first.startswith(b"#!") and b"ruby" in first else ""


def _found(top: Path, patterns: Sequence[str]) -> list[Path]:
    return [path for pattern in patterns for path in sorted(top.glob(pattern))]


def _joined(paths: list[Path]) -> str:
    return ":".join(map(str, paths))
