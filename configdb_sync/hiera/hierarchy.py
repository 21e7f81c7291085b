"""A node's hierarchy: which files Hiera reads, and in which order, by its ``hiera.yaml`` (U24). Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from configdb_sync.errors import DocumentError
from configdb_sync.hiera.documents import Reader
from configdb_sync.hiera.lookup import HieraLookupError, interpolate
from configdb_sync.jsonvalues import Json

FOLDER = "/etc/hiera"
_BACKENDS = frozenset({"yaml", "configdb"})
_FUNCTIONS = frozenset({"yaml_data", "configdb::data"})
_LOCATIONS = ("path", "paths", "uri", "uris")
_UNUSABLE = re.compile(r"^/|//|/$|^$")


@dataclass(frozen=True)
class Hierarchy:
    """``levels``: paths below ``/etc/hiera`` without ``.yaml``, with interpolations, the one asked first coming first.

    ``notes``: parts of the ``hiera.yaml`` that a lookup does not follow, each in a sentence.
    """

    levels: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def paths(self, scope: Mapping[str, Json]) -> list[str]:
        """Return the paths on a node whose variables are ``scope``; a level that comes to no path is left out, as
        Hiera does: ``class/%{calling_class}`` without a class. An unknown variable is an empty text."""
        found: list[str] = []
        for level in self.levels:
            try:
                path, _ = interpolate(level, scope)
            except HieraLookupError:
                continue
            if isinstance(path, str) and not _UNUSABLE.search(path) and path not in found:
                found.append(path)
        return found


def to_json(hierarchy: Hierarchy) -> dict[str, Json]:
    """Return a hierarchy as JSON."""
    notes = {"notes": list(hierarchy.notes)} if hierarchy.notes else {}
    return {"levels": list(hierarchy.levels), **notes}


def from_json(value: Json) -> Hierarchy | None:
    """Return what ``to_json`` made the value of; None if it isn't that."""
    if not isinstance(value, dict):
        return None
    levels, notes = value.get("levels"), value.get("notes", [])
    if not isinstance(levels, list) or not isinstance(notes, list):
        return None
    texts = [one for one in (*levels, *notes) if isinstance(one, str)]
    if not levels or len(texts) < len(levels) + len(notes):
        return None
    return Hierarchy(tuple(texts[: len(levels)]), tuple(texts[len(levels) :]))


def parse(raw: bytes) -> Hierarchy:
    """Return the hierarchy of a ``hiera.yaml``. Raises ``DocumentError`` if it isn't one or reads no settings files."""
    values = Reader().read(raw).values
    whole = {key.removeprefix(":"): value for key, value in values.items()}
    levels = whole.get("hierarchy", [] if whole.get("version") == 5 else ["common"])
    if isinstance(levels, str):
        levels = [levels]
    if not isinstance(levels, list):
        raise DocumentError("is no hiera.yaml: hierarchy is no list")
    found = _version5(whole, levels) if whole.get("version") == 5 else _version3(whole, levels)
    if not found.levels:
        raise DocumentError(f"reads no files of {FOLDER}")
    return found


def _version3(whole: Mapping[str, Json], levels: list[Json]) -> Hierarchy:
    backends = whole.get("backends", ["yaml"])
    backends = backends if isinstance(backends, list) else [backends]
    notes = [f"the backend {name} is not followed" for name in backends if name not in _BACKENDS]
    if not _BACKENDS.intersection(name for name in backends if isinstance(name, str)):
        raise DocumentError("reads no files: yaml is not among its backends")
    settings = whole.get("yaml")
    folder = settings.get(":datadir", settings.get("datadir")) if isinstance(settings, dict) else None
    if isinstance(folder, str) and "yaml" in backends and folder.rstrip("/") != FOLDER:
        raise DocumentError(f"reads files of {folder}, not of {FOLDER}")
    texts = [level for level in levels if isinstance(level, str)]
    if len(texts) < len(levels):
        notes.append("levels that are not text are left out")
    return Hierarchy(tuple(texts), tuple(notes))


def _version5(whole: Mapping[str, Json], levels: list[Json]) -> Hierarchy:
    defaults = whole.get("defaults")
    found: list[str] = []
    notes: list[str] = []
    for number, level in enumerate(levels, 1):
        if not isinstance(level, dict):
            raise DocumentError(f"is no hiera.yaml: entry {number} of the hierarchy is no mapping")
        entry = {**(defaults if isinstance(defaults, dict) else {}), **level}
        name = level.get("name", number)
        other = any(key in level for key in ("lookup_key", "data_dig", "hiera3_backend"))
        texts = None if other else _locations(level)
        function = entry.get("data_hash", "yaml_data")
        folder = entry.get("datadir")
        if function not in _FUNCTIONS or texts is None:
            notes.append(f"the entry {name} is not followed: it reads something other than named YAML files")
        elif function == "yaml_data" and (not isinstance(folder, str) or folder.rstrip("/") != FOLDER):
            notes.append(f"the entry {name} is not followed: it reads files of {folder}, not of {FOLDER}")
        else:
            found += texts
    return Hierarchy(tuple(found), tuple(notes))


def _locations(level: Mapping[str, Json]) -> list[str] | None:
    for key in _LOCATIONS:
        if key in level:
            value = level[key]
            texts = value if isinstance(value, list) else [value]
            if not all(isinstance(text, str) for text in texts):
                return None
            return [text.removesuffix(".yaml") if key.startswith("path") else text for text in texts]
    return None
