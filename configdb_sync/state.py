"""The state folder: where the product keeps its databases, token, masking key and locks.

Everything in it is for its owner alone. Nothing is created before it is needed.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from configdb_sync.closed_files import unsafe_way
from configdb_sync.errors import StateError

SYSTEM_FOLDER = Path("/var/lib/configdb-sync")


@dataclass(frozen=True)
class StateFolder:
    """A state folder that exists, belongs to this user and has mode 0700."""

    folder: Path

    @property
    def database_url(self) -> str:
        """SQLAlchemy URL of the product's own database, unless ``--database`` says otherwise."""
        return f"sqlite:///{self.folder / 'configdb-sync.sqlite'}"

    @property
    def configdb_database_url(self) -> str:
        """SQLAlchemy URL of the embedded ConfigDB's database, unless ``--configdb-database`` says otherwise."""
        return f"sqlite:///{self.folder / 'configdb.sqlite'}"

    @property
    def token_file(self) -> Path:
        """The file of the embedded ConfigDB's generated token."""
        return self.folder / "configdb.token"

    def token(self) -> str:
        """Return the generated token; made at the first call, in a file of mode 0600."""
        return _secret(self.token_file).decode("ascii")

    @property
    def tenants_token_file(self) -> Path:
        """The file of the tenant admin API's generated token."""
        return self.folder / "tenants.token"

    def tenants_token(self) -> str:
        """Return the tenant admin API's token; made at the first call, in a file of mode 0600."""
        return _secret(self.tenants_token_file).decode("ascii")

    @property
    def tenants_key_file(self) -> Path:
        """The file of the key from which the tenants' own tokens are derived."""
        return self.folder / "tenants-public.key"

    def tenants_public_key(self) -> bytes:
        """Return the key from which the tenants' own tokens are derived; made at the first call."""
        return _secret(self.tenants_key_file)

    @property
    def mask_key_file(self) -> Path:
        """The file of the key for masking."""
        return self.folder / "mask.key"

    def mask_key(self) -> bytes:
        """Return the key under which masked values are shown as a short HMAC; made at the first call."""
        return _secret(self.mask_key_file)

    @property
    def services_file(self) -> Path:
        """The file of the settings with which this machine's services were started."""
        return self.folder / "services.json"


def locate(flag: str | None, environ: Mapping[str, str], *, root: bool) -> Path:
    """Return the path of the state folder by ``--state``, ``CONFIGDB_SYNC_STATE``, or the user's default.

    Raises ``StateError`` if none of them is there: no flag, not root and no HOME.
    """
    named = flag or environ.get("CONFIGDB_SYNC_STATE")
    if named:
        return Path(named).absolute()
    if root:
        return SYSTEM_FOLDER
    base = environ.get("XDG_STATE_HOME")
    if base and Path(base).is_absolute():
        return Path(base) / "configdb-sync"
    home = environ.get("HOME")
    if home:
        return Path(home) / ".local/state/configdb-sync"
    raise StateError("no state folder: HOME is not set", way_out="name one with --state DIR")


def open_state(path: Path) -> StateFolder:
    """Create the folder if it isn't there and return it.

    Raises ``StateError`` if it can't be made, belongs to another user, is open to others, or another user could
    replace it: its path leads through their link, or through a folder in which they may rename entries.
    """
    try:
        _check_way(path)
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_way(path)
        found = path.stat()
    except OSError as error:
        raise StateError(
            f"the state folder {path} can't be used: {error.strerror}", way_out="name another with --state DIR"
        ) from error
    if found.st_uid != os.geteuid():
        raise StateError(
            f"the state folder {path} belongs to user {found.st_uid}, not to {os.geteuid()}",
            way_out="run as its owner, or name another with --state DIR",
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise StateError(
            f"the state folder {path} is open to others (mode {stat.S_IMODE(found.st_mode):04o}); it holds passwords",
            way_out=f"chmod 0700 {path}",
        )
    return StateFolder(path)


def _check_way(path: Path) -> None:
    if why := unsafe_way(path):
        raise StateError(f"the state folder {path} is unsafe: {why}", way_out="name another with --state DIR")


def _secret(path: Path) -> bytes:
    try:
        if not path.exists():
            _create(path, secrets.token_urlsafe(32).encode("ascii"))
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise StateError(f"{path} is open to others", way_out=f"chmod 0600 {path}")
        content = path.read_bytes().strip()
    except OSError as error:
        raise StateError(f"{path} can't be used: {error.strerror}", way_out="name another with --state DIR") from error
    if len(content) < 16:
        raise StateError(f"{path} holds no secret of at least 16 characters", way_out="remove it; a new one is made")
    return content


def _create(path: Path, content: bytes) -> None:
    # Two processes may make it at once: written whole under another name, then linked; the second link loses.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        temporary.touch(mode=0o600, exist_ok=False)
        temporary.write_bytes(content)
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
