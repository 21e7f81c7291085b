"""Builds the Fuel plugin's RPM from a copy of what belongs in it, with the real fuel-plugin-builder, and checks it."""

from __future__ import annotations

import argparse
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import man_page
import peers
import plugin_runtime
import run_tests

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = ("rpm", "rpmbuild", "createrepo_c", "dpkg-scanpackages")
FOLDERS = ("configdb_sync", "deployment_scripts", "services", "repositories", "docs")
FILES = (
    *("metadata.yaml", "environment_config.yaml", "deployment_tasks.yaml"),
    *("pre_build_hook", "pre_install.sh", "post_install.sh", "uninstall.sh"),
    *("requirements.txt", "LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"),
)
# What the hook is made of; the pin is laid beside it.
SUPPORT = Path("script/support")
SUPPORT_FILES = (
    *("plugin_runtime.py", "elf_versions.py", "pip_folder.py"),
    *("bill.py", "bill.txt", "natives.json", "licences"),
)
IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc", "*.egg-info")
# Those that rpm 4.11 knows, of CentOS 7.
RPM_FEATURES = {
    "rpmlib(CompressedFileNames)",
    "rpmlib(FileDigests)",
    "rpmlib(PayloadFilesHavePrefix)",
    "rpmlib(PartialHardlinkSets)",
    "rpmlib(PayloadIsXz)",
}
NEEDED = (
    *("metadata.yaml", "environment_config.yaml", "deployment_tasks.yaml", "repositories/ubuntu/Packages.gz"),
    *("deployment_scripts/upload_data_to_configdb", "deployment_scripts/configdb-sync"),
    *("deployment_scripts/hiera_backend", "deployment_scripts/puppet/configdb/lib/configdb_hiera.rb"),
    *("configdb_sync/cli/main.py", "vendor/common/click/__init__.py", "vendor/common/psycopg/__init__.py"),
    *("bom.cdx.json", "licences"),
    *(f"share/{path}" for path in (man_page.MAN, man_page.COMPLETION)),
)


class PackageError(Exception):
    """The plugin can't be built, or what was built isn't right."""


def stage(destination: Path, pin: Path) -> None:
    """Copy what belongs in the plugin to ``destination``: no tests, nothing hidden, nothing that tools made.

    ``pin``: which Python it takes.
    """
    for name in FOLDERS:
        shutil.copytree(ROOT / name, destination / name, symlinks=True, ignore=IGNORED)
    for name in FILES:
        shutil.copy2(ROOT / name, destination / name)
    support = destination / SUPPORT
    support.mkdir(parents=True)
    for name in SUPPORT_FILES:
        (shutil.copytree if (ROOT / SUPPORT / name).is_dir() else shutil.copy2)(ROOT / SUPPORT / name, support / name)
    shutil.copy2(pin, support / plugin_runtime.PIN.name)
    man_page.write(destination / "share")
    for path in (destination, *destination.rglob("*")):
        if not path.is_symlink():
            # As everyone may read it and nobody but its owner write it, whatever this checkout's own modes are.
            mode = path.stat().st_mode
            path.chmod(0o755 if path.is_dir() or mode & 0o100 else 0o644)


def run_fpb(action: str, folder: Path, **environ: str) -> None:
    """Run the builder; what it says, and the hook with it, is shown if it fails. Raises ``PackageError``."""
    command = [sys.executable, str(Path(__file__).with_name("fpb.py")), f"--{action}", str(folder), "--debug"]
    done = subprocess.run(
        command,
        env=os.environ | {"PYTHON": sys.executable, "CONFIGDB_SYNC_CACHE": str(ROOT / ".cache")} | environ,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).splitlines() if "schema validation" not in line]
        raise PackageError("\n".join(["fuel-plugin-builder failed:", *said[-25:]]))


