"""What answers say: strict JSON, the objects of the API, and the text of errors in their three shapes.

Everything here is pure and takes hostile input; what isn't as it must be is a ``ValueError`` with a text that shows no
content.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from configdb_sync import jsonvalues
from configdb_sync.configdb.exchange import Answer
from configdb_sync.configdb.model import Component, Definition, Environment, Etags, KeyEffect, OverrideNote, Version
from configdb_sync.jsonkinds import a_list, an_object, kind_of
from configdb_sync.jsonvalues import Json

MESSAGE_LIMIT = 200
_WORD = re.compile(r"""[^\s'"\\(),:=\[\]{}<>]{3,}""")


def is_json(answer: Answer) -> bool:
    """Tell whether the answer calls its body JSON."""
    kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json"))


def read(answer: Answer) -> Json:
    """Return the JSON value of an answer's body."""
    if not is_json(answer):
        kind = re.sub(r"[^\w/+.; =-]", "?", answer.headers.get("content-type", "") or "no type")[:60]
        raise ValueError(f"the body is {kind}, not JSON")
    try:
        return jsonvalues.loads(answer.body)
    except UnicodeDecodeError:
        raise ValueError("the body isn't UTF-8") from None
    except json.JSONDecodeError as error:
        raise ValueError(
            f"the body isn't whole JSON: {error.msg} at character {error.pos} of {len(error.doc)}"
        ) from None


def document(value: Json) -> dict[str, Json]:
    """Return a document: a JSON object that isn't an error in disguise (a status of its own, or Keystone's shape)."""
    if not isinstance(value, dict):
        raise ValueError(f"a document is an object, the server holds {kind_of(value)}")
    status = value.get("status")
    if value.keys() <= {"message", "status", "msg"} and isinstance(status, int) and status >= 400:
        raise ValueError(f"the body is an error of status {status}")
    error = value.get("error")
    if (
        value.keys() == {"error"}
        and isinstance(error, dict)
        and isinstance(error.get("code"), int)
        and "message" in error
    ):
        raise ValueError(f"the body is an error of code {error['code']}")
    return value


def definition(value: Json) -> Definition:
    """Return a resource definition."""
    owner = an_object(value, "a resource definition").get("component_id")
    return Definition(_id(value, "id"), _text(value, "name"), None if owner is None else _id(value, "component_id"))


def component(value: Json) -> Component:
    """Return a component with its definitions, by id."""
    listed = a_list(an_object(value, "a component").get("resource_definitions"), "resource_definitions")
    definitions = sorted(map(definition, listed), key=lambda one: one.id)
    return Component(_id(value, "id"), _text(value, "name"), tuple(definitions))


def components(value: Json) -> list[Component]:
    """Return the list of components."""
    return [component(item) for item in a_list(value, "the list of components")]


def definitions(value: Json) -> list[Definition]:
    """Return a list of definitions."""
    return [definition(item) for item in a_list(value, "the list of resource definitions")]


def environment(value: Json) -> Environment:
    """Return an environment."""
    ids = a_list(an_object(value, "an environment").get("components"), "components")
    levels = a_list(value.get("hierarchy_levels"), "hierarchy_levels")
    if not all(isinstance(level, str) for level in levels):
        raise ValueError("hierarchy_levels holds something else than names")
    if not all(_is_id(item) for item in ids):
        raise ValueError("components holds something else than ids")
    return Environment(_id(value, "id"), tuple(ids), tuple(levels))


def environments(value: Json) -> list[Environment]:
    """Return a list of environments."""
    return [environment(item) for item in a_list(value, "the list of environments")]


def level_values(value: Json) -> tuple[str, ...]:
    """Return the values that an environment's hierarchy level has, of an answer about that level."""
    values = a_list(an_object(value, "a hierarchy level").get("values"), "values")
    if not all(isinstance(one, str) for one in values):
        raise ValueError("values holds something else than texts")
    return tuple(values)


def lookup(value: Json) -> dict[str, tuple[Json, str]]:
    """Return each top-level key's value and the level that gave it, of ``show_lookup``."""
    found: dict[str, tuple[Json, str]] = {}
    for key, pair in an_object(value, "a lookup").items():
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[1], str):
            raise ValueError("a lookup holds pairs of a value and a level")
        found[key] = (pair[0], pair[1])
    return found


def etags(value: Json) -> dict[int, Etags]:
    """Return the digests of all documents at a level, by definition id."""
    found = {}
    for key, item in an_object(value, "the digests").items():
        if not key.isdigit():
            raise ValueError("the digests are not by definition id")
        an_object(item, "the digests of a data source")
        found[int(key)] = Etags(_text(item, "values"), _text(item, "overrides"), _text(item, "effective"))
    return found


def versions(value: Json) -> list[Version]:
    """Return the versions of a document."""
    return [
        Version(
            _id(an_object(item, "a version"), "version"),
            _text(item, "time"),
            _maybe_text(item, "author"),
            _maybe_text(item, "run"),
            _maybe_text(item, "comment"),
            _text(item, "digest"),
        )
        for item in a_list(value, "a history")
    ]


def override_notes(value: Json) -> list[OverrideNote]:
    """Return the overrides of an environment."""
    return [
        OverrideNote(
            _text(
                an_object(an_object(item, "an override").get("resource_definition"), "a resource definition"), "name"
            ),
            _text(item, "place"),
            _id(item, "version"),
            _maybe_text(item, "time"),
            _maybe_text(item, "author"),
            _maybe_text(item, "run"),
            _maybe_text(item, "comment"),
            tuple(
                KeyEffect(
                    key,
                    _text(an_object(told, "an effect"), "effect"),
                    _maybe_text(told, "reason"),
                    _id(told, "hidden_by"),
                )
                for key, told in an_object(item.get("keys"), "the keys of an override").items()
            ),
        )
        for item in a_list(value, "the overrides")
    ]


def message(answer: Answer, *, secrets: bytes | None = None, token: str | None = None) -> str:
    """Return a short text of the server's own message, or an empty one where it says nothing of use.

    The server may echo what was sent: words that stand in ``secrets`` (the request's body) or the token are masked.
    """
    try:
        text = _said(read(answer))
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


def _said(value: Json) -> str:
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


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _id(value: dict[str, Json], name: str) -> int:
    found = value.get(name)
    if not isinstance(found, int) or not _is_id(found):
        raise ValueError(f"{name} is {kind_of(found)}, not a whole number")
    return found


def _text(value: dict[str, Json], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str):
        raise ValueError(f"{name} is {kind_of(found)}, not a text")
    return found


def _maybe_text(value: dict[str, Json], name: str) -> str | None:
    return None if value.get(name) is None else _text(value, name)
