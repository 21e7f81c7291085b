"""Writes ``cpython.json`` anew: which portable CPython the plugin takes. Standard library and pip.

The addresses and sums of all builds of python-build-standalone are data in PyPI's package ``pbs-installer``.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

PIN = Path(__file__).with_name("cpython.json")
PACKAGE = "pbs-installer"
DATA = "pbs_installer/versions.json"
# The newest that the product supports: of these the one that gets security updates for longest.
MINOR = (3, 13)
FILE = re.compile(r"-x86_64-unknown-linux-gnu-install_only(_stripped)?\.tar\.gz$")


class PinError(Exception):
    """There is nothing to pin; the text says why."""


def newest(builds: Iterable[Any], minor: tuple[int, int]) -> dict[str, str]:
    """Return version, address and sum of the newest build of a Python that fits. Raises ``PinError``."""
    found: dict[int, dict[str, str]] = {}
    for build in builds:
        python = build["python_version"]
        if (python["implementation"], python["major"], python["minor"], python["freethreaded"]) != (
            "cpython",
            *minor,
            False,
        ):
            continue
        for file in build["files"]:
            if FILE.search(file["filename"]) and file["sha256"]:
                version = ".".join(map(str, (*minor, python["micro"])))
                found[python["micro"]] = {"version": version, "url": file["url"], "sha256": file["sha256"]}
    if not found:
        raise PinError(f"{PACKAGE} knows no build of Python {minor[0]}.{minor[1]} for x86_64 and glibc with a sha256")
    return found[max(found)]


def builds() -> Any:
    """Return the data of the newest ``pbs-installer``. Raises ``PinError``."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--only-binary=:all:"]
        done = subprocess.run([*command, f"--dest={folder}", PACKAGE], check=False, capture_output=True, text=True)
        if done.returncode:
            raise PinError(
                f"pip can't download {PACKAGE}: {(done.stderr.strip() or 'no reason given').splitlines()[-1]}"
            )
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as file:
            return json.loads(file.read(DATA))


def main() -> int:
    try:
        pin = newest(builds(), MINOR)
    except (PinError, OSError, KeyError, ValueError) as error:
        print(f"lock: {error}", file=sys.stderr)
        return 1
    PIN.write_text(json.dumps(pin, indent=2) + "\n", encoding="utf-8")
    print(f"{PIN.name}: CPython {pin['version']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
