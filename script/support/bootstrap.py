"""Makes ``.venv`` from the lock files; standard library only, since nothing else is there yet.

Usage: ``bootstrap.py [dev]``. Done once; later runs see by the stamps in ``.venv`` that nothing changed.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import debian

ROOT = Path(__file__).resolve().parents[2]
CACHE = ROOT / ".cache"
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin/python"
# The second holds all of the first, in the same versions.
LOCKS = {"run": "requirements.txt", "dev": "requirements-dev.txt"}
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
        "base": digest(base_python(), sys.version, str(ROOT)),
        **{each: digest(ROOT / LOCKS[each]) for each in kinds},
        "project": digest(ROOT / "pyproject.toml"),
    }


def stamp_file(name: str) -> Path:
    return VENV / f"stamp-{name}"


def fresh(name: str, value: str) -> bool:
    try:
        return stamp_file(name).read_text() == value
    except OSError:
        return False


def usable() -> bool:
    return VENV_PYTHON.exists() and run([VENV_PYTHON, "-c", ""], quiet=True)


def pip_of(python: str | Path) -> bool:
    return run([python, "-m", "pip", "--version"], quiet=True)


def make_venv(base: str) -> None:
    """Make an empty environment, by whichever way this machine allows. Raises BootstrapError."""
    say(f"making .venv with {base} (Python {sys.version.split()[0]})")
    if VENV.is_dir() and not VENV.is_symlink():
        shutil.rmtree(VENV)
    else:
        VENV.unlink(missing_ok=True)
    if not run([base, "-c", "import ensurepip"], quiet=True) and debian.is_system_python(base) and os.geteuid() == 0:
        debian.install([f"python{sys.version_info.major}.{sys.version_info.minor}-venv"])
    if run([base, "-c", "import ensurepip"], quiet=True) and run([base, "-m", "venv", VENV]):
        return
    if not run([base, "-m", "venv", "--without-pip", "--clear", VENV]):
        raise BootstrapError(f"{base} -m venv fails; install Python's venv module (Debian: python3-venv)")


def pip_command(base: str) -> list[str | Path]:
    """Return the command that is pip for the environment: its own, the interpreter's, or Debian's wheel of it."""
    if pip_of(VENV_PYTHON):
        return [VENV_PYTHON, "-m", "pip"]
    if run([base, "-m", "pip", "--python", VENV_PYTHON, "--version"], quiet=True):
        return [base, "-m", "pip", "--python", VENV_PYTHON]
    wheel = debian.pip_wheel(CACHE)
    if wheel is None:
        raise BootstrapError(
            f"no pip for {base}; install it or Python's ensurepip (Debian: apt-get install python3-venv)"
        )
    if not run([VENV_PYTHON, wheel / "pip", "install", "-qq", "--no-index", wheel]):
        raise BootstrapError(f"{wheel} can't be installed")
    return [VENV_PYTHON, "-m", "pip"]


def bootstrap(kind: str) -> None:
    """Bring ``.venv`` up to date for ``run`` or ``dev``. Raises BootstrapError."""
    wanted = stamps(kind)
    outdated = any(stamp_file(each).exists() and not fresh(each, wanted[each]) for each in LOCKS if each in wanted)
    if outdated or not fresh("base", wanted["base"]) or not usable():
        make_venv(base_python())
    elif all(fresh(name, value) for name, value in wanted.items()):
        return
    pip = [*pip_command(base_python()), "install", "-qq"]
    if not fresh(kind, wanted[kind]):
        say(f"installing what {LOCKS[kind]} names")
        if not run([*pip, "--require-hashes", "--no-deps", f"--requirement={LOCKS[kind]}"]):
            raise BootstrapError(
                "pip could not install the packages; is there a network, or a package index set for pip?"
            )
    if not run([*pip, "--no-deps", "--no-build-isolation", "--no-index", "--editable", ROOT]):
        raise BootstrapError("pip could not install the project itself")
    for name, value in wanted.items():
        stamp_file(name).write_text(value)


def main() -> int:
    kind = sys.argv[1] if len(sys.argv) > 1 else "run"
    if kind not in LOCKS:
        say(f"usage: {sys.argv[0]} [{'|'.join(LOCKS)}]")
        return 2
    try:
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
