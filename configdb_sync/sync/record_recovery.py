"""Which record applies to a document (U18): our own, the one of ConfigDB's digests, or another environment's.

Other environments are asked for documents that neither we nor ConfigDB remember here: a node that came from another
environment brought that one's overrides along.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from configdb_sync.addresses import Addresses, from_records
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import Definition, Environment, ServerKind
from configdb_sync.errors import NodeError
from configdb_sync.jsonvalues import ABSENT, EMPTY_DIGEST, Document, Json, same
from configdb_sync.names import RECORDS, LevelPath, records_component
from configdb_sync.store.records import HiddenKey, Record
from configdb_sync.sync.node_records import FROM_NAILGUN, DigestRecord, from_json, reconciled, recovered, to_json
from configdb_sync.sync.node_work import ExaminedDocument
from configdb_sync.sync.remote_node import RemoteNode
from configdb_sync.sync.three_way_merge import equal, key_value


@dataclass(frozen=True)
class NodeRecords:
    """What is remembered of one node, by data source.

    ``own`` are our records of it in this environment, ``elsewhere`` newer ones of other environments, ``stored`` what
    ConfigDB has; ``hierarchy`` is the node's, which it may keep beside them. ``others`` returns the digests of a
    document's records in other environments, with the values there.
    """

    own: Mapping[str, Record]
    elsewhere: Mapping[str, Record]
    stored: RemoteNode
    hierarchy: Json = None
    others: Callable[[str], Iterable[tuple[DigestRecord, Document]]] = lambda _: ()

    @functools.cached_property
    def unknown(self) -> bool:
        """Whether nothing is remembered of the node in this environment."""
        return not self.own and not self.stored.records()

    @functools.cached_property
    def _agreed(self) -> bool:
        return self.stored.agrees({name: to_json(record) for name, record in self.own.items()}, self.hierarchy)

    @functools.cached_property
    def _restored(self) -> bool:
        return any(record.restored for record in self.own.values())

    def told(self, subject: ExaminedDocument) -> ExaminedDocument:
        """Return the subject with the record to go on with."""
        own, elsewhere = self.own.get(subject.data_source), self.elsewhere.get(subject.data_source)
        subject = replace(subject, record=own if self._agreed else recall(own, subject, self.stored))
        subject = doubted(subject, self.stored, restored=self._restored)
        file, document = subject.file, subject.document
        if file is None or document is None:
            return written_over(subject)
        if elsewhere is not None and (own is None or file.sha256 not in own.files):
            subject = moved(subject, elsewhere, file.sha256)
        if own is None and (elsewhere is None or elsewhere.restored):
            for digests, values in self.others(subject.data_source):
                subject = moved(subject, left_behind(digests, document.values, values, file.sha256), file.sha256)
        return written_over(subject)


def recall(own: Record | None, subject: ExaminedDocument, stored: RemoteNode) -> Record | None:
    """Return the record to go on with, where our own ones and ConfigDB's of the node aren't the same."""
    kept = stored.records().get(subject.data_source)
    digests = from_json(kept)
    if digests is None or (own is not None and (kept == FROM_NAILGUN or same(to_json(own), kept))):
        return own
    file = None if subject.document is None else subject.document.values
    values = stored.values(subject.data_source) if digests.hidden else {}
    found = recovered(digests, file, values, None if subject.file is None else subject.file.sha256)
    return found if own is None else reconciled(own, digests, found, file)


def doubted(subject: ExaminedDocument, stored: RemoteNode, *, restored: bool) -> ExaminedDocument:
    """Return the subject of a node whose records a backup brought back (``restored``).

    In a file that isn't as its record says, what is new may be the node's word or an override that was written after
    the backup: all its keys are left to be settled by their leaves. So they are where there is no record.
    """
    record, document = subject.record, subject.document
    if not restored or document is None or subject.file is None:
        return subject
    if record is None:
        return replace(subject, unrecorded=True)
    if not record.restored or subject.file.sha256 in record.files:
        return subject
    keys = dict.fromkeys([*document.values, *stored.values(subject.data_source)])
    return replace(subject, record=replace(record, unsettled=tuple(keys)))


def moved(subject: ExaminedDocument, former: Record, sha256: str) -> ExaminedDocument:
    """Return the subject of a file (with this digest) that lay in another environment before, with that one's record.

    If the file is as that environment left it, it is what the record says. Else the keys that still show its
    writing, and those that were ambiguous there, are ambiguous: the node may have taken its files along, or have been
    installed anew with such values. So are those that show the writing of this environment from before.

    A record that came of digests alone names no files: it may be the older one of the two.
    """
    record, found = subject.record, {} if subject.document is None else subject.document.values
    if sha256 in former.files:
        return replace(subject, record=replace(former, values="" if record is None else record.values))
    known = record or Record(values="", files=(sha256,))
    here, there = _showing(known, found), _showing(former, found)
    doubtful = {
        key: HiddenKey(hidden.values, ())
        for key, hidden in {**there, **(here if former.files else {})}.items()
        if key not in here or (former.files and not _agree(here[key], there.get(key)))
    }
    if not doubtful:
        return subject
    keys = dict.fromkeys([*(found if subject.unrecorded else ()), *known.unsettled, *doubtful])
    kept, hidden = {**known.kept, **former.kept}, {**known.hidden, **doubtful}
    return replace(subject, record=replace(known, hidden=hidden, kept=kept, unsettled=tuple(keys)))


def left_behind(digests: DigestRecord, file: Document, values: Document, sha256: str) -> Record:
    """Return the record that another environment's digests and values tell of a file that lay there.

    Digests don't tell whether the file is as that environment left it, unless it was made for an override.
    """
    found = recovered(digests, file, values, sha256)
    hidden = {key: HiddenKey(values.get(key, ABSENT), ()) for key in found.unsettled if _in_doubt(digests, key)}
    return replace(
        found,
        files=found.files if found.created else (),
        hidden={**hidden, **found.hidden},
        unsettled=tuple(key for key in found.unsettled if key in hidden),
    )


def _in_doubt(digests: DigestRecord, key: str) -> bool:
    # Of an override that only leaves things out no leaf is known.
    return key in digests.unsettled or not digests.hidden[key].leaves


def _showing(record: Record, found: Document) -> dict[str, HiddenKey]:
    """Return the hidden keys of a record in whose content there is our writing, or may be."""
    return {
        key: hidden
        for key, hidden in record.hidden.items()
        if key in found
        and not equal(hidden.values, found[key])
        and (key in record.unsettled or not equal(key_value(hidden, found[key]), found[key]))
    }


def _agree(one: HiddenKey, other: HiddenKey | None) -> bool:
    return other is not None and equal(one.values, other.values)


def written_over(subject: ExaminedDocument) -> ExaminedDocument:
    """Return the subject, whose file is the node's if we made it and the node wrote it since (U23)."""
    record, file = subject.record, subject.file
    if record is None or not record.created or (file is not None and file.sha256 in record.files):
        return subject
    return replace(subject, record=replace(record, created=False))


