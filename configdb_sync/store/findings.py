"""What the watch found, since when, and whether it is settled; and each environment's last round (U29).

The status page and the metrics read this. A finding is the same one as long as its identity is, whatever its text.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection

from configdb_sync.clock import Clock
from configdb_sync.jsonvalues import canonical, packed, unpacked
from configdb_sync.names import natural_key
from configdb_sync.store.database import Database
from configdb_sync.store.schema import FINDING_CHANGES, FINDINGS, WATCH_ROUNDS

SKIPPED = "SKIPPED"
"""The outcome of a round that left the environment alone, since a run was at work; else an exit code's name."""
_KEPT = timedelta(days=30)
_AT_ONCE = 500


class FindingKind(StrEnum):
    """What is the matter."""

    DRIFT = "drift"
    WITHHELD = "withheld"
    NODE_FAILED = "node-failed"
    NODE_WITHOUT_RUN = "node-without-run"
    OVERRIDE_ENDED = "override-ended"
    OVERRIDE_WITHOUT_EFFECT = "override-without-effect"
    RUN_FAILED = "run-failed"
    RUN_MISSING = "run-missing"
    CONFIGDB_AWAY = "configdb-away"
    NODES_AWAY = "nodes-away"
    NOT_WATCHED = "not-watched"


SETTLED_BY_RUNS = frozenset(
    {
        *(FindingKind.DRIFT, FindingKind.WITHHELD, FindingKind.NODE_FAILED, FindingKind.NODE_WITHOUT_RUN),
        *(FindingKind.OVERRIDE_ENDED, FindingKind.RUN_FAILED, FindingKind.RUN_MISSING),
    }
)
"""What a run settles of the nodes that are in step after it; what is about the whole, if all are."""


@dataclass(frozen=True)
class Finding:
    """One finding about an environment, and what of it it is about; ``""`` where it is about the whole.

    ``text``: one line, without secrets. ``count``: how many keys, problems or nodes it is about. ``changes``: how a
    file differs, a line for each key, with secrets masked; they are no part of what it is.
    """

    environment: int
    kind: FindingKind
    text: str
    node: str = ""
    data_source: str = ""
    level: str = ""
    key: str = ""
    count: int = 1
    changes: tuple[str, ...] = field(default=(), compare=False, repr=False)

    @property
    def identity(self) -> str:
        """The same for the same finding at any time."""
        place = [self.environment, self.kind.value, self.node, self.data_source, self.level, self.key]
        return hashlib.sha256(canonical(place).encode("ascii")).hexdigest()[:32]


@dataclass(frozen=True)
class KeptFinding:
    """A finding with its history. ``settled``: when it no longer was so, None while it is so. ``notification``: the
    unread notification in the Fuel UI that tells of it."""

    finding: Finding
    first_seen: datetime
    last_seen: datetime
    settled: datetime | None = None
    notification: int | None = None


@dataclass(frozen=True)
class WatchRound:
    """An environment's last round: when, its outcome (``SKIPPED`` or an exit code's name), and why in words.

    ``complete``: when the last round with a plan ended; the counts are of that one, None before it. ``expiring``:
    overrides that end soon.
    """

    environment: int
    started: datetime
    finished: datetime
    outcome: str
    text: str = ""
    complete: datetime | None = None
    nodes: int | None = None
    overrides: int | None = None
    expiring: int | None = None


