"""Lays a portable Python (``runtime/``) and the libraries (``vendor/``) into the plugin. Standard library and pip.

A Fuel Master has Python 2.7 and may have no internet: what the task needs is in the plugin. The Python is the one that
``cpython.json`` pins; ``CONFIGDB_SYNC_RUNTIME`` names the archive of another, ``none`` means that the master has its
own. The libraries are those of ``requirements.txt``, checked against its hashes, built for CentOS 7 (manylinux2014),
for several Pythons. ``bom.cdx.json`` lists all of it, ``licences/`` has the texts.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import bill
import elf_versions
import pip_folder

ROOT = Path(__file__).resolve().parents[2]
PIN = Path(__file__).with_name("cpython.json")
PYTHONS = "3.11 3.12 3.13"
PLATFORMS = ("manylinux2014_x86_64", "manylinux_2_17_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64")
# Of a portable CPython, what a service never needs.
LEFT_OUT = re.compile(
    r"/__pycache__(/|$)|^(include|share)(/|$)|\.a$|^bin/(?!python3(\.\d+)?$)|"
    r"^lib/python3\.\d+/(test|tests|idlelib|turtledemo|turtle\.py|tkinter|ensurepip|lib2to3|pydoc_data|site-packages|"
    r"config-3[^/]*)(/|$)|"
    # Modules of Tcl, of C's own tests, and of databases under licences that ask for more than a notice.
    r"^lib/python3\.\d+/lib-dynload/(_tkinter|_dbm|_gdbm|_(ctypes_)?test\w*|_?xx\w+)\."
)
BIGGEST = 45_000_000
"""Of a runtime, as it lies on the master."""
# A build tool that nothing uses while the product runs, though pbr names it.
NOT_TAKEN = frozenset({"setuptools"})


class BuildError(Exception):
    """The plugin can't be made complete; the text says what to do."""


@dataclass(frozen=True)
class Pin:
    """The portable CPython that a build takes unless it is told another."""

    version: str
    url: str
    sha256: str

    @property
    def file(self) -> str:
        """The archive's name."""
        return urllib.parse.unquote(self.url.rpartition("/")[2])


def pinned(path: Path = PIN) -> Pin:
    """Return the pin of a file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return Pin(content["version"], content["url"], content["sha256"])


def source(environ: Mapping[str, str], pin: Pin) -> str:
    """Say which Python a build takes."""
    named = environ.get("CONFIGDB_SYNC_RUNTIME", "")
    if named == "none":
        return "no Python in the plugin: the master must have one (CONFIGDB_SYNC_RUNTIME=none)"
    return f"Python: {named} (CONFIGDB_SYNC_RUNTIME)" if named else f"Python: {pin.file}, the pinned one"


def lay(top: Path, environ: Mapping[str, str], cache: Path, pin: Pin) -> None:
    """Make ``runtime/``, ``vendor/``, ``licences/`` and the bill of materials below ``top`` anew.

    Raises ``BuildError``.
    """
    archive = obtain(environ, cache, pin)
    glibc = _glibc(environ)
    for name in ("runtime", "vendor", bill.TEXTS):
        shutil.rmtree(top / name, ignore_errors=True)
    pythons = environ.get("CONFIGDB_SYNC_PYTHONS", PYTHONS).split()
    if archive is not None:
        version = unpack(archive, top / "runtime")
        if version not in pythons:
            pythons = [version] if "CONFIGDB_SYNC_PYTHONS" in environ else [*pythons, version]
        check(top / "runtime", {"GLIBC": glibc})
    for version in pythons:
        libraries(top, version, cache)
    check(top / "vendor", elf_versions.LIMITS)
    try:
        bill.write(top, pip_folder.obtain(bill.PINS, cache / "bill"))
    except (bill.BillError, pip_folder.PipError) as error:
        raise BuildError(str(error)) from None


def clean(top: Path) -> None:
    """Remove compiled code below ``top``, hidden folders aside: the builder takes along all that isn't hidden."""
    for folder in top.iterdir():
        if folder.is_dir() and not folder.is_symlink() and not folder.name.startswith("."):
            for path in [folder, *folder.rglob("__pycache__")]:
                if path.name == "__pycache__":
                    shutil.rmtree(path)


def obtain(environ: Mapping[str, str], cache: Path, pin: Pin) -> Path | None:
    """Return the archive that the environment names or the pinned one, fetched if it is an address; None for ``none``.

    Raises ``BuildError``.
    """
    named = environ.get("CONFIGDB_SYNC_RUNTIME", "")
    wanted = environ.get("CONFIGDB_SYNC_RUNTIME_SHA256", "").lower()
    if not named:
        try:
            return _fetched(pin.url, pin.sha256, cache)
        except BuildError as error:
            raise BuildError(
                f"the pinned Python can't be had: {error}. Fetch the file elsewhere and set"
                f" CONFIGDB_SYNC_RUNTIME=/path/to/{pin.file}, or set CONFIGDB_SYNC_RUNTIME=none: the master must have a"
                " Python 3.11, 3.12 or 3.13 then"
            ) from None
    if named == "none":
        return None
    if named.startswith(("https://", "http://")):
        if not re.fullmatch(r"[0-9a-f]{64}", wanted):
            raise BuildError("an address needs CONFIGDB_SYNC_RUNTIME_SHA256, the sha256 that the file must have")
        return _fetched(named, wanted, cache)
    path = Path(named).absolute()
    if not path.is_file():
        raise BuildError(f"CONFIGDB_SYNC_RUNTIME: there is no file {path}")
    # The pinned file, fetched by other means, is known by its name.
    wanted = wanted or (pin.sha256 if path.name == pin.file else "")
    if wanted and _sha256(path) != wanted:
        raise BuildError(f"{path} doesn't have the sha256 that it must have, {wanted}")
    return path