def build(output: Path, pin: Path = plugin_runtime.PIN) -> Path:
    """Build and check the RPM; return its path below ``output``. ``pin``: which Python it takes.

    Raises ``PackageError``.
    """
    lacking = [program for program in PROGRAMS if shutil.which(program) is None]
    if lacking:
        raise PackageError(f"{', '.join(lacking)} can't be had here; install rpm, createrepo-c and dpkg-dev")
    with tempfile.TemporaryDirectory(prefix="configdb-sync-plugin-") as temporary:
        # The hook's files too are everyone's to read.
        os.umask(0o022)
        folder = Path(temporary) / "plugin"
        stage(folder, pin)
        run_fpb("build", folder)
        tell_size(folder / "runtime")
        found = list(folder.glob("configdb-sync-*.noarch.rpm"))
        if len(found) != 1:
            raise PackageError("fuel-plugin-builder made no RPM")
        faults = list(faults_of(found[0]))
        if faults:
            raise PackageError("\n".join(["the RPM isn't right:", *faults]))
        output.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy2(found[0], output))


def tell_size(runtime: Path) -> None:
    """Say so if the plugin's Python is bigger than it need be: an archive with its debugging symbols, most often."""
    size = sum(path.stat().st_size for path in plugin_runtime.files(runtime))
    if size > plugin_runtime.BIGGEST:
        print(f"note: its Python takes {size / 1e6:.0f} MB; one of `install_only_stripped` is smaller", file=sys.stderr)


def query(rpm: Path, *what: str) -> list[str]:
    """Ask rpm about a package file; return its lines."""
    command = ["rpm", "-qp", "--nosignature", *what, str(rpm)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def faults_of(rpm: Path) -> Iterator[str]:
    """Yield what is wrong with the RPM."""
    files = query(rpm, "--list")
    top = min(files, key=len, default="")
    inside = {name.removeprefix(f"{top}/") for name in files}
    yield from (f"{name} is missing" for name in NEEDED if name not in inside)
    yield from (f"{name} doesn't belong in it" for name in sorted(inside) if unwanted(name))
    yield from features(query(rpm, "--requires"))
    compressor = query(rpm, "--queryformat", "%{PAYLOADCOMPRESSOR}")
    if compressor not in (["gzip"], ["xz"]):
        yield f"its payload is compressed by {compressor}, which CentOS 7's rpm can't read"
    provided = [line for line in query(rpm, "--provides") if not line.startswith("configdb-sync-")]
    yield from (f"it claims to provide {line}" for line in provided)
    modes = query(rpm, "--queryformat", "[%{FILEMODES:octal} %{FILENAMES}\n]")
    yield from (f"it has the mode {line}" for line in modes if not open_to_read(int(line.split(" ")[0], 8)))
    owners = set(query(rpm, "--queryformat", "[%{FILEUSERNAME}:%{FILEGROUPNAME}\n]"))
    if owners != {"root:root"}:
        print(f"note: its files belong to {', '.join(owners)}; build as root to have them root's", file=sys.stderr)


def features(required: Iterable[str]) -> Iterator[str]:
    """Yield what the package requires that the master's rpm doesn't have."""
    for line in required:
        name = line.split(" ")[0]
        if name not in RPM_FEATURES and name != "/bin/sh":
            yield f"it requires {line}"


def open_to_read(mode: int) -> bool:
    """Tell whether all may read a file and its owner alone write it; of a link nothing is asked."""
    return stat.S_ISLNK(mode) or (mode & 0o044 == 0o044 and not mode & 0o022)


def unwanted(name: str) -> bool:
    """Tell whether a path in the plugin is one of tests, caches or version control."""
    parts = name.split("/")
    return parts[0] == "tests" or bool({"__pycache__", ".git", ".venv", ".cache", ".build"} & set(parts))


def main() -> int:
    parser = argparse.ArgumentParser(prog="script/plugin", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist", help="where the RPM goes")
    parser.add_argument("--check", action="store_true", help="only check the plugin's files")
    arguments = parser.parse_args()
    try:
        if arguments.check:
            run_fpb("check", ROOT)
            print("The plugin's files are valid.")
            return 0
        print(plugin_runtime.source(os.environ, plugin_runtime.pinned()))
        run_tests.set_path(peers.obtain(ROOT / ".cache", peers.PACKAGING))
        print(build(arguments.folder.resolve()))
    except (PackageError, OSError) as error:
        print(f"plugin: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
