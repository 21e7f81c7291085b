"""The versions of a document that a server without history has: what our own records say of them (U17). Pure.

We know of the changes that we made. What others made shows when the document that is found isn't the one that our
last version left.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import cast

from configdb_sync.configdb.model import DocumentVersion
from configdb_sync.jsonvalues import EMPTY_DIGEST, Json, document_digest, dumps, loads

BY_OTHERS = "changed by someone else"

_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Content:
    """A document to be kept: ``address`` is the sha256 (hex) of its JSON text, ``body`` the text compressed (zlib),
    ``digest`` that of the value (``jsonvalues.document_digest``), key order aside."""

    address: str
    digest: str
    body: bytes = field(repr=False)


def content_of(document: dict[str, Json]) -> Content:
    """Return a document made ready to be kept; ``document_of`` gives it back, key order included."""
    text = dumps(document).encode("ascii")
    return Content(hashlib.sha256(text).hexdigest(), document_digest(document), zlib.compress(text))


def document_of(body: bytes) -> dict[str, Json]:
    """Return the document that ``content_of`` made the body of."""
    return cast(dict[str, Json], loads(zlib.decompress(body)))


def is_by_others(last: str | None, found: str) -> bool:
    """Tell whether someone else changed a document.

    ``last`` is the digest that our last version left (None: there is none), ``found`` that of the document now.
    """
    return found != (EMPTY_DIGEST if last is None else last)


def with_present(versions: Sequence[DocumentVersion], found: str, now: float) -> list[DocumentVersion]:
    """Return versions, newest first, with the document that is there now (digest ``found``) in front if it is another
    one than the newest's; ``now`` in seconds since the epoch."""
    newest = versions[0] if versions else None
    if not is_by_others(None if newest is None else newest.digest, found):
        return list(versions)
    number = 1 if newest is None else newest.number + 1
    return [DocumentVersion(number, time_text(now), None, None, BY_OTHERS, found), *versions]


def time_text(seconds: float) -> str:
    """Return a time since the epoch as ISO 8601 in UTC, to the microsecond."""
    return (_BEGINNING + timedelta(seconds=seconds)).isoformat(timespec="microseconds")
