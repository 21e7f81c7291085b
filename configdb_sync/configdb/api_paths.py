"""Paths and headers of the ConfigDB API, made and checked without I/O (``docs/configdb-api.md``, Documents' URLs)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from configdb_sync.configdb.model import ChangeAuthor
from configdb_sync.errors import SettingsError
from configdb_sync.names import NAME_LIMIT, LevelPath

_NAME = f"give 1 to {NAME_LIMIT} characters without / and NUL"

_BY_ID = re.compile(r"(?P<head>/environments/\d+/(?:.+/)?resources/)\d+(?P<kind>/values|/overrides)")


def segment(text: str, what: str) -> str:
    """Return ``text`` as one segment of a path, percent-encoded.

    Raises ``SettingsError`` for what no server routes as one segment: empty, ``.``, ``..``, a ``/``, NUL, more than
    ``NAME_LIMIT`` characters, or text that isn't Unicode. ``what`` names it in the error.
    """
    if not text or text in {".", ".."}:
        raise SettingsError(f"{what} {text!r} can't stand in an address", way_out=_NAME)
    if len(text) > NAME_LIMIT:
        raise SettingsError(f"{what} {text[:40]!r}... has {len(text)} characters", way_out=_NAME)
    if "/" in text or "\0" in text:
        raise SettingsError(f"{what} {text!r} holds a character that no server takes there", way_out=_NAME)
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as error:
        raise SettingsError(f"{what} {text!r} isn't Unicode text", way_out=_NAME) from error


def level_path(levels: LevelPath) -> str:
    """Return ``nodes/46/`` for ``(("nodes", "46"),)`` and an empty text for the root; ``SettingsError`` as
    ``segment``."""
    return "".join(
        f"{segment(name, 'the level')}/{segment(value, f'the value of level {name}:')}/" for name, value in levels
    )


def environment_path(env: int) -> str:
    """Return the path of an environment; ``SettingsError`` for an id that no server routes."""
    if env < 0:
        raise SettingsError(f"environment {env} is no environment's number", way_out="a number is not negative")
    return f"/environments/{env}"


def document_path(env: int, levels: LevelPath, definition: int, kind: str) -> str:
    """Return the path of one document; ``kind`` is ``values`` or ``overrides``."""
    return f"{environment_path(env)}/{level_path(levels)}resources/{definition}/{kind}"


def redirected(path: str, location: str) -> str | None:
    """Return the path that a 308 of 0.1.0 leads to from ``path`` (both below the base, query kept), or None.

    Only the by-name form is known: the same environment, levels and kind, with the definition's id for its name.
    Scheme, host and mount prefix of ``location`` are the server's guess and don't count.
    """
    here = urlsplit(path)
    try:
        there = urlsplit(location).path
    except ValueError:
        return None
    start = there.find("/environments/")
    found = _BY_ID.fullmatch(there[start:]) if start >= 0 else None
    if found is None:
        return None
    if not unquote(here.path).startswith(unquote(found["head"])) or not here.path.endswith(found["kind"]):
        return None
    return urlunsplit(("", "", there[start:], here.query, ""))


def author_headers(author: ChangeAuthor) -> Mapping[str, str]:
    """Return the headers that name the author of a change. Author and comment are percent-encoded UTF-8, which any
    header carries."""
    named = {
        "X-Configdb-Run": author.run,
        "X-Configdb-Author": author.author and _header_text(author.author),
        "X-Configdb-Comment": author.comment and _header_text(author.comment),
    }
    return {name: value for name, value in named.items() if value}


def _header_text(text: str) -> str:
    return quote(text.encode("utf-8", "replace"), safe=" !$&'()*+,-./:;<=>?@[]^_`{|}~")