def changed_by_others(stored: str, meant: str, record: Record) -> bool:
    """Tell by its digest whether the stored document is neither what we sent last nor what we are to send."""
    return bool(record.values) and stored not in {record.values, meant, EMPTY_DIGEST}


class Elsewhere:
    """The other environments as one run sees them. Safe for several threads; each thing is read once.

    Every method raises ``ConfigDBError`` as the client does.
    """

    def __init__(self, client: ConfigDBClient, environment: int) -> None:
        self._client = client
        self._environment = environment
        self._lock = threading.Lock()

    def of_node(self, levels: LevelPath, facts: Mapping[str, Json]) -> NodeElsewhere:
        """Return what they keep of the node at these levels, with these facts; nothing is asked yet."""
        return NodeElsewhere(self, levels, facts)

    @functools.cached_property
    def _others(self) -> tuple[_Other, ...]:
        """The other environments that keep records."""
        environments = [one for one in self._client.environments() if one.id != self._environment]
        components = {one.id: one for one in self._client.components()} if environments else {}
        found = []
        for environment in environments:
            names = {one.name: one for one in map(components.get, environment.components) if one is not None}
            own = names.pop(records_component(environment.id), None)
            records = None if own is None else next((one for one in own.definitions if one.name == RECORDS), None)
            if records is not None:
                known = {one.name: one for component in names.values() for one in component.definitions}
                found.append(_Other(self._client, environment, records, known))
        return tuple(found)

    def with_node(self, levels: LevelPath, facts: Mapping[str, Json]) -> Iterator[tuple[_Other, LevelPath]]:
        """Yield the environments that have documents of a node, with its place there."""
        with self._lock:
            others = self._others
            places = [(other, other.place(levels, facts)) for other in others]
        yield from ((other, place) for other, place in places if place is not None)