@dataclass(frozen=True)
class Findings:
    """The findings in the product's own database. Raises ``StateError`` if it can't be used."""

    database: Database
    clock: Clock

    def keep(self, environment: int, found: Iterable[Finding], settles: Callable[[Finding], bool]) -> None:
        """Note what a round found. Of what it no longer found, that is settled of which ``settles`` says so."""
        now = self.clock.now().timestamp()
        wanted = {one.identity: one for one in found}

        def work(connection: Connection) -> None:
            here = FINDINGS.c.environment == environment
            rows = {row.identity: row for row in connection.execute(sa.select(FINDINGS).where(here))}
            for identity, one in wanted.items():
                told = {"text": one.text, "count": one.count, "last_seen": now}
                if identity not in rows:
                    row = asdict(replace(one, changes=())) | told | {"identity": identity, "first_seen": now}
                    del row["changes"]
                    connection.execute(sa.insert(FINDINGS).values(**row))
                    continue
                if rows[identity].settled is not None:
                    told |= {"first_seen": now, "settled": None}
                connection.execute(sa.update(FINDINGS).where(FINDINGS.c.identity == identity).values(**told))
            gone = [
                identity
                for identity, row in rows.items()
                if identity not in wanted and row.settled is None and settles(_finding(row))
            ]
            _settle(connection, gone, now)
            old = sa.and_(FINDINGS.c.settled < now - _KEPT.total_seconds(), FINDINGS.c.notification.is_(None))
            connection.execute(sa.delete(FINDINGS).where(here, old))
            _keep_changes(connection, wanted)

        self.database.write(work)

    def settle(self, environment: int, kinds: Collection[FindingKind], nodes: Collection[str] | None = None) -> None:
        """Settle the open findings of these kinds, and with ``nodes`` only what is about these; ``""`` is the whole."""
        now = self.clock.now().timestamp()
        there = [
            one.finding.identity
            for one in self.open(environment)
            if one.finding.kind in kinds and (nodes is None or one.finding.node in nodes)
        ]
        if there:
            self.database.write(lambda connection: _settle(connection, there, now))

    def open(self, environment: int | None = None) -> list[KeptFinding]:
        """Return what is so now, of one environment or all, by environment, node and kind."""
        query = sa.select(FINDINGS).where(FINDINGS.c.settled.is_(None))
        return self._kept(query if environment is None else query.where(FINDINGS.c.environment == environment))

    def changes(self, environment: int) -> dict[str, tuple[str, ...]]:
        """Return how files differ, by the identity of the finding about it."""
        joined = FINDING_CHANGES.join(FINDINGS, FINDINGS.c.identity == FINDING_CHANGES.c.finding)
        query = sa.select(FINDING_CHANGES).select_from(joined).where(FINDINGS.c.environment == environment)
        rows = self.database.read(lambda connection: connection.execute(query).all())
        return {row.finding: tuple(map(str, unpacked(row.body)["changes"])) for row in rows}

    def settled_since(self, moment: datetime, environment: int | None = None) -> list[KeptFinding]:
        """Return what was settled since then; it is kept for 30 days."""
        query = sa.select(FINDINGS).where(FINDINGS.c.settled >= moment.timestamp())
        return self._kept(query if environment is None else query.where(FINDINGS.c.environment == environment))

    def counts(self) -> dict[int, dict[FindingKind, tuple[int, int]]]:
        """Return by environment and kind how many findings are open, and the sum of what they count."""
        query = (
            sa.select(FINDINGS.c.environment, FINDINGS.c.kind, sa.func.count(), sa.func.sum(FINDINGS.c.count))
            .where(FINDINGS.c.settled.is_(None))
            .group_by(FINDINGS.c.environment, FINDINGS.c.kind)
        )
        found: dict[int, dict[FindingKind, tuple[int, int]]] = {}
        for environment, kind, number, whole in self.database.read(lambda one: one.execute(query).all()):
            found.setdefault(environment, {})[FindingKind(kind)] = number, int(whole)
        return found

    def notified(self, found: Iterable[Finding], notification: int) -> None:
        """Note that a notification tells of these findings."""
        there = [one.identity for one in found]
        self.database.write(lambda connection: _update(connection, there, notification=notification))

    def notified_and_settled(self, environment: int) -> list[int]:
        """Return the notifications of which nothing is open any more."""
        still = FINDINGS.alias("still")
        open_too = sa.exists().where(still.c.notification == FINDINGS.c.notification, still.c.settled.is_(None))
        query = (
            sa.select(FINDINGS.c.notification)
            .where(FINDINGS.c.environment == environment, FINDINGS.c.notification.is_not(None), ~open_too)
            .distinct()
        )
        return sorted(self.database.read(lambda connection: connection.execute(query).scalars().all()))

    def was_read(self, notification: int) -> None:
        """Forget a notification: it was marked as read."""
        there = FINDINGS.c.notification == notification
        self.database.write(lambda one: one.execute(sa.update(FINDINGS).where(there).values(notification=None)))

    def keep_round(self, done: WatchRound) -> None:
        """Note an environment's last round; without counts those of the last complete one stay."""
        row = {name: value.timestamp() if isinstance(value, datetime) else value for name, value in vars(done).items()}
        here = WATCH_ROUNDS.c.environment == done.environment
        told = row if done.complete is not None else {name: row[name] for name in _TOLD}

        def work(connection: Connection) -> None:
            if not connection.execute(sa.update(WATCH_ROUNDS).where(here).values(**told)).rowcount:
                connection.execute(sa.insert(WATCH_ROUNDS).values(**row))

        self.database.write(work, meeting=True)

    def rounds(self) -> dict[int, WatchRound]:
        """Return each environment's last round."""
        rows = self.database.read(lambda connection: connection.execute(sa.select(WATCH_ROUNDS)).mappings().all())
        found = [WatchRound(**{name: _value(name, value) for name, value in row.items()}) for row in rows]
        return {one.environment: one for one in sorted(found, key=lambda one: one.environment)}

    def forget(self, environment: int) -> None:
        """Settle all of an environment that is no more, and drop its round."""
        self.settle(environment, tuple(FindingKind))
        here = WATCH_ROUNDS.c.environment == environment
        self.database.write(lambda connection: connection.execute(sa.delete(WATCH_ROUNDS).where(here)))

    def _kept(self, query: sa.Select[Any]) -> list[KeptFinding]:
        rows = self.database.read(lambda connection: connection.execute(query).all())
        found = [
            KeptFinding(
                _finding(row),
                datetime.fromtimestamp(row.first_seen, UTC),
                datetime.fromtimestamp(row.last_seen, UTC),
                None if row.settled is None else datetime.fromtimestamp(row.settled, UTC),
                row.notification,
            )
            for row in rows
        ]
        return sorted(found, key=_order)


