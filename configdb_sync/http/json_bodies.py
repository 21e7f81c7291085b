"""JSON bodies: objects as the bytes of a request, and the value and the error message that an answer holds.

Everything here is pure and takes hostile input; what isn't as it must be is a ``ValueError`` with a text that shows no
content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from configdb_sync import jsonvalues
from configdb_sync.errors import DocumentError
from configdb_sync.http.transport import HttpAnswer
from configdb_sync.jsonvalues import Json, Loads

MESSAGE_LIMIT = 200
_WORD = re.compile(r"""[^\s'"\\(),:=\[\]{}<>]{3,}""")
_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "a truth value", type(None): "missing or null"}


def encode(document: dict[str, Json]) -> bytes:
    """Return the JSON text of an object; ``DocumentError`` for anything else, and for what JSON can't carry."""
    if not isinstance(document, dict):
        raise DocumentError("a document for ConfigDB must be a mapping")
    try:
        return jsonvalues.dumps(document).encode("ascii")
    except (ValueError, TypeError, RecursionError) as error:
        raise DocumentError(
            f"a document can't be carried as JSON: {type(error).__name__}",
            way_out="NaN, infinities and dates aren't JSON",
        ) from None


def is_json(answer: HttpAnswer) -> bool:
    """Tell whether the answer calls its body JSON."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def decode(answer: HttpAnswer, loads: Loads = jsonvalues.loads) -> Json:
    """Return the JSON value of an answer's body, as ``loads`` reads it."""
    if not is_json(answer):
        kind = re.sub(r"[^\w/+.; =-]", "?", answer.headers.get("content-type", "") or "no type")[:60]
        raise ValueError(f"the body is {kind}, not JSON")
    try:
        return loads(answer.body)
    except UnicodeDecodeError:
        raise ValueError("the body isn't UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(
            f"the body isn't whole JSON: {error.msg} at character {error.pos} of {len(error.doc)}"
        ) from None


def kind_of(value: Json) -> str:
    """Return the kind of a value in words."""
    return _KINDS.get(type(value), "a number")


def an_object(value: Any, what: str) -> dict[str, Json]:
    """Return an object; the ``ValueError`` of anything else calls it ``what``."""
    if not isinstance(value, dict):
        raise ValueError(f"{what} is an object, this is {kind_of(value)}")
    return value


def a_list(value: Any, what: str) -> list[Json]:
    """Return a list; the ``ValueError`` of anything else calls it ``what``."""
    if not isinstance(value, list):
        raise ValueError(f"{what} is {kind_of(value)}, not a list")
    return value


def texts(value: Any, what: str) -> tuple[str, ...]:
    """Return a list of texts; the ``ValueError`` of anything else calls it ``what``."""
    found = a_list(value, what)
    if not all(isinstance(one, str) for one in found):
        raise ValueError(f"{what} holds something else than texts")
    return tuple(found)


def message(answer: HttpAnswer, *, secrets: bytes | None = None, token: str | None = None) -> str:
    """Return a short text of the server's own message, or an empty one where it says nothing of use.

    The server may echo what was sent: words that stand in ``secrets`` (the request's body) or the token are masked.
    """
    try:
        text = _error_text(decode(answer))
    except ValueError:
        return ""
    text = " ".join(re.split(r"\[(?:SQL|parameters)\b", text)[0].split())
    text = "".join(character if character.isprintable() else "?" for character in text)
    if text.rstrip(".").lower() == "internal server error":
        return ""
    if secrets or token:
        sent = _searchable(secrets or b"") + (token or "")
        text = _WORD.sub(lambda word: "***" if word.group() in sent else word.group(), text)
    return text if len(text) <= MESSAGE_LIMIT else f"{text[: MESSAGE_LIMIT - 3]}..."


def _error_text(value: Json) -> str:
    if not isinstance(value, dict):
        return ""
    inner = value.get("error")
    for place in (value, inner if isinstance(inner, dict) else {}):
        for name in ("msg", "message"):
            if isinstance(place.get(name), str):
                return str(place[name])
    return ""


def _searchable(body: bytes) -> str:
    """Return the leaves of a document's text, one a line; keys aren't secret, and messages name them."""
    text = body.decode("utf-8", "replace")
    try:
        return "\n".join(str(leaf) for leaf in _leaves(json.loads(text)))
    except (ValueError, RecursionError):
        return text


def _leaves(value: Json) -> Iterator[Json]:
    if isinstance(value, (dict, list)):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _leaves(child)
    else:
        yield value