class _Other:
    def __init__(
        self, client: ConfigDBClient, environment: Environment, records: Definition, known: Mapping[str, Definition]
    ) -> None:
        self._client = client
        self._environment = environment
        self._records = records
        self._known = known
        self._level_values: dict[str, tuple[str, ...]] = {}

    @functools.cached_property
    def _noted(self) -> tuple[Addresses, ...] | None:
        """Its levels, each for itself, as runs noted them; None if they didn't."""
        noted = from_records(self._client.values(self._environment.id, (), self._records.id))
        return None if noted is None else tuple(Addresses(self._environment.id, (level,)) for level in noted)

    def _told(self, levels: LevelPath, facts: Mapping[str, Json]) -> dict[str, str]:
        """Return the values that its levels have for a node that has these levels elsewhere, as far as facts tell."""
        if self._noted is None:
            return dict(levels)
        found: dict[str, str] = {}
        for level in self._noted:
            with contextlib.suppress(NodeError):
                found |= level.of_facts({**facts, "deployment_id": self._environment.id})
        return found

    def place(self, levels: LevelPath, facts: Mapping[str, Json]) -> LevelPath | None:
        """Return the place of a node that has these levels elsewhere; None if nothing is stored of it here."""
        known, place = self._told(levels, facts), []
        name = next(iter(self._environment.levels[-1:]), None)
        node = None if name is None else known.get(name)
        if name is None or node is None:
            return None
        for outer in self._environment.levels[:-1]:
            # A document of the last level is the same whatever values the levels over it have.
            value = known.get(outer) or next(iter(self._values_of(outer)), None)
            if value is None:
                return None
            place.append((outer, value))
        there = self._client.server() is ServerKind.LEGACY or node in self._values_of(name)
        return (*place, (name, node)) if there else None

    def _values_of(self, level: str) -> tuple[str, ...]:
        if self._client.server() is ServerKind.LEGACY:
            return ()
        if level not in self._level_values:
            self._level_values[level] = self._client.level_values(self._environment.id, level)
        return self._level_values[level]

    def kept(self, place: LevelPath) -> dict[str, Json]:
        """Return the digests of a node's records, by data source."""
        return self._client.values(self._environment.id, place, self._records.id)

    def values(self, place: LevelPath, data_source: str) -> dict[str, Json]:
        """Return a node's values."""
        definition = self._known.get(data_source)
        return {} if definition is None else self._client.values(self._environment.id, place, definition.id)


class NodeElsewhere:
    """What the other environments keep of one node. Used by one thread."""

    def __init__(self, elsewhere: Elsewhere, levels: LevelPath, facts: Mapping[str, Json]) -> None:
        self._elsewhere = elsewhere
        self._levels = levels
        self._facts = facts

    @functools.cached_property
    def _kept(self) -> list[tuple[_Other, LevelPath, dict[str, Json]]]:
        return [
            (other, place, other.kept(place)) for other, place in self._elsewhere.with_node(self._levels, self._facts)
        ]

    def of(self, data_source: str) -> Iterator[tuple[DigestRecord, Document]]:
        """Yield the digests of our record of a document, and its values, of each that has something of ours in it."""
        for other, place, kept in self._kept:
            digests = from_json(kept.get(data_source))
            if digests is not None and (digests.hidden or digests.unsettled or digests.created):
                yield digests, other.values(place, data_source)
