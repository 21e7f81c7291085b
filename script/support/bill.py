"""Lists what is bundled in the plugin, with versions and licences (CycloneDX), and lays the licences' texts beside it.

Standard library, and ``cyclonedx-python-lib``, which is fetched for the build alone (``bill.txt``).
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

import elf_versions

PINS = Path(__file__).with_name("bill.txt")
# Libraries in native code: under which names they come, and what tells their version.
NATIVES: list[dict[str, Any]] = json.loads(Path(__file__).with_name("natives.json").read_text(encoding="utf-8"))
NATIVE_TEXTS = Path(__file__).with_name("licences")
BILL = "bom.cdx.json"
TEXTS = "licences"
# Without these the product doesn't run.
MODULES = ("ssl", "sqlite3", "zlib")
_TEXT = re.compile(r"licen[sc]e|copying|notice", re.IGNORECASE)
_ASK = """
import importlib, json, platform, sys
def ask(name, attribute):
    try:
        found = getattr(importlib.import_module(name), attribute or "__name__")
    except Exception:
        return None
    return ".".join(map(str, found)) if isinstance(found, tuple) else str(found)
wanted = json.loads(sys.argv[1])
print(json.dumps({"version": platform.python_version(), "modules": {name: ask(name, at) for name, at in wanted}}))
"""


class BillError(Exception):
    """Something is bundled whose licence isn't known, or the bundled Python doesn't do; the text names it."""


@dataclass(frozen=True)
class Bundled:
    """One thing in the plugin. ``kind``: the first part of its package URL."""

    name: str
    version: str | None
    licence: str
    texts: tuple[Path, ...]
    kind: str = "generic"

    @property
    def folder(self) -> str:
        """The name of the folder with its texts."""
        return "-".join(part for part in (self.name.replace(" ", "-"), self.version) if part)


@dataclass(frozen=True)
class Runtime:
    """What a bundled Python says of itself: its version, and of modules that it has an attribute's value."""

    version: str
    modules: Mapping[str, str]


