"""Makes ``.venv`` from the lock files; standard library only, since nothing else is there yet.

Usage: ``bootstrap.py [dev]``. Done once; later runs see by the stamps in ``.venv`` that nothing changed.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import debian

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
VENV = ROOT / ".venv"
# Made beside the old one, which serves until the new one is whole.
NEW = CACHE / "venv.new"
OLD = CACHE / "venv.old"
# The second holds all of the first, in the same versions.
LOCKS = {"run": "requirements.txt", "dev": "requirements-dev.txt"}
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
"""The authorities that the pip of Debian's Python trusts; without this file it can't even be started."""
# Settings of a person's pip that would put packages elsewhere than into the environment.
MISLEADING = ("PIP_USER", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_REQUIRE_VIRTUALENV", "PIP_PYTHON")


class BootstrapError(Exception):
    """The environment can't be made; the text says what to do."""


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run(command: Sequence[str | Path], *, quiet: bool = False) -> bool:
    """Run a command with its output on standard error; tell whether it succeeded."""
    environ = {name: value for name, value in os.environ.items() if name not in MISLEADING}
    environ |= {"PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    output = subprocess.DEVNULL if quiet else sys.stderr.fileno()
    done = subprocess.run(list(map(str, command)), env=environ, cwd=ROOT, check=False, stdout=output, stderr=output)
    return done.returncode == 0


def base_python() -> str:
    """Return the interpreter itself, even if this script runs in an environment (perhaps the one it replaces)."""
    return str(getattr(sys, "_base_executable", None) or sys.executable)


def digest(*parts: str | Path) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part.read_bytes() if isinstance(part, Path) else part.encode())
        whole.update(b"\0")
    return whole.hexdigest()


def stamps(kind: str) -> dict[str, str]:
    """Return what the environment must have been made from: interpreter and place, locks, the project's own file."""
    kinds = ("run",) if kind == "run" else ("run", "dev")
    return {
        "base": digest(os.path.realpath(base_python()), sys.version, str(ROOT)),
        **{each: digest(ROOT / LOCKS[each]) for each in kinds},
        "project": digest(ROOT / "pyproject.toml"),
    }


def fresh(name: str, value: str) -> bool:
    try:
        return (VENV / f"stamp-{name}").read_text() == value
    except OSError:
        return False


def write_stamps(folder: Path, wanted: Mapping[str, str]) -> None:
    for name, value in wanted.items():
        (folder / f"stamp-{name}").write_text(value)


def python_of(folder: Path) -> Path:
    return folder / "bin/python"


def usable() -> bool:
    return python_of(VENV).exists() and run([python_of(VENV), "-c", ""], quiet=True)


def up_to_date(kind: str) -> bool:
    return all(fresh(name, value) for name, value in stamps(kind).items()) and usable()


def remove(folder: Path) -> None:
    if folder.is_dir() and not folder.is_symlink():
        shutil.rmtree(folder)
    else:
        folder.unlink(missing_ok=True)


def require_writable() -> None:
    """Raise BootstrapError if no file can be made in the project's folder, or in its cache."""
    for folder in (ROOT, CACHE) if CACHE.exists() else (ROOT,):
        try:
            tempfile.TemporaryFile(dir=folder).close()
        except OSError as error:
            if error.errno not in {errno.EROFS, errno.EACCES, errno.EPERM}:
                raise
            raise BootstrapError(
                f"{folder} can't be written to ({error.strerror}), and .venv and .cache are made in the project's "
                f"folder. Copy it and run the script in the copy: cp -R {shlex.quote(str(ROOT))} ~/configdb-sync"
            ) from None


def require_certificates(base: str) -> None:
    """See to it that the pip of Debian's Python can be started. Raises BootstrapError."""
    if CERTIFICATES.exists() or not debian.is_system_python(base):
        return
    if os.geteuid() == 0:
        debian.install(["ca-certificates"])
    if not CERTIFICATES.exists():
        raise BootstrapError(
            f"pip can't tell whom it downloads from, since {CERTIFICATES} is missing; "
            "install it (as root: apt-get install ca-certificates)"
        )


