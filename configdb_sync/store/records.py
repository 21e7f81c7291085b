"""The product's memory of each document: what was uploaded, what the file held, the node's own text (U18).

A record is small: only hidden keys are kept with their whole contents. Before a file is written its record names both
contents, the one that was read and the one that will be there; after the write only the second. So it is known what the
file holds, whenever a run is killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.hiera.rewriting import KeptText
from configdb_sync.jsonvalues import ABSENT, Json, Slot, packed, unpacked
from configdb_sync.store.database import Database
from configdb_sync.store.schema import FINGERPRINTS, LEASES, NODES, RECORDS, next_number


@dataclass(frozen=True)
class HiddenKey:
    """What is remembered of a key whose content in the file is not, or may not be, the node's own."""

    values: Slot
    ours: tuple[Slot, ...]


@dataclass(frozen=True)
class Record:
    """What is remembered of one document of one node.

    ``values`` is the digest of the document last uploaded. ``files`` are the sha256 of the contents that the file
    may have (None: no file): one, or two while a write is unconfirmed. ``kept`` is the node's own text of what
    we replaced (``HieraDocument.rewritten``), ``marks`` the types that JSON lacks in it. ``created``: the file
    is there for an override alone. ``unsettled`` are the keys that were ambiguous: they are judged anew each time.
    ``restored``: it comes from a backup, and what happened to the file since isn't known.
    """

    values: str
    files: tuple[str | None, ...]
    hidden: Mapping[str, HiddenKey] = field(default_factory=dict, repr=False)
    kept: Mapping[str, KeptText] = field(default_factory=dict, repr=False)
    marks: Mapping[str, Json] = field(default_factory=dict, repr=False)
    created: bool = False
    unsettled: tuple[str, ...] = ()
    restored: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether the file held what the node means, and nothing else."""
        return not (self.hidden or self.unsettled or self.created or self.restored)


def encode(record: Record) -> bytes:
    """Return a record as bytes; ``decode`` gives the same record back."""
    body = {
        "values": record.values,
        "files": list(record.files),
        "hidden": {
            key: {"values": _boxed(hidden.values), "ours": [_boxed(own) for own in hidden.ours]}
            for key, hidden in record.hidden.items()
        },
        "kept": {key: [kept.text, *kept.written] for key, kept in record.kept.items()},
        "marks": dict(record.marks),
        "created": record.created,
        "unsettled": list(record.unsettled),
        **({"restored": True} if record.restored else {}),
    }
    return packed(body)


def decode(body: bytes) -> Record:
    """Return the record that ``encode`` made the bytes of."""
    found = unpacked(body)
    return Record(
        values=found["values"],
        files=tuple(found["files"]),
        hidden={
            key: HiddenKey(_unboxed(hidden["values"]), tuple(map(_unboxed, hidden["ours"])))
            for key, hidden in found["hidden"].items()
        },
        kept={key: KeptText(text, tuple(written)) for key, (text, *written) in found["kept"].items()},
        marks=found["marks"],
        created=found["created"],
        unsettled=tuple(found["unsettled"]),
        restored=found.get("restored", False),
    )


def _boxed(slot: Slot) -> list[Json]:
    return [] if slot is ABSENT else [slot]


def _unboxed(box: list[Json]) -> Slot:
    return box[0] if box else ABSENT


class Records:
    """The records of one environment's nodes at one place, in the product's own database."""

    def __init__(self, database: Database, place: str, environment: int, run: str) -> None:
        self._database = database
        self._place = {"place": place, "environment": environment}
        self._run = run

    def of_node(self, node: str) -> dict[str, Record]:
        """Return the node's records by data source."""
        query = sa.select(RECORDS.c.data_source, RECORDS.c.body).where(self._here(RECORDS), RECORDS.c.node == node)
        rows = self._database.read(lambda connection: connection.execute(query).all())
        return {name: decode(body) for name, body in rows}

    def left_elsewhere(self, node: str) -> dict[str, Record]:
        """Return the node's records of other environments that are newer than those of this one, by data source.

        A node whose files move to another environment takes our writing along (U18).
        """
        query = sa.select(RECORDS).where(RECORDS.c.node == node).order_by(RECORDS.c.number)
        rows = self._database.read(lambda connection: connection.execute(query).all())
        newest = {row.data_source: row for row in rows}
        here = self._place["environment"]
        return {name: decode(row.body) for name, row in newest.items() if row.environment != here}

    def store(self, node: str, records: Mapping[str, Record]) -> None:
        """Replace the node's records of the given data sources, durably, all or none."""
        if not records:
            return
        about = {**self._place, "node": node, "run": self._run}
        rows = [{**about, "data_source": name, "body": encode(record)} for name, record in records.items()]

        def work(connection: Connection) -> None:
            number = next_number(connection, RECORDS.c.number)
            self._delete(connection, node, records)
            connection.execute(sa.insert(RECORDS), [{**row, "number": number} for row in rows])

        self._database.write(work)

    def forget(self, node: str, data_sources: Iterable[str]) -> None:
        """Drop records of documents that are neither stored nor on the node any more."""
        names = list(data_sources)
        if names:
            self._database.write(lambda connection: self._delete(connection, node, names))

    def saw(self, names: Mapping[str, str]) -> None:
        """Remember the FQDNs of nodes, by identity."""
        here = self._here(NODES)

        rows = self._database.read(
            lambda connection: connection.execute(sa.select(NODES.c.node, NODES.c.fqdn).where(here)).all()
        )
        known = {row.node: row.fqdn for row in rows}
        new = {node: fqdn for node, fqdn in names.items() if known.get(node) != fqdn}
        if not new:
            return

        def work(connection: Connection) -> None:
            connection.execute(sa.delete(NODES).where(here, NODES.c.node.in_(list(new))))
            about = {**self._place, "run": self._run}
            connection.execute(sa.insert(NODES), [{**about, "node": node, "fqdn": fqdn} for node, fqdn in new.items()])

        self._database.write(work)

    def fingerprint(self, node: str) -> bytes | None:
        """Return what ``keep_fingerprints`` kept of a node."""
        query = sa.select(FINGERPRINTS.c.body).where(self._here(FINGERPRINTS), FINGERPRINTS.c.node == node)
        found: bytes | None = self._database.read(lambda connection: connection.execute(query).scalar())
        return found

    def keep_fingerprints(self, nodes: Mapping[str, bytes]) -> None:
        """Remember the fingerprints of nodes on which nothing is left to do."""
        if not nodes:
            return
        rows = [{**self._place, "node": node, "body": body} for node, body in nodes.items()]

        def work(connection: Connection) -> None:
            here = self._here(FINGERPRINTS), FINGERPRINTS.c.node.in_(list(nodes))
            connection.execute(sa.delete(FINGERPRINTS).where(*here))
            connection.execute(sa.insert(FINGERPRINTS), rows)

        self._database.write(work)

    def _delete(self, connection: Connection, node: str, names: Iterable[str]) -> None:
        here = self._here(RECORDS), RECORDS.c.node == node, RECORDS.c.data_source.in_(list(names))
        connection.execute(sa.delete(RECORDS).where(*here))

    def _here(self, table: sa.Table) -> sa.ColumnElement[bool]:
        return sa.and_(*(table.c[name] == value for name, value in self._place.items()))


