"""The keys that encrypt (*seal*) stored contents: a file of Fernet keys, outside of every database (U30).

One key a line; the first seals, each opens what it sealed. Sealed contents name their key by an id, a digest of the
key, so an error can say which key is missing. ``docs/decisions/secrets-at-rest.md``.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import hmac
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.exc import DontWrapMixin

from configdb_sync.closed_files import new_closed, read_closed
from configdb_sync.errors import SettingsError, StateError

if TYPE_CHECKING:
    from cryptography.fernet import Fernet


MAGIC = b"\xc5CS1"
"""The beginning of sealed bytes; the key's id follows. No other content begins so: zlib's, JSON, or a count of keys."""
ID_DIGITS = 8
_LARGEST_FILE = 1 << 16


class EncryptionKeyError(StateError, DontWrapMixin):
    """A key is missing, or sealed contents were changed."""


@dataclass(frozen=True)
class Key:
    """One key. ``text`` is its line in the file."""

    text: bytes = field(repr=False)
    fernet: Fernet = field(repr=False)
    addressing: bytes = field(repr=False)
    id: str

    @property
    def prefix(self) -> bytes:
        """The beginning of everything that it sealed."""
        return MAGIC + bytes.fromhex(self.id)


def key_of(text: bytes) -> Key:
    """Return the key of a line. Raises ``ValueError`` if it is no Fernet key."""
    # Late: most installations have no keys.
    from cryptography.fernet import Fernet

    fernet = Fernet(text)
    raw = urlsafe_b64decode(text)
    number = hashlib.sha256(b"configdb-sync key id\0" + raw).hexdigest()[:ID_DIGITS]
    return Key(text, fernet, hmac.digest(raw, b"configdb-sync addresses", "sha256"), number)


class Keyring:
    """The keys of one file, read again when the file changes or an unknown key is needed.

    Safe for several threads.
    """

    def __init__(self, path: Path) -> None:
        """Raise ``SettingsError`` for a file that others may read, that holds no keys, or can't be read."""
        self.path = path
        self._seen: tuple[int, ...] = ()
        self._keys: tuple[Key, ...] = ()
        self._load()

    @property
    def keys(self) -> tuple[Key, ...]:
        """All keys, the one that seals first."""
        if self._stamp() != self._seen:
            # While the file can't be read the known keys stay.
            with contextlib.suppress(SettingsError):
                self._load()
        return self._keys

    @property
    def primary(self) -> Key:
        """The key that seals."""
        return self.keys[0]

    def key(self, number: str) -> Key | None:
        """Return a key by its id, None if the file doesn't hold it."""
        return next((key for key in self._keys if key.id == number), None) or next(
            (key for key in self.keys if key.id == number), None
        )

    def seal(self, content: bytes) -> bytes:
        """Return bytes sealed with the first key."""
        key = self.primary
        return key.prefix + urlsafe_b64decode(key.fernet.encrypt(content))

    def open(self, sealed: bytes, what: str) -> bytes:
        """Return what was sealed; ``what`` names in errors what holds it. Raises ``EncryptionKeyError``."""
        from cryptography.fernet import InvalidToken

        number = sealed_with(sealed)
        key = self.key(number)
        if key is None:
            raise missing(what, number, self.path)
        try:
            return key.fernet.decrypt(urlsafe_b64encode(sealed[len(key.prefix) :]))
        except InvalidToken:
            raise EncryptionKeyError(
                f"{what} holds contents that key {number} encrypted and that were damaged or changed since",
                way_out="bring it back from a backup",
            ) from None

    def address(self, plain: str) -> str:
        """Return the address of a content under the first key; ``plain`` is the sha256 of its text."""
        return f"k{hmac.new(self.primary.addressing, plain.encode('ascii'), 'sha256').hexdigest()[:63]}"

    def _stamp(self) -> tuple[int, ...]:
        try:
            found = self.path.stat()
        except OSError:
            return ()
        return found.st_mtime_ns, found.st_ino, found.st_size

    def _load(self) -> None:
        seen = self._stamp()
        self._keys = read(self.path)
        self._seen = seen


def is_sealed(content: bytes) -> bool:
    """Tell whether bytes are sealed."""
    return content.startswith(MAGIC)


def sealed_with(sealed: bytes) -> str:
    """Return the id of the key that sealed bytes name."""
    return sealed[len(MAGIC) : len(MAGIC) + ID_DIGITS // 2].hex()


def missing(what: str, number: str, path: Path | None) -> EncryptionKeyError:
    """Return the error for a missing key; ``path`` is the key file, None if none is set."""
    if path is None:
        return EncryptionKeyError(
            f"{what} is encrypted with key {number}, and no key file is set", way_out="name it by the setting key_file"
        )
    return EncryptionKeyError(
        f"{what} is encrypted with key {number}, which is not in {path}",
        way_out="bring back the key file that holds it; without this key nobody can read it",
    )


def read(path: Path) -> tuple[Key, ...]:
    """Return the keys of a file. Raises ``SettingsError``; no error shows a part of a key."""
    content = read_closed(
        path,
        "the key file",
        limit=_LARGEST_FILE,
        way_out="`configdb-sync keys make` makes one; a lost one is in no backup",
    )
    keys = []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip() or line.startswith(b"#"):
            continue
        try:
            keys.append(key_of(line.strip()))
        except ValueError:
            raise SettingsError(
                f"the key file {path} has no key at line {number}", way_out="bring back your copy of the file"
            ) from None
    if not keys:
        raise SettingsError(f"the key file {path} holds no key", way_out="`configdb-sync keys make` makes one")
    return tuple(keys)


def _new() -> Key:
    from cryptography.fernet import Fernet

    return key_of(Fernet.generate_key())


def make(path: Path) -> Key:
    """Write a new file of mode 0600 with one new key. Raises ``SettingsError`` if there is one, or it can't be made."""
    key = _new()
    try:
        with new_closed(path) as file:
            file.write(key.text + b"\n")
    except OSError as error:
        way_out = "`keys add` adds a key to one" if path.exists() else "name a file in a folder that is there"
        raise SettingsError(f"the key file {path} can't be made: {error.strerror}", way_out=way_out) from None
    return key


def add(path: Path) -> Key:
    """Add a new key to a file, as the first one. Raises ``SettingsError``."""
    new = _new()
    with _changing(path) as replace:
        replace((new, *read(path)))
    return new


def drop(path: Path, number: str, unused: Callable[[], None]) -> None:
    """Remove a key from a file unless ``unused`` raises. Raises ``SettingsError``, and what ``unused`` raises."""
    with _changing(path) as replace:
        keys = read(path)
        if number not in {key.id for key in keys}:
            raise SettingsError(f"the key file {path} has no key {number[:40]!r}", way_out="`keys list` shows its keys")
        if number == keys[0].id:
            raise SettingsError(
                f"key {number} is the one that encrypts",
                way_out="`keys add`, `keys convert`, and drop it then",
            )
        unused()
        replace([key for key in keys if key.id != number])


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[Callable[[Sequence[Key]], None]]:
    """Yield a function that replaces a file's keys; one process at a time. A link to the file stays one."""
    path = path.resolve()

    def replace(keys: Sequence[Key]) -> None:
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.unlink(missing_ok=True)
        try:
            with new_closed(temporary) as file:
                owner = path.stat()
                if owner.st_uid != os.geteuid():
                    os.fchown(file.fileno(), owner.st_uid, owner.st_gid)
                file.writelines(key.text + b"\n" for key in keys)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    try:
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            yield replace
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise SettingsError(
            f"the key file {path} can't be changed: {error.strerror}", way_out="put it into a folder of this user"
        ) from None
