"""Contents: a document as it is kept, compressed and addressed by its text.

``key_digests`` are stored beside it. From them follow the digest of effective data and which override has any effect,
without reading a document.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from json.encoder import encode_basestring_ascii
from typing import Any

from sqlalchemy import Connection, delete, exists
from sqlalchemy.exc import IntegrityError

from configdb_sync.configdb_server.schema import contents, versions
from configdb_sync.jsonvalues import (
    EMPTY_DIGEST,
    Json,
    check_depth,
    combine_digests,
    dumps,
    loads,
    members,
    value_digest,
)
from configdb_sync.store.database import Database
from configdb_sync.web.refusals import RefusalError, refuse

MAX_VALUES = 1_000_000
"""Values in a body, those in others counted: each costs many times the bytes that it takes in the text. A document of
a thousand nodes has a tenth."""

MAX_KEYS = 20_000
"""Top-level keys of a document: each has a digest of its own."""

_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_FAST = 1  # a 220 KB document: 2 ms, and within a tenth of the size that the best level gives
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


@dataclass(frozen=True)
class DocumentContent:
    """A document ready to be stored; ``text`` is compact ASCII JSON in the client's key order."""

    text: str = field(repr=False)
    address: str
    digest: str
    key_digests: Mapping[str, str]


_known: dict[bytes, tuple[str, bool]] = {}
"""What was found out of a value's text, by its digest: the value's digest, and whether it is written as we write it.

A fact of the text alone, so it is never out of date; nodes of an environment have most of their blocks in common, and a
changed document most of those that it had.
"""
_MOST_KNOWN = 16_384


def content_of_text(text: str) -> DocumentContent:
    """Return the content of a document given as JSON text.

    Raises ValueError for what is no JSON, ``RefusalError`` as ``content_of`` does.
    """
    if not text.lstrip(" \t\n\r").startswith("{"):
        return content_of(loads(text))
    digests: dict[str, str] = {}
    texts: dict[str, str] = {}
    for key, value, own in members(text):
        if len(digests) == MAX_KEYS and key not in digests:
            raise _too_many_keys()
        name = hashlib.sha256(own.encode("utf-8", "surrogatepass")).digest()
        known = _known.get(name)
        if known is None:
            check_depth([value])
            texts[key] = checked_text(value)
            digests[key] = value_digest(value)
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            _known[name] = (digests[key], texts[key] == own)
        else:
            digests[key], compact = known
            texts[key] = own if compact else dumps(value)
    whole = ",".join(f"{encode_basestring_ascii(key)}:{value}" for key, value in texts.items())
    if "\0" in "".join(texts):
        raise _holds_nul()
    return _content(f"{{{whole}}}", digests)


def content_of(document: Json) -> DocumentContent:
    """Return the content of a document.

    Raises ``RefusalError`` 422 for what is no object or holds NUL, which PostgreSQL can't hold and so nobody shall.
    """
    if not isinstance(document, dict):
        raise refuse(422, f"a document is a JSON object, not {type_name(document)}")
    if len(document) > MAX_KEYS:
        raise _too_many_keys()
    return _content(checked_text(document), {key: value_digest(value) for key, value in document.items()})


def _content(text: str, digests: Mapping[str, str]) -> DocumentContent:
    address = hashlib.sha256(text.encode("ascii")).hexdigest()
    return DocumentContent(text, address, combine_digests(digests.items()), digests)


def checked_text(value: Json) -> str:
    """Return the JSON text of a value that came from a client. Raises ``RefusalError`` 422 if it holds NUL."""
    text = dumps(value)
    if "\\u0000" in text and _NUL.search(text):
        raise _holds_nul()
    return text


def check_count(text: str, what: str) -> None:
    """Raise ``RefusalError`` 413 if a JSON text holds more than ``MAX_VALUES`` values. ``what`` names it."""
    # What stands in strings counts only for the first look, which costs next to nothing.
    if _count(text) > MAX_VALUES and _count(_STRING.sub("", text)) > MAX_VALUES:
        raise refuse(413, f"{what} holds more than {MAX_VALUES} values")


def _count(text: str) -> int:
    return sum(map(text.count, ",[{"))


def _too_many_keys() -> RefusalError:
    return refuse(413, f"a document has at most {MAX_KEYS} keys at its top")


def _holds_nul() -> RefusalError:
    return refuse(422, "a text or a key in the body holds the character NUL (\\u0000)")


def type_name(value: Json) -> str:
    """Return what JSON calls the type of a value, with its article."""
    if isinstance(value, bool):
        return "a boolean"
    names = {dict: "an object", list: "an array", str: "a string", type(None): "null"}
    return names.get(type(value), "a number")


def columns_of(content: DocumentContent) -> dict[str, Any]:
    """Return the row of a content, compressed. Whoever writes it must refer to it in the same transaction."""
    return {
        "address": content.address,
        "digest": content.digest,
        "body": zlib.compress(content.text.encode("ascii"), _FAST),
        "key_digests": _packed(content.key_digests),
    }


def text_of(body: bytes | None) -> str:
    """Return the JSON text of a stored ``body`` column; ``{}`` where nothing was ever written."""
    return "{}" if body is None else zlib.decompress(body).decode("ascii")


def document_of(body: bytes | None) -> dict[str, Any]:
    """Return the document of a stored ``body`` column."""
    found: dict[str, Any] = json.loads(text_of(body))
    return found


def _packed(digests: Mapping[str, str]) -> bytes:
    # Digests don't compress, keys do.
    keys = zlib.compress(dumps(list(digests)).encode("ascii"), _FAST)
    return len(digests).to_bytes(4, "big") + bytes.fromhex("".join(digests.values())) + keys


def digests_of(packed: bytes) -> dict[str, str]:
    """Return key -> digest of a stored ``key_digests`` column."""
    count = int.from_bytes(packed[:4], "big")
    keys = json.loads(zlib.decompress(packed[4 + 32 * count :]))
    digests = packed[4 : 4 + 32 * count].hex()
    return {key: digests[64 * place : 64 * place + 64] for place, key in enumerate(keys)}


def sweep(connection: Connection, addresses: list[str] | None = None) -> None:
    """Delete the contents, all or those given, that no version refers to."""
    statement = delete(contents).where(~exists().where(versions.c.content == contents.c.address))
    if addresses is not None:
        statement = statement.where(contents.c.address.in_(addresses))
    connection.execute(statement)


EMPTY = DocumentContent("{}", hashlib.sha256(b"{}").hexdigest(), EMPTY_DIGEST, {})


def sweep_all(database: Database) -> None:
    """Delete all contents that deletions left without a version; those just taken up again stay."""
    # A content may be referred to again at this moment: the foreign key then wins, and a later sweep takes the rest.
    with contextlib.suppress(IntegrityError):
        database.write(sweep, meeting=True)
