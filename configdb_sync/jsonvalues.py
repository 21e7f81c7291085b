"""Values as ConfigDB holds them: JSON, read strictly and compared type for type.

A *document* is a JSON object, the content of one data source at one level. Its digest is made from the digests of its
top-level keys: a reader that keeps those, because it parses each block once, gets the document's with one sha256.
The order of keys doesn't count; ``1``, ``1.0``, ``true`` and ``"1"`` all differ.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from json.decoder import scanstring  # type: ignore[attr-defined]  # public, yet not in the stubs
from json.encoder import encode_basestring_ascii
from typing import Any, Final, TypeAlias

Json: TypeAlias = Any
"""None, bool, int, float, str, list of Json or dict of str to Json. (A recursive alias costs a cast at every step.)"""

Document: TypeAlias = Mapping[str, Json]

Loads: TypeAlias = Callable[["str | bytes"], Json]
"""Reads a JSON text: ``loads`` or an ``ObjectReader``'s."""


class Absent(Enum):
    """The type of ``ABSENT``: there is no value, which is not null."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
Slot: TypeAlias = Json
"""A value or ``ABSENT``."""

OUTPUT_VERSION = 1
"""Version of the form in which commands print JSON and YAML (``cli/outputs.schema.json``)."""

MAX_DEPTH = 200
"""Deepest nesting that is read from a peer or a file; Fuel's settings are below 20."""


# Made once: json.dumps makes an encoder for each value.
_CANONICAL = json.JSONEncoder(separators=(",", ":"), allow_nan=False, sort_keys=True)


def _refuse_constant(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _finite(text: str) -> float:
    number = float(text)
    if number in {float("inf"), float("-inf")}:
        raise ValueError(f"number out of range: {text[:40]}")
    return number


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object has a key twice")
    return found


_STRICT = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite)
_ONCE = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_once)
_UNKNOWN = (None, "")
_space = re.compile(r"[ \t\n\r]*").match


def loads(text: str | bytes, *, once: bool = False) -> Json:
    """Return the value of a JSON text (UTF-8, with or without a BOM).

    ``once``: refuse an object with a key twice, of which the last would count; for texts that people write. Raises
    ValueError for that, for texts that are not JSON, for NaN and infinities, for numbers that no double holds, and for
    nesting beyond ``MAX_DEPTH``.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig")
    try:
        value = (_ONCE if once else _STRICT).decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    check_depth(value)
    return value


def members(text: str, known: Mapping[str, tuple[Json, str]] | None = None) -> Iterator[tuple[str, Json, str]]:
    """Yield each top-level key of an object's JSON text, its value, and the text of the value alone.

    ``known`` are values with their texts from before: where a key's text is the same, so is the object. A key that
    occurs twice comes twice. Raises ValueError as ``loads`` does, but doesn't check the depth: a caller that
    knows a value's text already needs no check. The caller checks that the text begins with ``{``.
    """
    place = _end(text, _end(text, 0) + 1)
    more = text[place : place + 1] != "}"
    while more:
        if text[place : place + 1] != '"':
            raise json.JSONDecodeError("Expecting property name enclosed in double quotes", text, place)
        key, place = scanstring(text, place + 1, True)
        place = _end(text, place)
        if text[place : place + 1] != ":":
            raise json.JSONDecodeError("Expecting ':' delimiter", text, place)
        start = _end(text, place + 1)
        value, own = known.get(key, _UNKNOWN) if known else _UNKNOWN
        if own and text.startswith(own, start) and _ends_at(text, start + len(own)):
            place = start + len(own)
        else:
            try:
                value, place = _STRICT.raw_decode(text, start)
            except RecursionError as error:
                raise ValueError("nested too deeply") from error
            own = text[start:place]
        yield key, value, own
        place = _end(text, place)
        more = text[place : place + 1] == ","
        if more:
            place = _end(text, place + 1)
    if text[place : place + 1] != "}":
        raise json.JSONDecodeError("Expecting ',' delimiter", text, place)
    if _end(text, place + 1) != len(text):
        raise json.JSONDecodeError("Extra data", text, place + 1)


class ObjectReader:
    """Reads JSON objects of which each has most members in common with the one before: these are the same values.

    Values are shared between objects, so don't change them. Safe for several threads.
    """

    def __init__(self) -> None:
        self._known: Mapping[str, tuple[Json, str]] = {}

    def loads(self, text: str | bytes) -> Json:
        """Return what ``loads`` returns for the same text, and raise what it raises."""
        if isinstance(text, bytes):
            text = text.decode("utf-8-sig")
        if text[_end(text, 0) : _end(text, 0) + 1] != "{":
            return loads(text)
        known, found = self._known, {}
        for key, value, own in members(text, known):
            if key not in known or value is not known[key][0]:
                check_depth([value])
            found[key] = value, own
        self._known = found
        return {key: value for key, (value, _) in found.items()}


def _ends_at(text: str, place: int) -> bool:
    """Tell whether a member of an object may end here: a text that begins like another number isn't that number."""
    place = _end(text, place)
    return text[place : place + 1] in {",", "}"}


def _end(text: str, place: int) -> int:
    found = _space(text, place)
    return found.end() if found else place


def check_depth(value: Json) -> None:
    """Raise ValueError if ``value`` is nested more than ``MAX_DEPTH`` levels deep."""
    # Only containers are followed: documents are mostly leaves.
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(MAX_DEPTH):
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, (dict, list))
        ]
        if not level:
            return
    raise ValueError("nested too deeply")


def dumps(value: Json) -> str:
    """Return compact ASCII JSON in the value's own key order; ValueError for NaN and infinities."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def packed(value: Document) -> bytes:
    """Return an object's JSON text, compressed: how the product's own records are stored."""
    return zlib.compress(dumps(value).encode("ascii"))


def unpacked(body: bytes) -> dict[str, Json]:
    """Return what ``packed`` made the bytes of, its order of keys included."""
    found: dict[str, Json] = json.loads(zlib.decompress(body))
    return found


def canonical(value: Json) -> str:
    """Return the same text for all equal values: compact ASCII JSON, keys sorted by code point."""
    return _CANONICAL.encode(value)


def same(one: Json, other: Json) -> bool:
    """Tell whether two values are equal type for type (``1`` is not ``1.0`` or ``true``), key order aside."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return repr(one) == repr(other)
    return bool(one == other)


def is_unicode(text: str) -> bool:
    """Tell whether a text can be written in UTF-8: it holds no half of a surrogate pair.

    Such halves come from JSON's ``\\ud800``, and from arguments and names of files that are no UTF-8.
    """
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def value_digest(value: Json) -> str:
    """Return the sha256 (hex) of the canonical text of ``value``."""
    return hashlib.sha256(canonical(value).encode("ascii")).hexdigest()


def combine_digests(digests: Iterable[tuple[str, str]]) -> str:
    """Return a document's digest (hex) from its (key, value digest) pairs in any order."""
    whole = hashlib.sha256()
    for key, digest in sorted(digests):
        whole.update(f"{encode_basestring_ascii(key)}:{digest}\n".encode("ascii"))
    return whole.hexdigest()


def document_digest(document: Document) -> str:
    """Return the digest (hex) of a whole document; equal for documents that are ``same``."""
    return combine_digests((key, value_digest(value)) for key, value in document.items())


EMPTY_DIGEST = document_digest({})
