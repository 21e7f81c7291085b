"""A dump as files: ``environment.json``, and one a data source and place, for their owner alone."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeGuard, overload

from configdb_sync import jsonvalues
from configdb_sync.configdb.dump import Outline, Stored
from configdb_sync.errors import DocumentError, SettingsError
from configdb_sync.jsonvalues import Json
from configdb_sync.names import LevelPath
from configdb_sync.store.encryption import Sealing
from configdb_sync.store.keyring import Keyring

FORMAT = 1
OUTLINE = "environment.json"


class Writer:
    """Writes a dump into a folder that isn't there yet or is empty; with ``keyring`` encrypted (U30)."""

    def __init__(self, folder: Path, keyring: Keyring | None = None) -> None:
        """Make the folder. Raises ``SettingsError`` if it can't be made or holds something."""
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(folder.iterdir()):
                raise SettingsError(f"{folder} isn't empty", way_out="name a new folder")
            folder.chmod(0o700)
        except OSError as error:
            raise SettingsError(
                f"the folder {folder} can't be used: {error.strerror}", way_out="name another folder"
            ) from error
        self._folder = folder
        self._keyring = keyring

    def document(self, stored: Stored) -> None:
        """Write one data source at one place."""
        content = {
            "levels": [list(pair) for pair in stored.levels],
            "data_source": stored.data_source,
            "values": stored.values,
            "overrides": stored.overrides,
        }
        self._write(_name(stored.levels, stored.data_source), content)

    def outline(self, outline: Outline) -> None:
        """Write what the environment is made of: last, so that a dump that was broken off is none."""
        components = [{"name": name, "data_sources": list(names)} for name, names in outline.components.items()]
        content = {
            "format": FORMAT,
            "environment": outline.env,
            "levels": list(outline.levels),
            "components": components,
        }
        self._write(OUTLINE, content)

    def _write(self, name: str, content: Json) -> None:
        path = self._folder / name
        try:
            text = f"{json.dumps(content, indent=1, allow_nan=False)}\n".encode("ascii")
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(text if self._keyring is None else self._keyring.seal(text))
        except OSError as error:
            raise SettingsError(f"{path} can't be written: {error.strerror}") from error


class Documents(Sequence[Stored]):
    """The documents of a dump, read one at a time whenever they are asked for."""

    def __init__(self, paths: Sequence[Path], sealing: Sealing) -> None:
        self._paths = paths
        self._sealing = sealing

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._paths)

    @overload
    def __getitem__(self, index: int) -> Stored: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Stored]: ...
    def __getitem__(self, index: int | slice) -> Stored | Sequence[Stored]:
        """Read one. Raises ``DocumentError`` for a file that isn't of a dump."""
        if isinstance(index, slice):
            return Documents(self._paths[index], self._sealing)
        return _stored(self._paths[index], self._sealing)

    def __iter__(self) -> Iterator[Stored]:
        """Read one after the other."""
        return (_stored(path, self._sealing) for path in self._paths)


def read(folder: Path, keyring: Keyring | None = None) -> tuple[Outline, Documents]:
    """Return a dump of a folder; all its files are read once, so that a broken one is found before anything is sent.

    Raises ``SettingsError`` if there is no dump, ``DocumentError`` for a file that isn't of one, ``StateError`` for one
    that is encrypted with a key that isn't in ``keyring``.
    """
    sealing = Sealing(f"the dump {folder}", keyring)
    if not (folder / OUTLINE).is_file():
        raise SettingsError(f"{folder} holds no dump: there is no {OUTLINE}")
    outline = _outline(folder / OUTLINE, sealing)
    documents = Documents(sorted(path for path in folder.glob("*.json") if path.name != OUTLINE), sealing)
    known = {name for names in outline.components.values() for name in names}
    for stored in documents:
        if stored.data_source not in known:
            raise DocumentError(f"{folder} has a document of {stored.data_source!r}, which {OUTLINE} doesn't name")
    return outline, documents


def _name(levels: LevelPath, data_source: str) -> str:
    """Return a file's name: for people what it begins with, for the rest a digest of place and data source."""
    place = [value for pair in levels for value in pair] or ["root"]
    digest = hashlib.sha256(jsonvalues.dumps([list(map(list, levels)), data_source]).encode("ascii")).hexdigest()
    return f"{re.sub(r'[^A-Za-z0-9_-]+', '_', '-'.join([*place, data_source]))[:80]}.{digest[:12]}.json"


def _content(path: Path, sealing: Sealing) -> dict[str, Json]:
    try:
        content = jsonvalues.loads(sealing.open(path.read_bytes()))
    except OSError as error:
        raise SettingsError(f"{path} can't be read: {error.strerror}") from error
    except ValueError as error:
        raise DocumentError(f"{path} isn't JSON of a dump: {type(error).__name__}") from None
    if not isinstance(content, dict):
        raise DocumentError(f"{path} isn't of a dump: it holds no object")
    return content


def _outline(path: Path, sealing: Sealing) -> Outline:
    content = _content(path, sealing)
    env, levels, components = (content.get(name) for name in ("environment", "levels", "components"))
    if content.get("format") != FORMAT:
        raise DocumentError(f"{path} isn't of format {FORMAT}")
    if not isinstance(env, int) or isinstance(env, bool) or not _texts(levels) or not isinstance(components, list):
        raise DocumentError(f"{path} isn't of a dump: environment, levels or components are missing or wrong")
    named = {}
    for component in components:
        if not isinstance(component, dict) or not isinstance(component.get("name"), str):
            raise DocumentError(f"{path} has a component without a name")
        if not _texts(component.get("data_sources")):
            raise DocumentError(f"{path} has a component without data sources: {component['name']!r}")
        named[component["name"]] = tuple(component["data_sources"])
    return Outline(env, tuple(levels), named)


def _stored(path: Path, sealing: Sealing) -> Stored:
    content = _content(path, sealing)
    levels, name, values, overrides = (content.get(key) for key in ("levels", "data_source", "values", "overrides"))
    if not isinstance(levels, list) or not all(_texts(pair) and len(pair) == 2 for pair in levels):
        raise DocumentError(f"{path} isn't of a dump: its levels are wrong")
    if not isinstance(name, str) or not isinstance(values, dict) or not isinstance(overrides, dict):
        raise DocumentError(f"{path} isn't of a dump: data source, values or overrides are missing or wrong")
    return Stored(tuple((pair[0], pair[1]) for pair in levels), name, values, overrides)


def _texts(value: Json) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