def write(top: Path, library: Path) -> None:
    """Make the bill and the folder of texts below ``top``; ``library`` has ``cyclonedx-python-lib``.

    Raises ``BillError``.
    """
    found = {(one.name, one.version): one for one in bundled(top)}
    texts = top / TEXTS
    texts.mkdir()
    for one in found.values():
        if not one.texts:
            raise BillError(f"{one.name} {one.version or ''}: there is no text of its licence, {one.licence}")
        (texts / one.folder).mkdir()
        for text in one.texts:
            shutil.copyfile(text, texts / one.folder / text.name)
    version = re.search(r"^version: '(.+)'$", (top / "metadata.yaml").read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert version
    product = Bundled("configdb-sync", version[1], "Apache-2.0", ())
    (top / BILL).write_text(_cyclonedx(product, found.values(), library), encoding="utf-8")


def bundled(top: Path) -> Iterator[Bundled]:
    """Yield what is bundled in ``vendor/`` and ``runtime/``. Raises ``BillError``."""
    for info in sorted((top / "vendor").glob("*/*.dist-info")):
        yield from of_wheel(info)
    if (top / "runtime").is_dir():
        yield from of_runtime(top / "runtime", ask(top / "runtime/bin/python3"))


def of_wheel(info: Path) -> Iterator[Bundled]:
    """Yield a package, by the folder of its metadata, and the libraries in its native code."""
    metadata = PathDistribution(info).metadata
    classified = [one.rpartition(" :: ")[2] for one in metadata.get_all("Classifier", []) if "License ::" in one]
    said = [*metadata.get_all("License-Expression", []), *metadata.get_all("License", []), *classified]
    licences = [text for text in said if text and "\n" not in text]
    if not licences:
        raise BillError(f"{metadata['Name']} doesn't say under which licence it is")
    texts = tuple(path for path in sorted(info.rglob("*")) if path.is_file() and _TEXT.search(path.name))
    name = re.sub(r"[-_.]+", "-", metadata["Name"]).lower()
    yield Bundled(name, metadata["Version"], licences[0], texts, "pypi")
    packages = dict(_packages(info / "sboms"))
    yield from of_libraries(info.parent.glob(f"{info.name.partition('-')[0]}.libs/*.so*"), packages)
    for one in NATIVES:
        if name in one.get("wheels", ()):
            yield _native(one, packages.get(one.get("package", "")))


def _packages(folder: Path) -> Iterator[tuple[str, str]]:
    """Yield names and versions in the bills that a wheel brings along (PEP 770)."""
    for path in sorted(folder.glob("*.json")):
        for one in json.loads(path.read_text(encoding="utf-8")).get("components", []):
            if "version" in one:
                yield one["name"], one["version"]


def of_libraries(paths: Iterable[Path], packages: Mapping[str, str]) -> Iterator[Bundled]:
    """Yield what bundled libraries are, such as ``libpq-e9b5c9ac.so.5.18``.

    ``packages``: versions of the packages that they were taken from, as far as they are known. Raises ``BillError`` for
    an unknown one.
    """
    found: dict[str, list[Path]] = {}
    for path in sorted(paths):
        name = re.sub(r"-[0-9a-f]{8}$", "", path.name.partition(".so")[0])
        entry = next((one["name"] for one in NATIVES if name in one["libraries"]), None)
        if entry is None:
            raise BillError(f"{path.name} is bundled, and natives.json doesn't say what it is and under which licence")
        found.setdefault(entry, []).append(path)
    for one in NATIVES:
        if files := found.get(one["name"]):
            stamps = [re.search(one["stamp"].encode(), path.read_bytes()) for path in files if "stamp" in one]
            stamped = next((stamp[1].decode() for stamp in stamps if stamp), None)
            number = files[0].name.partition(".so")[2].strip(".")
            yield _native(one, packages.get(one.get("package", "")) or stamped or number or None)


def of_runtime(runtime: Path, said: Runtime) -> Iterator[Bundled]:
    """Yield a portable CPython and what is in it: libraries in files of their own, and those in its native code.

    A module whose library is the system's brings none along.
    """
    own = sorted((runtime / "lib").glob("lib*.so*"))
    texts = (*runtime.glob("lib/python3.*/LICENSE.txt"), NATIVE_TEXTS / "cpython.txt")
    yield Bundled("CPython", said.version, "Python-2.0.1", texts)
    files = [path for path in own if not path.is_symlink() and not path.name.startswith("libpython")]
    yield from of_libraries(files, {})
    outside = {
        name for path in runtime.rglob("*") if path.is_file() and not path.is_symlink() for name in _linked(path)
    }
    for one in NATIVES:
        if one.get("module") in said.modules and not any(
            name.startswith(tuple(f"{library}.so" for library in one["libraries"])) for name in outside
        ):
            version = re.search(r"\d+(\.\d+)+", said.modules[one["module"]])
            yield _native(one, version[0] if version else None)


def _linked(path: Path) -> tuple[str, ...]:
    content = path.read_bytes()
    return elf_versions.libraries(content) if elf_versions.is_elf(content) else ()


def _native(one: Mapping[str, Any], version: str | None) -> Bundled:
    return Bundled(one["name"], version, one["licence"], tuple(NATIVE_TEXTS / name for name in one["texts"]))


def ask(python: Path) -> Runtime:
    """Run a bundled Python and return what it says of itself. Raises ``BillError`` if it can't run the product."""
    wanted = [(one["module"], one.get("attribute")) for one in NATIVES if "module" in one]
    command = [str(python), "-I", "-B", "-c", _ASK, json.dumps(wanted)]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as error:
        raise BillError(f"the plugin's Python doesn't run here: {error.strerror}") from None
    if done.returncode:
        said = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise BillError(f"the plugin's Python doesn't run here: {said}")
    content = json.loads(done.stdout)
    found = Runtime(content["version"], {name: at for name, at in content["modules"].items() if at is not None})
    lacking = [name for name in MODULES if name not in found.modules]
    if lacking:
        raise BillError(f"the plugin's Python lacks what the product needs: {', '.join(lacking)}")
    return found


def _cyclonedx(product: Bundled, found: Iterable[Bundled], library: Path) -> str:
    if str(library) not in sys.path:
        sys.path.append(str(library))
    from cyclonedx.contrib.license.factories import LicenseFactory
    from cyclonedx.model.bom import Bom
    from cyclonedx.model.component import Component, ComponentType
    from cyclonedx.output import make_outputter
    from cyclonedx.schema import OutputFormat, SchemaVersion
    from packageurl import PackageURL

    def component(one: Bundled, kind: ComponentType = ComponentType.LIBRARY) -> Component:
        url = PackageURL(one.kind, None, one.name, one.version)
        return Component(
            name=one.name,
            version=one.version,
            type=kind,
            bom_ref=str(url),
            purl=url,
            licenses=[LicenseFactory().make_from_string(one.licence)],
        )

    bom = Bom(components=map(component, found))
    bom.metadata.component = top = component(product, ComponentType.APPLICATION)
    bom.register_dependency(top, bom.components)
    return str(make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2))
