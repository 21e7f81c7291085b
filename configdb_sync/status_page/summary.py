"""What happened in environments since a time, as Markdown for people who were not there (U14, U27, U29)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from configdb_sync.configdb.edits import shown_key
from configdb_sync.errors import UnsupportedError
from configdb_sync.names import levels_of
from configdb_sync.status_page.api import StatusApi
from configdb_sync.status_page.html import value_text
from configdb_sync.status_page.page_urls import level_name
from configdb_sync.store.runs import AT_WORK
from configdb_sync.sync.render.markdown import code
from configdb_sync.sync.render.wording import count
from configdb_sync.tenants.paths import ResourcePath

MOST = 50
"""Lines of one kind, and documents whose history is read; the rest is counted."""


def summary_lines(
    api: StatusApi, environments: Iterable[Mapping[str, Any]], since: datetime, now: datetime
) -> Iterator[str]:
    """Yield the lines of a summary of environments, which are as ``StatusApi.environments`` gives them.

    Overrides that end within as long a time from now on as has passed since then are named. Raises ``RefusalError``,
    ``ConfigDBError``, ``StateError``.
    """
    yield f"# ConfigDB from {_minute(since.isoformat())} to {_minute(now.isoformat())} UTC"
    for one in environments:
        number = one["environment"]
        yield from ("", f"## Environment {number}", "")
        details = f": {code(one['status_details'])}" if one["status_details"] else ""
        yield f"{one['status'] or 'unknown'}{details}, {count(one['resource_count'], 'data source')}."
        yield from _runs(api, number, since)
        yield from _listed("Overrides changed", _changes(api, number, since))
        overrides = api.overrides(None, number, _all(api)).view["overrides"]
        ending = [item for item in overrides if item["until"] and _moment(item["until"]) <= now + (now - since)]
        yield from _listed(
            "Overrides that end soon", (f"{_override(item)}, until {_minute(item['until'])}" for item in ending)
        )
        idle = [item for item in overrides if item["effect"] in {"none", "partial"}]
        yield from _listed("Overrides without effect", (f"{_override(item)}: {item['why']}" for item in idle))
        findings = api.findings(None, number, _all(api), since).view
        yield from _listed("Open findings", map(_finding, findings["findings"]))
        yield from _listed("Settled findings", map(_finding, findings["settled"]))


def _runs(api: StatusApi, number: int, since: datetime) -> Iterator[str]:
    runs = [one for one in api.runs(None, number, _all(api)).view["runs"] if _moment(one["started_at"]) >= since]
    bad = [one for one in runs if one["outcome"] not in {"OK", AT_WORK}]
    written = sum(one["writes"] or 0 for one in runs)
    yield from ("", f"{count(len(runs), 'run')}, {len(bad)} with problems; {count(written, 'file')} written on nodes.")
    yield from _listed(
        "Runs with problems",
        (
            f"{_minute(one['started_at'])}: {one['outcome']}, {count(one['nodes_failed'], 'node')} failed,"
            f" by {code(one['author'])} ({code(one['run'])})"
            for one in bad
        ),
    )


def _changes(api: StatusApi, number: int, since: datetime) -> Iterator[str]:
    """Yield what each version of the overrides since then changed, and whose it is."""
    if api.context.client is None:
        return
    documents = []
    with contextlib.suppress(UnsupportedError):  # This server lists no overrides.
        documents = [
            one
            for one in api.context.client().overrides_of(number)
            if one.time is not None and datetime.fromisoformat(one.time) >= since
        ]
    owners = api.owners(number, None)
    for document in documents[:MOST]:
        owner = owners.get(document.data_source)
        if owner is None or owner.tenant is None or owner.resource is None or owner.resource.definition is None:
            continue
        level = level_name(dict(levels_of(document.place)))
        place = ResourcePath(owner.tenant, number, document.data_source)
        view = api.document(place, owner.resource, {"show": "history", "level": level, "limit": str(MOST)}).view
        older = view["versions_next"] is not None
        for version in view["versions"]:
            if datetime.fromisoformat(version["time"]) < since:
                older = False
                break
            about = f"{_minute(version['time'])} {code(version['author'] or '?')}"
            why = f": {code(version['comment'])}" if version["comment"] else ""
            for change in version["changes"] or ():
                values = " -> ".join(part or "nothing" for part in (change["before"], change["after"]))
                key = shown_key(tuple(change["key"]))
                where = f"{document.data_source} at {level or 'the root'}"
                yield f"{code(f'{key}: {values}')} in {code(where)}, {about}{why}"
        if older:
            yield f"and older changes of {code(f'{document.data_source} at {level}')}"
    if len(documents) > MOST:
        yield f"and of {len(documents) - MOST} more data sources"


def _listed(title: str, lines: Iterable[str]) -> Iterator[str]:
    found = list(lines)
    if not found:
        return
    yield from ("", f"### {title}", "")
    yield from (f"- {line}" for line in found[:MOST])
    if len(found) > MOST:
        yield f"- and {len(found) - MOST} more"


def _override(item: Mapping[str, Any]) -> str:
    value = f" = {value_text(item['value'])}" if "value" in item else ""
    where = f"{item['data_source']} at {level_name(item['level']) or 'the root'}"
    reason = f", {code(item['reason'])}" if item["reason"] else ""
    return f"{code(shown_key(tuple(item['key'])) + value)} in {code(where)}, {code(item['author'] or '?')}{reason}"


def _finding(item: Mapping[str, Any]) -> str:
    about = [f"node {item['node']}" if item["node"] else "", item["data_source"], item["level"], item["key"]]
    where = " ".join(code(part) for part in about if part)
    return f"{item['kind']}{f' {where}' if where else ''}: {code(item['text'])}, since {_minute(item['first_seen_at'])}"


def _all(api: StatusApi) -> dict[str, str]:
    return {"limit": str(api.context.limits.longest)}


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _minute(text: str) -> str:
    return text[:16].replace("T", " ")
