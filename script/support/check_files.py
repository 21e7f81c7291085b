"""Finds in the project's files what must not be committed: one machine's paths, conflict marks, big or binary files."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIGGEST = 400_000
# Written so that this file doesn't find itself.
MACHINE_PATH = re.compile(r"(?<![\w./~>)}*-])/(?:wor[k]|hom[e]/[a-z][\w-]*|User[s]/\w+|roo[t])/[\w.-]+")
CONFLICT = re.compile(r"^(?:<{7}|>{7}) ", flags=re.MULTILINE)


def faults(name: str, content: bytes) -> Iterator[str]:
    """Yield what is wrong with one file, each as ``name:line: text``."""
    if len(content) > BIGGEST:
        yield f"{name}: bigger than {BIGGEST} bytes"
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        yield f"{name}: neither ASCII nor UTF-8"
        return
    for found in (*MACHINE_PATH.finditer(text), *CONFLICT.finditer(text)):
        line = text.count("\n", 0, found.start()) + 1
        yield f"{name}:{line}: {found[0].strip()} belongs to one machine or one merge"


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listed.returncode != 0:
        print("not a git repository: the files were not checked", file=sys.stderr)
        return 0
    names = [name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file()]
    found = [fault for name in names for fault in faults(name, (ROOT / name).read_bytes())]
    print("\n".join(found) if found else f"{len(names)} files checked")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
