"""Finds in the project's files what must not be committed.

That is one machine's paths, conflict marks, big or binary files, and citations that no reader of the project can open;
in the package also a class whose name another module has, and a module too long to take in.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIGGEST = 400_000
PACKAGE = "configdb_sync/"
LONGEST = 450
"""Lines of a module of the package."""
CLASS = re.compile(r"^class (\w+)", flags=re.MULTILINE)
# Written so that this file doesn't find itself.
MACHINE_PATH = re.compile(r"(?<![\w./~>)}*-])/(?:wor[k]|hom[e]/[a-z][\w-]*|User[s]/\w+|roo[t])/[\w.-]+")
CONFLICT = re.compile(r"^(?:<{7}|>{7}) ", flags=re.MULTILINE)
PAGE = re.compile(r"(?<![\w./:*{}<>-])(?:[\w-]+/|\.\./)*[\w-]+\.md\b")
"""A page that a text names; parts of URLs and patterns aren't."""
PAGE_FOLDERS = ("", "docs", "docs/decisions")
ELSEWHERE = re.compile(r"\b[Ii]ssue[s]? (?:\d|\"[\w ])|\bfact[s] \d|\(fact[s](?::|/| of )|\bfact[s]/\w|``fact[s]``")
"""Citations of notes and trackers that aren't in the repository."""


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
    for found in (*PAGE.finditer(text), *ELSEWHERE.finditer(text)):
        if not page_exists(name, found[0]):
            line = text.count("\n", 0, found.start()) + 1
            yield f"{name}:{line}: cites {found[0]}, which isn't in the project"


def crowded(modules: dict[str, str]) -> Iterator[str]:
    """Yield what is wrong with modules (texts by name): one that is too long, a class name that is taken."""
    owners: dict[str, str] = {}
    for name, text in sorted(modules.items()):
        if text.count("\n") > LONGEST:
            yield f"{name}: longer than {LONGEST} lines"
        for found in CLASS.finditer(text):
            owner = owners.setdefault(found[1], name)
            if owner != name:
                yield f"{name}: class {found[1]} stands in {owner}, too; one of them needs a more exact name"


def page_exists(name: str, page: str) -> bool:
    """Tell whether the file ``name`` can cite ``page``: from the top, from its own folder, or as a page of ``docs``."""
    folders = (*PAGE_FOLDERS, str(Path(name).parent))
    return page.endswith(".md") and any((ROOT / folder / page).is_file() for folder in folders)


def names() -> list[str]:
    """Return the project's files: those that git knows or would take; without git all but what is made here."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    except (OSError, subprocess.CalledProcessError):
        paths = (path.relative_to(ROOT) for path in ROOT.rglob("*"))
        return sorted(str(path) for path in paths if (ROOT / path).is_file() and not any(map(made, path.parts)))
    return [name for name in listed if name and (ROOT / name).is_file()]


def made(part: str) -> bool:
    """Tell whether a folder of this name holds what tools make."""
    return part in {".git", ".venv", ".cache", "build", "dist", "__pycache__"} or part.endswith(("_cache", ".egg-info"))


def main() -> int:
    checked = names()
    found = [fault for name in checked for fault in faults(name, (ROOT / name).read_bytes())]
    modules = [name for name in checked if name.startswith(PACKAGE) and name.endswith(".py")]
    found += crowded({name: (ROOT / name).read_text(encoding="utf-8") for name in modules})
    print("\n".join(found) if found else f"{len(checked)} files checked")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
