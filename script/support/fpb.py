"""Runs the real fuel-plugin-builder, which is of Python 2's time, on a Python of today.

Usage: ``fpb.py --check|--build DIR [--debug]``. It is fetched from PyPI once, checked against ``fpb.txt``'s hashes.
"""

from __future__ import annotations

import builtins
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pip_folder

PINS = Path(__file__).with_name("fpb.txt")
# Debian has createrepo_c alone. CentOS 7's rpm must be able to read the package, and nothing may change its files:
# Debian's rpm could compress by zstd, and strips programs or declares their libraries as given by the package.
COMMANDS = {
    "createrepo": ("createrepo_c",),
    "rpmbuild": (
        "rpmbuild",
        *("--define", "_binary_payload w6.gzdio"),
        *("--define", "__os_install_post %{nil}"),
        *("--define", "_use_internal_dependency_generator 0"),
        *("--define", "__find_provides %{nil}"),
        *("--define", "__find_requires %{nil}"),
    ),
}


def wrap_commands(folder: Path) -> Path:
    """Make a folder for PATH with the commands that the builder calls by another name or with other settings."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (program, *arguments) in COMMANDS.items():
        found = _elsewhere(program, folder)
        script = folder / name
        script.unlink(missing_ok=True)
        if found is not None:
            quoted = " ".join(f"'{argument}'" for argument in arguments)
            script.write_text(f"#!/bin/sh\nexec '{found}' {quoted} \"$@\"\n")
            script.chmod(0o755)
    return folder


def _elsewhere(program: str, folder: Path) -> str | None:
    path = [entry for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if Path(entry) != folder]
    return shutil.which(program, path=os.pathsep.join(path))


def supply_the_past() -> None:
    """Give the builder what it expects of Python 2 and its libraries' old releases."""
    # With it loaded, `distutils` is there on Python 3.12 and later too.
    import setuptools  # noqa: F401
    import yaml

    def unicode(text: str, _encoding: str | None = None) -> str:
        return text

    load = yaml.load

    def load_safely(stream: Any, Loader: Any = yaml.SafeLoader) -> Any:  # noqa: N803
        return load(stream, Loader)

    vars(builtins)["unicode"] = unicode
    vars(yaml)["load"] = load_safely


def supply_lists() -> None:
    """Make the builder's ``filter`` return a list, as it did."""
    from fuel_plugin_builder import version_mapping
    from fuel_plugin_builder.actions import build

    def as_list(keep: Callable[[Any], bool], items: Iterable[Any]) -> list[Any]:
        return [item for item in items if keep(item)]

    for module in (version_mapping, build):
        vars(module)["filter"] = as_list


def main() -> None:
    cache = Path(os.environ.get("CONFIGDB_SYNC_CACHE", Path(__file__).resolve().parents[2] / ".cache"))
    try:
        folder = pip_folder.obtain(PINS, cache / "fpb", "--no-build-isolation")
    except pip_folder.PipError as error:
        sys.exit(f"fpb: {error}")
    os.environ["PATH"] = f"{wrap_commands(cache / 'fpb-bin')}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    sys.path.append(str(folder))
    supply_the_past()
    supply_lists()
    from fuel_plugin_builder import cli

    cli.main()


if __name__ == "__main__":
    main()