def unpack(archive: Path, runtime: Path) -> str:
    """Unpack a portable CPython into ``runtime``, without its top folder and what isn't needed; return ``3.x``."""
    new = runtime.with_name(f"{runtime.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    try:
        with tarfile.open(archive) as tar:
            _lay_out(tar, new)
    except (tarfile.TarError, OSError, EOFError, KeyError) as error:
        raise BuildError(f"{archive.name} can't be unpacked: {error}; is it an install_only .tar.gz?") from None
    found = [re.fullmatch(r"python(3\.\d+)", path.name) for path in sorted((new / "lib").glob("python3.*"))]
    versions = [match[1] for match in found if match]
    if len(versions) != 1 or not os.access(new / "bin/python3", os.X_OK):
        raise BuildError(f"{archive.name} holds no bin/python3 with one lib/python3.x below its top folder")
    _thin(new)
    (new / f"lib/python{versions[0]}/site-packages").mkdir(exist_ok=True)
    new.rename(runtime)
    return versions[0]


def _lay_out(tar: tarfile.TarFile, top: Path) -> None:
    """Write the wanted members below ``top``, without their top folder. Raises ``tarfile.ReadError`` for one that would
    lie outside, or is no file, folder or link.

    By hand, for the Python of Debian 12 lacks tarfile's filters, which came with 3.11.4.
    """
    links: list[tuple[Path, str]] = []
    for member in tar:
        inner = member.name.removeprefix("./").partition("/")[2]
        if not inner or LEFT_OUT.search(inner):
            continue
        path = top / inner
        leads_to = PurePosixPath(inner).parent / member.linkname if member.issym() else PurePosixPath(inner)
        if leads_to.is_absolute() or os.path.normpath(leads_to).split("/")[0] == "..":
            raise tarfile.ReadError(f"{member.name} lies or leads outside")
        if member.isdir():
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        content = tar.extractfile(member) if member.isreg() or member.islnk() else None
        if member.issym():
            links.append((path, member.linkname))  # made at last: nothing is written through them
        elif content is None:
            raise tarfile.ReadError(f"{member.name} is no file, folder or link")
        else:
            path.write_bytes(content.read())
            path.chmod(0o755 if member.mode & 0o100 else 0o644)
            os.utime(path, (member.mtime, member.mtime))
    for path, target in links:
        path.symlink_to(target)


def _thin(runtime: Path) -> None:
    """Leave in ``lib`` the modules, and the libraries that a program or a module is linked with."""
    library = runtime / "lib"
    wanted: set[str] = set()
    new = {name for path in files(runtime) if path.parent != library for name in linked(path)}
    while new:
        wanted |= new
        named = [library / name for name in new if (library / name).is_file()]
        new = {name for path in named for name in (path.resolve().name, *linked(path))} - wanted
    for path in library.iterdir():
        if path.is_dir() and not path.is_symlink():
            if not re.fullmatch(r"python3\.\d+", path.name):
                shutil.rmtree(path)
        elif path.name not in wanted:
            path.unlink()


def files(folder: Path) -> Iterator[Path]:
    """Yield the files below a folder, no links."""
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink())


def linked(path: Path) -> tuple[str, ...]:
    """Return the names of the libraries that a file is linked with; none if it isn't native. Raises ``BuildError``."""
    content = path.read_bytes()
    try:
        return elf_versions.libraries(content) if elf_versions.is_elf(content) else ()
    except elf_versions.NotReadableError as error:
        raise BuildError(f"{path.name}: {error}") from None


def libraries(top: Path, version: str, cache: Path) -> None:
    """Unpack the wheels of ``requirements.txt`` for Python ``version``; what is the same for all goes to ``common``."""
    tag = f"cp{version.replace('.', '')}"
    folder = cache / "plugin" / tag
    whole = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    # What some Pythons need alone, such as a module that newer ones have no more, the others must not see.
    conditional = {name.replace("-", "_") for name in re.findall(r"^([\w.-]+)==\S+ *;", whole, flags=re.MULTILINE)}
    lock = locked_for(whole, version)
    kept = folder / "requirements.txt"
    if not kept.exists() or kept.read_text(encoding="utf-8") != lock:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        new = kept.with_name("wanted.txt")
        new.write_text(lock, encoding="utf-8")
        _download(new, version, tag, folder)
        new.rename(kept)
    (top / "vendor" / tag).mkdir(parents=True)
    for wheel in sorted(folder.glob("*.whl")):
        name = wheel.name.split("-")[0]
        common = wheel.name.endswith("-none-any.whl") and name not in conditional
        if name in NOT_TAKEN:
            continue
        target = top / "vendor" / ("common" if common else tag)
        if common and list(target.glob(f"{name}-*.dist-info")):
            continue
        _unpack_wheel(wheel, target)


