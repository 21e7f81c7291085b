"""A backup as a file: a compressed tar that begins with its manifest. Nothing that is read from it is trusted.

The manifest has the digests of all files, and the addresses of databases that aren't in the backup.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from configdb_sync.closed_files import new_closed, open_closed
from configdb_sync.errors import StateError

FORMAT = 1
NAME = "manifest.json"
LONGEST = 1 << 20

DATABASE = "configdb-sync.sqlite"
CONFIGDB = "configdb.sqlite"
SECRETS = ("mask.key", "configdb.token", "tenants.token", "tenants-public.key")
PARTS = (DATABASE, CONFIGDB, *SECRETS)
"""All files that a backup may hold, by their names in the archive. No name of an archive is used as a path."""

_DIGEST = re.compile(r"[0-9a-f]{64}")
_CHUNK = 1 << 20
_ANOTHER = "name another backup"
_FURTHER = frozenset(
    {
        tarfile.XHDTYPE,
        tarfile.XGLTYPE,
        tarfile.SOLARIS_XHDTYPE,
        tarfile.GNUTYPE_LONGNAME,
        tarfile.GNUTYPE_LONGLINK,
        tarfile.GNUTYPE_SPARSE,
    }
)


@dataclass(frozen=True)
class BackupFile:
    """One file of a backup: its size in bytes and its sha256 in hexadecimal."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """``version`` of the product that made the backup; ``created``: ISO 8601; ``elsewhere``: the databases that aren't
    SQLite's, with their addresses without a password."""

    version: str
    created: str
    parts: Mapping[str, BackupFile]
    elsewhere: Mapping[str, str]


def encode(manifest: Manifest) -> bytes:
    """Return a manifest as JSON; ``decode`` gives the same one back."""
    content = {
        "format": FORMAT,
        "version": manifest.version,
        "created": manifest.created,
        "parts": {name: {"size": part.size, "sha256": part.sha256} for name, part in manifest.parts.items()},
        "elsewhere": dict(manifest.elsewhere),
    }
    return (json.dumps(content, indent=1) + "\n").encode("ascii")


def decode(content: bytes) -> Manifest:
    """Return the manifest that the bytes hold. Raises ``StateError`` if there is none, or of another format."""
    try:
        found: Any = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("format"), int):
        raise StateError("the archive is no backup of configdb-sync", way_out=_ANOTHER)
    if found["format"] != FORMAT:
        raise StateError(
            f"the backup is of format {found['format']}, this version reads {FORMAT}",
            way_out="restore it with the version that made it, or a newer one",
        )
    version, created, parts, elsewhere = (found.get(name) for name in ("version", "created", "parts", "elsewhere"))
    if not isinstance(parts, dict) or not isinstance(elsewhere, dict):
        raise StateError("the backup's manifest isn't as it must be", way_out=_ANOTHER)
    if not all(isinstance(one, str) and one.isprintable() for one in (version, created, *elsewhere.values())):
        raise StateError("the backup's manifest isn't as it must be", way_out=_ANOTHER)
    return Manifest(str(version), str(created), {name: _part(name, part) for name, part in parts.items()}, elsewhere)


def _part(name: str, found: Any) -> BackupFile:
    if name not in PARTS:
        raise StateError(
            f"the backup has a part {name[:60]!r} that this version doesn't know",
            way_out="restore it with the version that made it, or a newer one",
        )
    size, digest = (found.get("size"), found.get("sha256")) if isinstance(found, dict) else (None, None)
    if type(size) is not int or size < 0 or not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise StateError(f"the backup's manifest isn't as it must be: {name}", way_out=_ANOTHER)
    return BackupFile(size, digest)


class _Plain(tarfile.TarInfo):
    """A member as ``write`` makes it. Further headers are refused before they are read: they are read into memory, and
    may follow each other without end."""

    # Only the member's first block is read here. Not all versions of Python call `frombuf`.
    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _FURTHER or self.size < 0:
            raise tarfile.ReadError("a header that no backup has")
        return super()._proc_member(archive)  # type: ignore[misc,no-any-return]


def part_of(path: Path) -> BackupFile:
    """Return size and digest of a file."""
    with path.open("rb") as file:
        return BackupFile(path.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())


def write(path: Path, described: Manifest, files: Mapping[str, Path]) -> None:
    """Write an archive of mode 0600, whole or not at all; ``files`` by their names in it.

    Raises ``StateError`` if it is there already or can't be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        if path.exists():
            raise StateError(f"{path} is there already", way_out="name another file")
        with (
            new_closed(temporary) as file,
            tarfile.open(fileobj=file, mode="w:gz", compresslevel=6, format=tarfile.USTAR_FORMAT) as tar,
        ):
            _add(tar, NAME, io.BytesIO(content := encode(described)), len(content))
            for name, source in files.items():
                with source.open("rb") as opened:
                    _add(tar, name, opened, described.parts[name].size)
        # A link, not a rename: it takes no other file's place.
        os.link(temporary, path)
    except OSError as error:
        raise StateError(
            f"the backup {path} can't be written: {error.strerror or error}", way_out="name another file"
        ) from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def _add(tar: tarfile.TarFile, name: str, source: IO[bytes], size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, 0o600
    tar.addfile(member, source)


def unpack(path: Path, folder: Path) -> Manifest:
    """Unpack a backup into a folder and return its manifest.

    The folder then holds plain files with names of ``PARTS``, each as the manifest says. Raises ``StateError`` for
    anything else in the archive, ``SettingsError`` for one that is open to others.
    """
    try:
        # Its readers have every password in it, and its writers decide on the state.
        with (
            open_closed(path, "the backup", way_out=_ANOTHER) as file,
            tarfile.open(fileobj=file, mode="r:gz", tarinfo=_Plain) as tar,
        ):
            members = _members(tar)
            name, first = next(members, (None, None))
            if name != NAME or first is None:
                raise StateError(f"{path} is no backup of configdb-sync", way_out=_ANOTHER)
            described = decode(first.read(LONGEST + 1)[:LONGEST])
            left = dict(described.parts)
            for name, content in members:
                if name not in left:
                    raise StateError(
                        f"{path} holds {str(name)[:60]!r}, which its manifest doesn't name (once)", way_out=_ANOTHER
                    )
                _extract(folder / name, content, left.pop(name))
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise StateError(f"{path} is no whole backup: {type(error).__name__}", way_out=_ANOTHER) from None
    except OSError as error:
        raise StateError(
            f"the backup {path} can't be read: {error.strerror or 'it is no archive'}", way_out=_ANOTHER
        ) from None
    if left:
        raise StateError(f"{path} is no whole backup: it lacks {', '.join(sorted(left))}", way_out=_ANOTHER)
    return described


def _members(tar: tarfile.TarFile) -> Iterator[tuple[str, IO[bytes]]]:
    for member in tar:
        content = tar.extractfile(member) if member.isreg() else None
        if content is None or member.name not in {NAME, *PARTS}:
            raise StateError(
                f"the archive holds {member.name[:60]!r}, which no backup has: nothing of it was used",
                way_out="was it made by `configdb-sync backup`, and is it as it was?",
            )
        yield member.name, content


def _extract(target: Path, content: IO[bytes], part: BackupFile) -> None:
    digest, left = hashlib.sha256(), part.size
    with new_closed(target) as file:
        while chunk := content.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                break
            digest.update(chunk)
            file.write(chunk)
    if left or digest.hexdigest() != part.sha256:
        raise StateError(
            f"{target.name} in the backup isn't what its manifest says: the archive was changed or broken",
            way_out=_ANOTHER,
        )