_TOLD = ("started", "finished", "outcome", "text")
_TIMES = frozenset({"started", "finished", "complete"})


def _order(one: KeptFinding) -> tuple[Any, ...]:
    found = one.finding
    return found.environment, natural_key(found.node), found.kind.value, found.data_source, found.level, found.key


def _value(name: str, value: Any) -> Any:
    return datetime.fromtimestamp(value, UTC) if name in _TIMES and value is not None else value


def _finding(row: Any) -> Finding:
    of: Mapping[str, Any] = row._mapping  # noqa: SLF001 SQLAlchemy's own name for it
    names = ("environment", "text", "node", "data_source", "level", "key", "count")
    return Finding(kind=FindingKind(of["kind"]), **{name: of[name] for name in names})


def _keep_changes(connection: Connection, wanted: Mapping[str, Finding]) -> None:
    identities = list(wanted)
    for start in range(0, len(identities), _AT_ONCE):
        some = FINDING_CHANGES.c.finding.in_(identities[start : start + _AT_ONCE])
        connection.execute(sa.delete(FINDING_CHANGES).where(some))
    rows = [
        {"finding": identity, "body": packed({"changes": list(one.changes)})}
        for identity, one in wanted.items()
        if one.changes
    ]
    if rows:
        connection.execute(sa.insert(FINDING_CHANGES), rows)
    there = sa.select(FINDINGS.c.identity)
    connection.execute(sa.delete(FINDING_CHANGES).where(FINDING_CHANGES.c.finding.not_in(there)))


def _settle(connection: Connection, identities: list[str], now: float) -> None:
    _update(connection, identities, settled=now)


def _update(connection: Connection, identities: list[str], **values: Any) -> None:
    for start in range(0, len(identities), _AT_ONCE):
        some = FINDINGS.c.identity.in_(identities[start : start + _AT_ONCE])
        connection.execute(sa.update(FINDINGS).where(some).values(**values))