def check(folder: Path, limits: Mapping[str, tuple[int, ...]]) -> None:
    """Raise ``BuildError`` if a native file below ``folder`` wants more of the system than ``limits``."""
    for path in files(folder):
        content = path.read_bytes()
        if not elf_versions.is_elf(content):
            continue
        try:
            found = elf_versions.too_new(elf_versions.wanted(content), dict(limits))
        except elf_versions.NotReadableError as error:
            raise BuildError(f"{path.relative_to(folder.parent)}: {error}") from None
        if found:
            raise BuildError(
                f"{path.relative_to(folder.parent)} wants {found[0].name} of {found[0].library}, which CentOS 7 doesn't"
                " have; take a build for x86_64 and glibc 2.17, or say which glibc the master has:"
                " CONFIGDB_SYNC_RUNTIME_GLIBC=2.36"
            )


def _glibc(environ: Mapping[str, str]) -> tuple[int, ...]:
    text = environ.get("CONFIGDB_SYNC_RUNTIME_GLIBC", "")
    if not text:
        return elf_versions.LIMITS["GLIBC"]
    if not re.fullmatch(r"\d+\.\d+", text):
        raise BuildError(f"CONFIGDB_SYNC_RUNTIME_GLIBC is {text!r}; it looks like 2.17")
    return tuple(map(int, text.split(".")))


def _fetched(address: str, wanted: str, cache: Path) -> Path:
    kept = cache / "plugin" / f"{wanted}.tar.gz"
    if kept.is_file() and _sha256(kept) == wanted:
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    new = kept.with_name(f"{kept.name}.new")
    try:
        with urllib.request.urlopen(address, timeout=60) as answer, new.open("wb") as file:
            shutil.copyfileobj(answer, file)
    except OSError as error:
        raise BuildError(f"{address} can't be fetched: {error}") from None
    if _sha256(new) != wanted:
        new.unlink()
        raise BuildError(f"what {address} gives doesn't have the sha256 that it must have, {wanted}")
    new.rename(kept)
    return kept


def locked_for(lock: str, version: str) -> str:
    """Return the lines of a lock file that hold for Python ``version``, without their conditions.

    pip would go by the Python that it runs in, whatever ``--python-version`` says.
    """
    from pip._vendor.packaging.markers import Marker

    # A requirement and the lines with its hashes, which end in a backslash but for the last.
    entries = re.split(r"(?<!\\)\n", lock)
    found = []
    for entry in entries:
        condition = re.match(r"([^#;\\\n]+?) *; *([^\\\n]+?)(?= *\\?(?:\n|$))", entry)
        if condition is None:
            found.append(entry)
        elif Marker(condition[2]).evaluate({"python_version": version, "python_full_version": f"{version}.99"}):
            found.append(condition[1] + entry[condition.end() :])
    return "\n".join(found)


def _download(lock: Path, version: str, tag: str, folder: Path) -> None:
    command = [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--require-hashes", "--only-binary=:all:"]
    command += ["--implementation=cp", f"--python-version={version}", f"--dest={folder}", f"--requirement={lock}"]
    command += [f"--abi={abi}" for abi in (tag, "abi3", "none")]
    command += [f"--platform={platform}" for platform in PLATFORMS]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr.strip() or "no reason given").splitlines()[-1]
        raise BuildError(f"pip can't download the libraries for Python {version}: {said}")


def _unpack_wheel(wheel: Path, target: Path) -> None:
    with zipfile.ZipFile(wheel) as file:
        for member in file.infolist():
            folder, _, inner = member.filename.partition("/")
            if folder.endswith(".data"):
                # Commands and headers; libraries in there would need more than this.
                if inner.split("/")[0] in {"purelib", "platlib"}:
                    raise BuildError(f"{wheel.name} has libraries in {folder}")
                continue
            if "/tests/" not in member.filename:
                file.extract(member, target)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sizes(top: Path, names: Iterable[str]) -> str:
    """Say how big what was laid is."""
    found = ((name, [path.lstat().st_size for path in (top / name).rglob("*")]) for name in names)
    return ", ".join(f"{name}: {len(each)} files, {sum(each) / 1e6:.0f} MB" for name, each in found if each)


def main() -> int:
    cache = Path(os.environ.get("CONFIGDB_SYNC_CACHE", ROOT / ".cache"))
    try:
        pin = pinned()
        print(source(os.environ, pin))
        lay(ROOT, os.environ, cache, pin)
        clean(ROOT)
    except (BuildError, OSError) as error:
        print(f"pre_build_hook: {error}", file=sys.stderr)
        return 1
    print(sizes(ROOT, ("runtime", "vendor")))
    return 0


if __name__ == "__main__":
    sys.exit(main())
