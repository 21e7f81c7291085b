"""What one run does with one document of one node: a pure decision from everything known of it.

``docs/lifecycle.md`` follows one key through it. ``node`` fetches the inputs, ``apply`` carries the decision out.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, TypeVar

from configdb_sync.configdb.level_merge import effective as merge_levels
from configdb_sync.jsonvalues import ABSENT, Document, Json, combine_digests, value_digest
from configdb_sync.store.records import HiddenKey, Record
from configdb_sync.sync.three_way_merge import equal, node_values, settle

T = TypeVar("T")

Level = tuple[Document, Document]
"""A level's values and overrides."""


class FileContent(Protocol):
    """The content of a file, as ``hiera.HieraDocument`` gives it."""

    @property
    def values(self) -> Document:
        """The file's data in JSON form."""

    @property
    def key_digests(self) -> Mapping[str, str]:
        """The digest of each top-level key's value."""

    @property
    def digest(self) -> str:
        """The digest of the whole data."""


class Accept(Enum):
    """Which side the user chose for ambiguous keys (``--accept-node``, ``--accept-configdb``)."""

    NEITHER = "neither"
    NODE = "node"
    CONFIGDB = "configdb"


class Write(Enum):
    """What happens to the file."""

    NONE = "none"
    REPLACE = "replace"
    CREATE = "create"
    REMOVE = "remove"


@dataclass(frozen=True)
class Meant:
    """What the node means by one document: what is to be uploaded, and the keys for which that is unknown.

    ``open``: what to remember of these keys until the user decides.
    """

    values: Mapping[str, Json] = field(repr=False)
    digest: str
    open: Mapping[str, HiddenKey] = field(default_factory=dict, repr=False)

    @property
    def ambiguous(self) -> tuple[str, ...]:
        """The keys for which it is unknown whose value is the newer one."""
        return tuple(self.open)


def needs_stored(file: FileContent | None, record: Record | None) -> bool:
    """Tell whether ConfigDB's own documents must be asked what the node means: no record, or keys open in it."""
    return file is not None and (record is None or bool(record.unsettled))


def what_node_means(
    file: FileContent | None,
    record: Record | None,
    stored: Document | None,
    effective: Document,
    accept: Accept = Accept.NEITHER,
) -> Meant:
    """Return the node's values: by our record, and where that doesn't reach by what ConfigDB holds (U18).

    A missing file means nothing at all (U23). ``stored`` is None where nothing of ours can be in the file: then it
    is the node's. ``stored`` and ``effective`` (what ConfigDB had before this run) are looked at only if
    ``needs_stored``.
    """
    if file is None:
        return Meant({}, combine_digests(()))
    if not needs_stored(file, record) or stored is None:
        if record is None or not record.hidden:
            return Meant(file.values, file.digest)
        values = node_values(file.values, record.hidden)
        return Meant(values, combine_digests(key_digests(values, file).items()))
    known = {} if record is None else record.hidden
    open_keys = {*file.values, *stored} if record is None else set(record.unsettled)
    others = {key: value for key, value in file.values.items() if key not in open_keys}
    values = node_values(others, {key: hidden for key, hidden in known.items() if key not in open_keys})
    settled = settle(*(_only(document, open_keys) for document in (file.values, stored, effective, known)))
    if accept is Accept.NEITHER:
        values |= {key: value for key, value in settled.values.items() if key not in settled.open or key in stored}
    else:
        taken = {**settled.values, **(settled.node if accept is Accept.NODE else {})}
        values |= {key: value for key, value in taken.items() if value is not ABSENT}
    ordered = {key: values[key] for key in dict.fromkeys([*file.values, *values]) if key in values}
    still_open = settled.open if accept is Accept.NEITHER else {}
    return Meant(ordered, combine_digests(key_digests(ordered, file).items()), still_open)


def _only(found: Mapping[str, T], keys: Collection[str]) -> dict[str, T]:
    return {key: value for key, value in found.items() if key in keys}


def key_digests(values: Document, file: FileContent | None) -> dict[str, str]:
    """Return the digest of each key of ``values``, taken from the file's where the value is the very same object."""
    known = {} if file is None else file.key_digests
    originals = {} if file is None else file.values
    return {
        key: known[key] if key in known and value is originals.get(key, ABSENT) else value_digest(value)
        for key, value in values.items()
    }


@dataclass(frozen=True)
class Decision:
    """What is to be done with one document, and what will be remembered of it.

    ``effective`` is what ConfigDB must answer after the upload (digest beside it); ``target`` what the file must
    hold: the effective data, but for ambiguous keys what it holds now. ``hidden`` names the keys whose content in the
    file is not the node's own, before and after the write.
    """

    meant: Meant
    effective: Mapping[str, Json] = field(repr=False)
    effective_digest: str
    target: Mapping[str, Json] = field(repr=False)
    write: Write
    hidden: Mapping[str, HiddenKey] = field(repr=False)


def decide(
    file: FileContent | None, meant: Meant, above: Sequence[Level], overrides: Document, record: Record | None
) -> Decision:
    """Return the decision for one document.

    ``file`` is None where the node has no such file; ``above`` are the levels over the node's, root first;
    ``overrides`` the node level's.
    """
    if file is not None and _plain(file, meant, above, overrides):
        values = meant.values
        return Decision(meant, values, meant.digest, target=values, write=Write.NONE, hidden={})
    effective = merge_levels([*above, (meant.values, overrides)])
    found: Document = {} if file is None else file.values
    target = effective
    if meant.ambiguous:
        target = {key: value for key, value in effective.items() if key not in meant.open}
        target |= {key: found[key] for key in meant.open if key in found}
    differs = target.keys() != found.keys() or any(not equal(value, found[key]) for key, value in target.items())
    created = file is not None and record is not None and record.created
    if file is None:
        write = Write.CREATE if target else Write.NONE
    elif not target and created:
        write = Write.REMOVE
    else:
        write = Write.REPLACE if differs else Write.NONE
    return Decision(
        meant=meant,
        effective=effective,
        effective_digest=combine_digests(key_digests(effective, file).items()),
        target=target,
        write=write,
        hidden=_hidden(meant, found, target),
    )


def _plain(file: FileContent, meant: Meant, above: Sequence[Level], overrides: Document) -> bool:
    """Tell whether nothing lies over the file's data or under it: nearly every document, and worth the short way."""
    return bool(meant.values) and meant.values is file.values and not overrides and not any(map(any, above))


def _hidden(meant: Meant, found: Document, target: Document) -> dict[str, HiddenKey]:
    hidden = dict(meant.open)
    for key in dict.fromkeys([*meant.values, *found, *target]):
        if key in meant.open:
            continue
        own = meant.values.get(key, ABSENT)
        before, after = found.get(key, ABSENT), target.get(key, ABSENT)
        ours = (before,) if equal(before, after) else (before, after)
        if any(not equal(own, held) for held in ours):
            hidden[key] = HiddenKey(own, ours)
    return hidden


def hidden_after_write(decision: Decision) -> dict[str, HiddenKey]:
    """Return what stays hidden once the write is known to be done: the content that was read no longer counts."""
    hidden = dict(decision.meant.open)
    for key, remembered in decision.hidden.items():
        if key not in hidden and not equal(remembered.values, remembered.ours[-1]):
            hidden[key] = HiddenKey(remembered.values, remembered.ours[-1:])
    return hidden
