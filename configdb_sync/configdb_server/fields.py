"""Fields of the objects that clients send, read one by one; what is wrong with one is 422 and named."""

from __future__ import annotations

from configdb_sync.configdb_server.contents import checked_text, type_name
from configdb_sync.configdb_server.paths import MAX_ID
from configdb_sync.configdb_server.refusals import refuse, shown
from configdb_sync.jsonvalues import Json, is_unicode
from configdb_sync.names import NAME_LIMIT


def object_of(body: Json, what: str) -> dict[str, Json]:
    """Return a body that must be an object."""
    if not isinstance(body, dict):
        raise refuse(422, f"{what} is a JSON object, not {type_name(body)}")
    return body


def list_of(value: Json, what: str) -> list[Json]:
    """Return a field that must be a list."""
    if not isinstance(value, list):
        raise refuse(422, f"{what} must be an array, not {type_name(value)}")
    return value


def required(fields: dict[str, Json], name: str, what: str) -> Json:
    """Return a field that must be there."""
    if name not in fields:
        raise refuse(422, f"{what} needs the field {name!r}")
    return fields[name]


def name_of(value: Json, what: str, *, numeric: bool = False) -> str:
    """Return a name: 1 to ``NAME_LIMIT`` characters, none that a database can't hold. With
    ``numeric`` a whole number is one too, as tuning-box takes it."""
    if numeric and isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise refuse(422, f"{what} must be a string, not {type_name(value)}")
    if not 1 <= len(value) <= NAME_LIMIT:
        raise refuse(422, f"{what} must have 1 to {NAME_LIMIT} characters, not {len(value)}")
    checked_text(value)
    if not is_unicode(value):
        raise refuse(422, f"{what} holds half a surrogate pair")
    return value


def reachable(name: str) -> bool:
    """Tell whether a URL can name it: it has no line ends, no empty segments, and none that clients resolve."""
    return name.splitlines() == [name] and {"", ".", ".."}.isdisjoint(name.split("/"))


def id_of(value: Json, what: str) -> int:
    """Return an id that is a number."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise refuse(422, f"{what} must be a number, not {type_name(value)}")
    if not 0 <= value <= MAX_ID:
        raise refuse(422, f"{what} must lie between 0 and {MAX_ID}, not {shown(value, 40)}")
    return value
