"""What a backup says of itself: its parts with their digests, and what wasn't in the state folder. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from configdb_sync.errors import StateError

FORMAT = 1
NAME = "manifest.json"
LONGEST = 1 << 20

DATABASE = "configdb-sync.sqlite"
CONFIGDB = "configdb.sqlite"
SECRETS = ("mask.key", "configdb.token", "tenants.token", "tenants-public.key")
PARTS = (DATABASE, CONFIGDB, *SECRETS)
"""All that a backup may hold, by the names in the archive. Nothing of an archive is ever used as a path."""

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Part:
    """One file of a backup: its size in bytes and its sha256 in hexadecimal."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """``version``: the product's, that made it; ``created``: ISO 8601; ``elsewhere``: what is in another database than
    SQLite's, with its address, no password in it."""

    version: str
    created: str
    parts: Mapping[str, Part]
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
    """Return the manifest that the bytes hold. Raises ``StateError`` for what is none, or of a newer format."""
    try:
        found: Any = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("format"), int):
        raise StateError("the archive is no backup of configdb-sync")
    if found["format"] != FORMAT:
        raise StateError(
            f"the backup is of format {found['format']}, this version reads {FORMAT}",
            way_out="restore it with the version that made it, or a newer one",
        )
    version, created, parts, elsewhere = (found.get(name) for name in ("version", "created", "parts", "elsewhere"))
    if not isinstance(parts, dict) or not isinstance(elsewhere, dict):
        raise StateError("the backup's manifest isn't as it must be")
    if not all(isinstance(one, str) and one.isprintable() for one in (version, created, *elsewhere.values())):
        raise StateError("the backup's manifest isn't as it must be")
    return Manifest(str(version), str(created), {name: _part(name, part) for name, part in parts.items()}, elsewhere)


def _part(name: str, found: Any) -> Part:
    if name not in PARTS:
        raise StateError(
            f"the backup has a part {name[:60]!r} that this version doesn't know",
            way_out="restore it with the version that made it, or a newer one",
        )
    size, digest = (found.get("size"), found.get("sha256")) if isinstance(found, dict) else (None, None)
    if type(size) is not int or size < 0 or not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise StateError(f"the backup's manifest isn't as it must be: {name}")
    return Part(size, digest)
