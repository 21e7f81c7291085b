"""``docs/code-map.md`` and ``docs/lifecycle.md`` name what is there: every module by its right name, every package.

The list of decisions is complete, and the modules that decisions name exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ROOT / "configdb_sync"
MAP = ROOT / "docs/code-map.md"
LIFECYCLE = ROOT / "docs/lifecycle.md"
DECISIONS = ROOT / "docs/decisions"
PACKAGE_ROW = re.compile(r"^\| (?:`([\w/]+)` )?\| (.*) \|$")
# Words in the rows that are no modules.
OTHERS = {"scripts"}


def rows() -> Iterator[tuple[str, str]]:
    """Yield each row of the tables of packages: the package, and what is said of it."""
    package = ""
    for line in MAP.read_text(encoding="utf-8").splitlines():
        found = PACKAGE_ROW.match(line)
        if found is None:
            package = ""
            continue
        package = found[1] or package
        if package:
            yield package, found[2]


def packages() -> set[str]:
    """Return the packages with code: a folder of migrations counts, its versions don't."""
    folders = {path.parent.relative_to(PRODUCT).as_posix() for path in PRODUCT.rglob("*.py")}
    return {folder for folder in folders if folder != "." and not folder.endswith("versions")}


def test_every_package_is_on_the_map() -> None:
    text = MAP.read_text(encoding="utf-8")
    assert [package for package in sorted(packages()) if f"`{package}`" not in text] == []


def test_every_module_in_a_row_exists() -> None:
    gone = [
        f"{package}: {name}"
        for package, text in rows()
        for name in re.findall(r"`([a-z_]+\*?)`", text)
        if name not in OTHERS and not list((PRODUCT / package).glob(f"{name}.py"))
    ]
    assert gone == []
    assert len(list(rows())) > len(packages()) - 3


@pytest.mark.parametrize("page", [MAP, LIFECYCLE], ids=lambda path: path.name)
def test_every_path_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    files = re.findall(r"`([\w/]+\.py)`", text)
    assert [name for name in files if not (PRODUCT / name).is_file()] == []
    folders = re.findall(r"`(\w+(?:/\w+)*/)`", text)
    assert [name for name in folders if not ((PRODUCT / name).is_dir() or (ROOT / name).is_dir())] == []
    assert files


def test_every_function_named_beside_a_module_exists() -> None:
    named = re.findall(r"`([\w/]+\.py)`, `((?![\w/]+\.py`)[\w.]+)`", MAP.read_text(encoding="utf-8"))
    missing = [
        f"{module}: {name}"
        for module, name in named
        for part in name.split(".")
        if not re.search(rf"^\s*(?:def|class) {part}\b", (PRODUCT / module).read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert named
    assert missing == []


def test_every_decision_is_in_the_list_by_its_title() -> None:
    listed = set(
        re.findall(r"^- \[(.+)\]\(([\w-]+\.md)\)$", (DECISIONS / "README.md").read_text("utf-8"), re.MULTILINE)
    )
    pages = {page for page in DECISIONS.glob("*.md") if page.name != "README.md"}
    assert listed == {(page.read_text("utf-8").partition("\n")[0].removeprefix("# "), page.name) for page in pages}


@pytest.mark.parametrize("page", sorted(DECISIONS.glob("*.md")), ids=lambda path: path.stem)
def test_every_module_that_a_decision_names_exists(page: Path) -> None:
    named = re.findall(r"`(configdb_sync/[\w/]+(?:\.py)?)`", page.read_text(encoding="utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []
