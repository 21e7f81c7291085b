"""Debian packages for the scripts: installed as root, or downloaded and unpacked by anyone. Standard library only."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import policy

TRIES = 3
PAUSE_S = 3.0
TIMEOUT_S = 30
MIRROR = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
WHEELS = Path("usr/share/python-wheels")


def here() -> bool:
    """Tell whether this machine has apt at all."""
    return shutil.which("apt-get") is not None and shutil.which("dpkg-deb") is not None


def is_system_python(python: str) -> bool:
    """Tell whether ``python`` is the distribution's own, for which it has packages."""
    return here() and Path(python).resolve().parent == Path("/usr/bin").resolve()


def install(packages: Sequence[str]) -> bool:
    """Install packages as root, with fresh lists if the ones here don't do; tell whether it worked.

    No service is started.
    """
    command = ["apt-get", "install", "-q", "-y", "--no-install-recommends", *packages]
    print(f"installing Debian packages: {' '.join(packages)}", file=sys.stderr, flush=True)
    with policy.services_kept_down():
        if _apt(command):
            return True
        _update([])
        return _apt(command)


def unpack(packages: Sequence[str], cache: Path, destination: Path) -> bool:
    """Unpack packages, and those they need that aren't installed, below ``destination``; needs no root.

    ``cache`` keeps apt's lists and the downloaded files. Tells whether all were unpacked.
    """
    if not here():
        return False
    print(f"unpacking Debian packages below {destination}: {' '.join(packages)}", file=sys.stderr, flush=True)
    options = _own_folders(cache)
    for attempt in (1, 2):
        needed = _needed(packages, options)
        if needed and _download(needed, cache / "debs", options):
            break
        if attempt == 2:
            return False
        _update(options)
    destination.mkdir(parents=True, exist_ok=True)
    return all(
        subprocess.run(["dpkg-deb", "-x", path, destination], check=False).returncode == 0
        for path in sorted((cache / "debs").glob("*.deb"))
        if path.name.split("_")[0] in {name.split(":")[0] for name in needed}
    )


def codename() -> str:
    """Return the name of this machine's release, empty if it says none."""
    try:
        text = Path("/etc/os-release").read_text(encoding="utf-8")
    except OSError:
        return ""
    found = re.search(r'^VERSION_CODENAME="?(\w+)"?$', text, flags=re.MULTILINE)
    return found[1] if found else ""


def mirror(sources: str) -> str:
    """Return the address of Debian's archive that APT's sources name, its usual one if they name none."""
    found = re.findall(r"^(?:URIs:|deb (?:\[[^]]*\] )?) *(\S+/debian/?)(?:\s|$)", sources, flags=re.MULTILINE)
    return found[0] if found else MIRROR


def unpack_from(release: str, packages: Sequence[str], cache: Path, destination: Path) -> bool:
    """Unpack just these packages of another release below ``destination``; tell whether all were."""
    print(f"unpacking packages of {release} below {destination}: {' '.join(packages)}", file=sys.stderr, flush=True)
    lists = [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]
    own = cache / release
    own.mkdir(parents=True, exist_ok=True)
    sources = own / "sources.list"
    address = mirror("\n".join(path.read_text(errors="replace") for path in lists if path.is_file()))
    sources.write_text(f"deb [signed-by={KEYRING}] {address} {release} main\n")
    options = [
        *_own_folders(own),
        *("-o", f"Dir::Etc::SourceList={sources}"),
        *("-o", "Dir::Etc::SourceParts=/dev/null"),
        *("-o", f"APT::Default-Release={release}"),
    ]
    _update(options)
    if not _download(packages, own / "debs", options):
        return False
    destination.mkdir(parents=True, exist_ok=True)
    return all(
        subprocess.run(["dpkg-deb", "-x", path, destination], check=False).returncode == 0
        for path in sorted((own / "debs").glob("*.deb"))
    )


def pip_wheel(cache: Path) -> Path | None:
    """Return the wheel of pip that Debian ships for its own ``ensurepip``, fetched if it isn't here."""
    unpacked = cache / "pip"
    for attempt in (1, 2):
        found = [wheel for top in (Path("/"), unpacked) for wheel in sorted((top / WHEELS).glob("pip-*.whl"))]
        if found:
            return found[-1]
        if attempt == 1 and not unpack(["python3-pip-whl"], cache, unpacked):
            return None
    return None


def _own_folders(cache: Path) -> list[str]:
    # Lists that can be made without root; the machine's own status file still says what is installed.
    for folder in ("lists/partial", "archives/partial"):
        (cache / "apt" / folder).mkdir(parents=True, exist_ok=True)
    return [
        *("-o", f"Dir::State::Lists={cache}/apt/lists"),
        *("-o", f"Dir::Cache={cache}/apt"),
        *("-o", "Debug::NoLocking=1"),
        *("-o", "APT::Sandbox::User="),
    ]


def _needed(packages: Sequence[str], options: Sequence[str]) -> list[str]:
    """Return the packages that an installation would bring, by apt's own resolver."""
    command = ["apt-get", "-s", "-q", "--no-install-recommends", *options, "install", *packages]
    done = subprocess.run(command, env=_environ(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return []
    return re.findall(r"^Inst (\S+) ", done.stdout, flags=re.MULTILINE) or list(packages)


def _download(packages: Sequence[str], folder: Path, options: Sequence[str]) -> bool:
    folder.mkdir(parents=True, exist_ok=True)
    return _apt(["apt-get", "-q", *options, "download", *packages], folder)


def _update(options: Sequence[str]) -> None:
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE_S)
        # Without the mode apt calls it a success when an index could not be fetched.
        if _apt(["apt-get", "-q", "-o", "APT::Update::Error-Mode=any", *options, "update"]):
            return


def _apt(command: Sequence[str], folder: Path | None = None) -> bool:
    if not here():
        return False
    done = subprocess.run(
        [*command, "-o", f"Acquire::http::Timeout={TIMEOUT_S}", "-o", f"Acquire::https::Timeout={TIMEOUT_S}"],
        cwd=folder,
        env=_environ(),
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    if done.returncode != 0:
        print("\n".join(done.stderr.strip().splitlines()[-3:]), file=sys.stderr, flush=True)
    return done.returncode == 0


def _environ() -> dict[str, str]:
    return os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
