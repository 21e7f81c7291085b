"""An environment's overrides and the watch's findings, as the API lists them (U25, U27, U29).

Owners see what is about their own data sources alone (T12): ``owned`` are their names, None for an operator.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.edits import shown_key
from configdb_sync.errors import UnsupportedError
from configdb_sync.names import levels_of, natural_key, place_of
from configdb_sync.overrides.note_store import NoteStore
from configdb_sync.queries.override_list import ListedOverride, effect_text, listed_overrides
from configdb_sync.status_page.queries import History, SourceOwner
from configdb_sync.store.findings import FindingKind, KeptFinding
from configdb_sync.tenants.representations import moment

INEFFECTIVE, ENDING = "ineffective", "ending"
DRIFTED = frozenset({FindingKind.DRIFT, FindingKind.WITHHELD})
Item = dict[str, Any]


def overrides_there(history: History, client: ConfigDBClient, environment: int) -> Sequence[ListedOverride]:
    """Return an environment's overrides; of a server that lists none those with notes.

    The documents of noted overrides are read, one request each, only if the list or a note changed since.
    Raises ``ConfigDBError``, ``StateError``.
    """
    notes = NoteStore(client, history.database)
    try:
        listed = tuple(client.overrides_of(environment))
    except UnsupportedError:
        listed = ()
    stamp = (listed, notes.read(environment))
    if not any(stamp):
        return []
    return history.cache(
        ("overrides", environment), stamp, lambda: listed_overrides(notes, environment, None, history.masker)
    )


def override_items(
    found: Iterable[ListedOverride],
    findings: Iterable[KeptFinding],
    owners: Mapping[str, SourceOwner],
    *,
    own: bool,
) -> list[Item]:
    """Return a representation of each overridden key, by level and data source. ``own``: only of those with an owner.

    What the server doesn't tell, that Puppet reads a key from another data source, is as the watch's last round found
    it.
    """
    unread = {
        (one.finding.data_source, one.finding.level, one.finding.key): one.finding.text
        for one in findings
        if one.finding.kind is FindingKind.OVERRIDE_WITHOUT_EFFECT
    }
    items: list[Item] = []
    for one in found:
        document, levels = one.document, levels_of(one.document.place)
        owner = owners.get(document.data_source)
        if own and owner is None:
            continue
        for key in document.keys:
            # A document is that of its innermost level.
            watched = unread.get((document.data_source, place_of(levels[-1:]), shown_key((key.key,))), "")
            shared = {
                "level": dict(levels),
                "data_source": document.data_source,
                "tenant": None if owner is None else owner.tenant,
                "effect": "none" if watched else key.effect,
                "why": effect_text(key) or watched,
            }
            noted = [note for note in one.notes if note.path[0] == key.key]
            items += [
                {
                    **shared,
                    "key": list(note.path),
                    "value": one.values[note.path],
                    "author": note.author,
                    "time": _moment(note.time),
                    "reason": note.reason,
                    "until": _moment(note.until),
                }
                for note in noted
            ]
            if not noted:
                time = None if document.time is None else _moment(datetime.fromisoformat(document.time))
                more = {"author": document.author, "time": time, "reason": document.comment, "until": None}
                items.append({**shared, "key": [key.key], **more})
    return sorted(items, key=_order)


def override_marker(item: Mapping[str, Any]) -> str:
    """Return what names an override within its environment, for the next page."""
    return json.dumps([item["level"], item["data_source"], item["key"]], separators=(",", ":"))


def chosen_overrides(items: Iterable[Item], text: str, only: str, before: datetime | None) -> list[Item]:
    """Return the items that contain a text, whatever its case.

    ``only``: those without effect, or with an end; ``before``: those that end until then.
    """
    last = _moment(before)

    def wanted(item: Item) -> bool:
        if only == INEFFECTIVE and item["effect"] not in {"none", "partial"}:
            return False
        if only == ENDING and item["until"] is None:
            return False
        if last is not None and (item["until"] is None or item["until"] > last):
            return False
        parts = [*item["level"], *item["level"].values(), item["data_source"], ".".join(item["key"])]
        parts += [item["author"] or "", item["reason"] or "", json.dumps(item.get("value", ""), ensure_ascii=False)]
        return any(text.casefold() in part.casefold() for part in parts)

    return [item for item in items if wanted(item)]


def finding_items(
    found: Iterable[KeptFinding], owned: Collection[str] | None, changes: Mapping[str, Sequence[str]]
) -> list[Item]:
    """Return findings as the API shows them; ``changes``: how files differ, by the identity of the finding."""
    return [
        {
            "kind": one.finding.kind.value,
            "text": one.finding.text,
            "node": one.finding.node or None,
            "data_source": one.finding.data_source or None,
            "level": one.finding.level or None,
            "key": one.finding.key or None,
            "count": one.finding.count,
            "changes": list(changes.get(one.finding.identity, ())),
            "first_seen_at": _moment(one.first_seen),
            "last_seen_at": _moment(one.last_seen),
            "settled_at": _moment(one.settled),
        }
        for one in found
        if owned is None or one.finding.data_source in owned
    ]


def finding_marker(item: Mapping[str, Any]) -> str:
    """Return what names a finding within its environment, for the next page."""
    return json.dumps([item[name] for name in ("kind", "node", "data_source", "level", "key")], separators=(",", ":"))


def _order(item: Item) -> Any:
    return [natural_key(part) for part in item["level"].values()], item["data_source"], item["key"]


def _moment(time: datetime | None) -> str | None:
    return None if time is None else moment(int(time.timestamp() * 1_000_000))
