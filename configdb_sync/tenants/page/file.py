"""All of it in one file that needs no service: environments, nodes, runs, and the documents, overridden ones first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from configdb_sync.errors import ConfigDBError, ProductError, UnsupportedError
from configdb_sync.tenants.context import Context
from configdb_sync.tenants.page import asking, gathering, html
from configdb_sync.tenants.page.gathering import Source
from configdb_sync.tenants.page.links import level_text
from configdb_sync.tenants.page.pages import matrix_table, sums_of
from configdb_sync.tenants.paths import Place
from configdb_sync.tenants.refusals import TenantRefusal
from configdb_sync.tenants.targets import encoded

MOST_DOCUMENTS = 100
MOST_LEAVES = 5000
"""How much of an environment's documents goes into the file; what is overridden goes first, the rest is counted."""
_RUNS = 50


@dataclass
class FileLinks:
    """Places in the file. ``whole``: all documents of an environment are there, by its number."""

    joint: str = "-"
    runs_there: set[str] = field(default_factory=set)
    whole: set[int] = field(default_factory=set)

    def environment(self, environment: int) -> str:
        """As ``Links``."""
        return f"#e-{environment}"

    def runs(self, environment: int) -> str:
        """As ``Links``."""
        return f"#r-{environment}"

    def run(self, environment: int, run: str) -> str | None:
        """As ``Links``: a run has no place of its own."""
        del environment, run
        return None

    def source(self, tenant: str, environment: int, name: str) -> str | None:
        """As ``Links``."""
        del tenant
        return f"#d-{environment}-{encoded(name)}" if environment in self.whole else None


@dataclass(frozen=True)
class _Wanted:
    """A document that may go in: its owner, its name, its level path as the API takes it."""

    tenant: str
    source: Source
    level: str


def page(context: Context, now: datetime, only: int | None = None) -> str:
    """Return the page; ``only``: of this environment alone. Raises ``TenantRefusal`` 404 if it isn't."""
    links = FileLinks()
    listed = asking.environments(context, {"limit": str(context.limits.longest)})
    numbers = [one["environment"] for one in listed.view["environments"]]
    if only is not None:
        listed.view["environments"] = [one for one in listed.view["environments"] if one["environment"] == only]
        numbers = [only]
    sections = [_section(context, number, links) for number in numbers]
    return html.render(
        "file.html",
        policy=html.policy(served=False),
        now=now,
        trail=[],
        sign_out=False,
        user="",
        view=listed.view,
        links=links,
        sections=sections,
    )


def _section(context: Context, number: int, links: FileLinks) -> dict[str, Any]:
    matrix = asking.matrix(context, None, number, {}).view
    documents, left, trouble = _documents(context, number, matrix)
    if not left and not trouble:
        links.whole.add(number)
    return {
        "view": matrix,
        "sums": sums_of(matrix),
        "table": matrix_table(matrix, links),
        "runs": asking.runs(context, None, number, {"limit": str(_RUNS)}).view["runs"],
        "documents": documents,
        "left": left,
        "trouble": trouble,
    }


def _documents(context: Context, number: int, matrix: dict[str, Any]) -> tuple[list[dict[str, Any]], int, str]:
    """Return the documents that go in, each with its place in the file, how many are left out, and what failed."""
    owned = context.registry.read(lambda one: gathering.sources(one, number, None))
    found: list[dict[str, Any]] = []
    leaves = left = 0
    try:
        for wanted in _wanted(context, number, owned, matrix):
            if len(found) >= MOST_DOCUMENTS or leaves >= MOST_LEAVES:
                left += 1
                continue
            assert wanted.source.resource is not None
            place = Place(wanted.tenant, number, wanted.source.name)
            query = {"show": "layers", "level": wanted.level, "limit": str(MOST_LEAVES)}
            view = asking.document(context, place, wanted.source.resource, query).view
            leaves += len(view["leaves"])
            past: list[dict[str, Any]] = []
            if view["counts"]["none"] < sum(view["counts"].values()):
                query = {"show": "history", "level": wanted.level}
                past = asking.document(context, place, wanted.source.resource, query).view["versions"]
            anchor = f"d-{number}-{encoded(wanted.source.name)}-{encoded(wanted.level)}"
            found.append({"view": view, "versions": past, "anchor": anchor, "level": wanted.level})
    except (ConfigDBError, TenantRefusal) as error:
        return found, left, _told(error)
    return found, left, ""


def _told(error: ProductError) -> str:
    return str(error.__cause__ or error)


def _wanted(context: Context, number: int, owned: dict[str, Source], matrix: dict[str, Any]) -> Iterator[_Wanted]:
    """Yield documents: what is overridden, then the nodes' own."""
    assert context.client is not None
    known = {name: source for name, source in owned.items() if source.resource and source.resource.definition}
    done: set[tuple[str, str]] = set()
    try:
        notes = context.client().overrides_of(number)
    except UnsupportedError:
        notes = []  # this server doesn't tell; the documents themselves do
    for note in notes:
        steps = note.place.strip("/").split("/") if note.place != "/" else []
        level = ",".join(f"{name}={value}" for name, value in zip(steps[::2], steps[1::2], strict=False))
        source = known.get(note.data_source)
        if source is not None and source.tenant is not None:
            done.add((source.name, level))
            yield _Wanted(source.tenant, source, level)
    names = [source["name"] for source in matrix["data_sources"]]
    for row in matrix["nodes"]:
        if level_text(row["level"]) is None:
            continue
        level = ",".join(f"{name}={value}" for name, value in row["level"].items())
        for name, status in zip(names, row["statuses"], strict=True):
            source = known.get(name)
            if status is not None and source is not None and source.tenant is not None and (name, level) not in done:
                yield _Wanted(source.tenant, source, level)
