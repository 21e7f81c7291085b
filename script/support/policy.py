"""Keeps Debian's packages from starting services when they are installed. Standard library only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

FILE = Path("/usr/sbin/policy-rc.d")
_DENY = "#!/bin/sh\n# Put here while packages for tests are installed; taken away again.\nexit 101\n"


@contextlib.contextmanager
def services_kept_down(file: Path = FILE) -> Iterator[None]:
    """Have no service started meanwhile; the machine's own policy, or none, is there again afterwards."""
    own = file.with_name(f"{file.name}.before-tests")
    # An earlier run that was killed has left the machine's own policy there.
    if file.exists() and not own.exists():
        file.rename(own)
    _write(file)
    try:
        yield
    finally:
        if own.exists():
            own.rename(file)
        else:
            file.unlink(missing_ok=True)


def _write(file: Path) -> None:
    temporary = file.with_name(f"{file.name}.new")
    temporary.write_text(_DENY)
    temporary.chmod(0o755)
    temporary.replace(file)