def make_empty(base: str, folder: Path) -> None:
    """Make an empty environment, by whichever way this machine allows. Raises BootstrapError."""
    remove(folder)
    venv = [base, "-m", "venv", "--prompt", VENV.name]
    if not run([base, "-c", "import ensurepip"], quiet=True) and debian.is_system_python(base) and os.geteuid() == 0:
        debian.install([f"python{sys.version_info.major}.{sys.version_info.minor}-venv"])
    if run([base, "-c", "import ensurepip"], quiet=True) and run([*venv, folder]):
        return
    if not run([*venv, "--without-pip", "--clear", folder]):
        raise BootstrapError(f"{base} -m venv fails; install Python's venv module (Debian: python3-venv)")


def pip_command(base: str, folder: Path) -> list[str | Path]:
    """Return the command that is pip for an environment: its own, the interpreter's, or Debian's wheel of it."""
    python = python_of(folder)
    if run([python, "-m", "pip", "--version"], quiet=True):
        return [python, "-m", "pip"]
    if run([base, "-m", "pip", "--python", python, "--version"], quiet=True):
        return [base, "-m", "pip", "--python", python]
    wheel = debian.pip_wheel(CACHE)
    if wheel is None:
        raise BootstrapError(
            f"no pip for {base}; install it or Python's ensurepip (Debian: apt-get install python3-venv)"
        )
    if not run([python, wheel / "pip", "install", "-qq", "--no-index", wheel]):
        raise BootstrapError(f"{wheel} can't be installed")
    return [python, "-m", "pip"]


def fill(folder: Path, kind: str, *, packages: bool) -> None:
    """Install what the lock file names, and the project itself, into an environment. Raises BootstrapError."""
    pip = [*pip_command(base_python(), folder), "install", "-qq"]
    if packages:
        say(f"installing what {LOCKS[kind]} names")
        if not run([*pip, "--require-hashes", "--no-deps", f"--requirement={LOCKS[kind]}"]):
            raise BootstrapError(
                "pip could not install the packages; is there a network, or a package index set for pip?"
            )
    if not run([*pip, "--no-deps", "--no-build-isolation", "--no-index", "--editable", ROOT]):
        raise BootstrapError("pip could not install the project itself")


def put_in_place() -> None:
    """Make the new environment ``.venv``. Its scripts name the folder in which they were made."""
    made, place = bytes(NEW.relative_to(ROOT)), bytes(VENV.relative_to(ROOT))
    for path in (NEW / "pyvenv.cfg", *(NEW / "bin").iterdir()):
        if path.is_file() and not path.is_symlink() and made in (text := path.read_bytes()):
            path.write_bytes(text.replace(made, place))
    remove(OLD)
    if VENV.is_symlink() or VENV.exists():
        shutil.move(VENV, OLD)
    shutil.move(NEW, VENV)
    remove(OLD)


def bootstrap(kind: str) -> None:
    """Bring ``.venv`` up to date for ``run`` or ``dev``. Raises BootstrapError; ``.venv`` then is what it was."""
    if up_to_date(kind):
        return
    wanted = stamps(kind)
    usable_here = fresh("base", wanted["base"]) and usable()
    base = base_python()
    require_certificates(base)
    made = [each for each in LOCKS if each in wanted and (VENV / f"stamp-{each}").exists()]
    if usable_here and all(fresh(each, wanted[each]) for each in made):
        fill(VENV, kind, packages=not fresh(kind, wanted[kind]))
        write_stamps(VENV, wanted)
        return
    say(f"making .venv with {base} (Python {sys.version.split()[0]})")
    make_empty(base, NEW)
    fill(NEW, kind, packages=True)
    write_stamps(NEW, wanted)
    put_in_place()


def main() -> int:
    kind = sys.argv[1] if len(sys.argv) > 1 else "run"
    if kind not in LOCKS:
        say(f"usage: {sys.argv[0]} [{'|'.join(LOCKS)}]")
        return 2
    try:
        # What only runs the product writes nothing here once .venv is made; tests and linters do.
        if kind == "run" and up_to_date(kind):
            return 0
        require_writable()
        CACHE.mkdir(exist_ok=True)
        with (CACHE / "bootstrap.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            bootstrap(kind)
    except (BootstrapError, OSError) as error:
        say(f"bootstrap: {error}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
