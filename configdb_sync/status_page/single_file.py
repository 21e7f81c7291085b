"""The status page as one file that needs no service: environments, nodes, runs, and documents."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from configdb_sync.errors import ConfigDBError, UnsupportedError
from configdb_sync.status_page import html
from configdb_sync.status_page.api import StatusApi
from configdb_sync.status_page.page_urls import Links
from configdb_sync.status_page.queries import SourceOwner
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.web.refusals import RefusalError
from configdb_sync.web.requests import encoded

MOST_DOCUMENTS = 100
MOST_LEAVES = 5000
"""Limits of an environment's documents in the file; overridden ones go first, the rest is counted."""
_RUNS = 50


@dataclass(frozen=True)
class FileLinks(Links):
    """Links within the file. ``whole``: numbers of environments with all their documents in it."""

    scope: str | None = None
    joint: str = "-"
    whole: set[int] = field(default_factory=set)

    def environment(self, environment: int) -> str:
        """As ``Links``."""
        return f"#e-{environment}"

    def runs(self, environment: int) -> str:
        """As ``Links``."""
        return f"#r-{environment}"

    def run(self, environment: int, run: str) -> str | None:
        """As ``Links``: a run has no section of its own."""
        del environment, run
        return None

    def findings(self, environment: int) -> str:
        """As ``Links``: findings are not in the file."""
        del environment
        return ""

    def source(self, tenant: str, environment: int, name: str) -> str | None:
        """As ``Links``."""
        del tenant
        return f"#d-{environment}-{encoded(name)}" if environment in self.whole else None


def page(api: StatusApi, now: datetime, only: int | None = None) -> str:
    """Return the page; ``only``: this environment. Raises ``RefusalError`` 404 if it doesn't exist."""
    links = FileLinks()
    listed = api.environments({"limit": str(api.context.limits.longest)})
    numbers = [one["environment"] for one in listed.view["environments"]]
    if only is not None:
        listed.view["environments"] = [one for one in listed.view["environments"] if one["environment"] == only]
        numbers = [only]
    sections = [_section(api, number, links) for number in numbers]
    page = {**html.frame(now), "policy": html.policy(served=False)}
    return html.render("file.html", **page, view=listed.view, links=links, sections=sections)


def _section(api: StatusApi, number: int, links: FileLinks) -> dict[str, Any]:
    matrix = api.matrix(None, number, {}).view
    documents, left, trouble = _documents(api, number, matrix)
    if not left and not trouble:
        links.whole.add(number)
    return {
        "view": matrix,
        "table": html.matrix_table(matrix, links),
        "runs": api.runs(None, number, {"limit": str(_RUNS)}).view["runs"],
        "documents": documents,
        "left": left,
        "trouble": trouble,
    }


def _documents(api: StatusApi, number: int, matrix: dict[str, Any]) -> tuple[list[dict[str, Any]], int, str]:
    """Return the documents for the file, each with its anchor, how many are left out, and what failed."""
    found: list[dict[str, Any]] = []
    leaves = left = 0
    try:
        for source, level in _selected(api, number, matrix):
            if len(found) >= MOST_DOCUMENTS or leaves >= MOST_LEAVES:
                left += 1
                continue
            assert source.tenant is not None
            assert source.resource is not None
            place = ResourcePath(source.tenant, number, source.name)
            query = {"show": "layers", "level": level, "limit": str(MOST_LEAVES)}
            view = api.document(place, source.resource, query).view
            leaves += len(view["leaves"])
            versions: list[dict[str, Any]] = []
            if view["counts"]["none"] < sum(view["counts"].values()):
                versions = api.document(place, source.resource, {"show": "history", "level": level}).view["versions"]
            anchor = f"d-{number}-{encoded(source.name)}-{encoded(level)}"
            found.append({"view": view, "versions": versions, "anchor": anchor, "level": level})
    except (ConfigDBError, RefusalError) as error:
        return found, left, str(error.__cause__ or error)
    return found, left, ""


def _selected(api: StatusApi, number: int, matrix: dict[str, Any]) -> Iterator[tuple[SourceOwner, str]]:
    """Yield owned documents as data source and level path: overridden ones, then the nodes' own."""
    assert api.context.client is not None
    owned = api.owners(number, None).items()
    known = {name: one for name, one in owned if one.tenant is not None and one.resource and one.resource.definition}
    done: set[tuple[str, str]] = set()
    try:
        notes = api.context.client().overrides_of(number)
    except UnsupportedError:
        notes = []  # this server doesn't list overrides; the documents themselves show them
    for note in notes:
        steps = note.place.strip("/").split("/") if note.place != "/" else []
        level = ",".join(f"{name}={value}" for name, value in zip(steps[::2], steps[1::2], strict=False))
        if note.data_source in known:
            done.add((note.data_source, level))
            yield known[note.data_source], level
    names = [source["name"] for source in matrix["data_sources"]]
    for row in matrix["nodes"]:
        if row["level"] is None:
            continue
        level = ",".join(f"{name}={value}" for name, value in row["level"].items())
        for name, status in zip(names, row["statuses"], strict=True):
            if status is not None and name in known and (name, level) not in done:
                yield known[name], level
