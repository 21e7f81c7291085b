"""What ConfigDB holds, as values: components, definitions, environments, levels (``docs/configdb-api.md``)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class ServerKind(Enum):
    """Which ConfigDB server answers, by what it can do."""

    EMBEDDED = "configdb-sync"
    MASTER = "tuning-box master"
    LEGACY = "tuning-box 0.1.0"


@dataclass(frozen=True)
class Definition:
    """A resource definition: what the product calls a data source."""

    id: int
    name: str
    component_id: int | None


@dataclass(frozen=True)
class Component:
    """A named group of definitions."""

    id: int
    name: str
    definitions: tuple[Definition, ...]


@dataclass(frozen=True)
class Environment:
    """An environment: the ids of its components and its hierarchy levels, the first nearest the root."""

    id: int
    components: tuple[int, ...]
    levels: tuple[str, ...]


@dataclass(frozen=True)
class Etags:
    """Digests (``jsonvalues.document_digest``) of one data source's documents at one level."""

    values: str
    overrides: str
    effective: str


@dataclass(frozen=True)
class Writer:
    """Who changes something and why: named to the server on every changing request (U17).

    ``run`` is ``req-<uuid4>``; ``author`` a user's name; ``comment`` free text. The last two may hold any Unicode.
    """

    run: str | None = None
    author: str | None = None
    comment: str | None = None


@dataclass(frozen=True)
class Limits:
    """Bounds of one call: seconds to connect, seconds without a byte, seconds in all, bytes of an answer."""

    connect: float = 5.0
    read: float = 60.0
    total: float = 180.0
    answer: int = field(default=64 * 1024 * 1024)


@dataclass(frozen=True)
class Version:
    """One version of a document. ``time`` is ISO 8601 in UTC; ``digest`` as in ``Etags``."""

    number: int
    time: str
    author: str | None
    run: str | None
    comment: str | None
    digest: str


@dataclass(frozen=True)
class KeyEffect:
    """Whether an override of a key does anything: ``full``, ``partial``, ``none``; and why (``equal``, ``hidden``)."""

    key: str
    effect: str
    reason: str | None
    hidden_by: int


@dataclass(frozen=True)
class OverrideNote:
    """The overrides of one data source at one place (``/`` or ``/nodes/46/``), by whom and when."""

    data_source: str
    place: str
    version: int
    time: str | None
    author: str | None
    run: str | None
    comment: str | None
    keys: tuple[KeyEffect, ...]