def distrust(database: Database) -> None:
    """Mark all records as restored from a backup: they may be older than the nodes' files. No run is at work."""

    def work(connection: Connection) -> None:
        for row in connection.execute(sa.select(RECORDS)).mappings().all():
            here = sa.and_(*(column == row[column.name] for column in RECORDS.primary_key))
            body = encode(replace(decode(row["body"]), restored=True))
            connection.execute(sa.update(RECORDS).where(here).values(body=body))
        connection.execute(sa.delete(FINGERPRINTS))
        connection.execute(sa.delete(LEASES))

    database.write(work)


def remembered(database: Database, environment: int) -> dict[str, dict[str, dict[str, Record]]]:
    """Return all that is remembered of an environment: records by node, place and data source.

    A node that was only seen has a place without records.
    """
    seen = sa.select(NODES.c.node, NODES.c.place).where(NODES.c.environment == environment)
    kept = sa.select(RECORDS.c.node, RECORDS.c.place, RECORDS.c.data_source, RECORDS.c.body)

    def work(connection: Connection) -> dict[str, dict[str, dict[str, Record]]]:
        found: dict[str, dict[str, dict[str, Record]]] = {}
        for node, place in connection.execute(seen):
            found.setdefault(node, {}).setdefault(place, {})
        for node, place, name, body in connection.execute(kept.where(RECORDS.c.environment == environment)):
            found.setdefault(node, {}).setdefault(place, {})[name] = decode(body)
        return found

    return database.read(work)


def names_seen(database: Database, environment: int) -> dict[str, tuple[str, ...]]:
    """Return the FQDNs under which nodes of an environment were seen, wherever they were read, by identity."""
    query = sa.select(NODES.c.node, NODES.c.fqdn).where(NODES.c.environment == environment)
    rows = database.read(lambda connection: connection.execute(query.order_by(NODES.c.place)).all())
    found: dict[str, tuple[str, ...]] = {}
    for row in rows:
        found[row.node] = (*found.get(row.node, ()), row.fqdn)
    return found


def forget_documents(
    database: Database, environment: int, node: str, places: Iterable[str], data_sources: Iterable[str]
) -> None:
    """Drop the records of a node's documents at these places; where none is left, the node itself."""
    where, names = list(places), list(data_sources)

    def work(connection: Connection) -> None:
        here = sa.and_(RECORDS.c.environment == environment, RECORDS.c.node == node, RECORDS.c.place.in_(where))
        connection.execute(sa.delete(RECORDS).where(here, RECORDS.c.data_source.in_(names)))
        left = connection.execute(sa.select(RECORDS.c.place).where(here)).scalars()
        gone = set(where) - set(left)
        seen = NODES.c.environment == environment, NODES.c.node == node, NODES.c.place.in_(sorted(gone))
        connection.execute(sa.delete(NODES).where(*seen))

    database.write(work)
