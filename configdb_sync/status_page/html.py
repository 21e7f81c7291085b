"""From JSON values to HTML: all values are escaped, and a page loads nothing from elsewhere.

Each page contains the one stylesheet and the small script, and its content security policy names their digests: no
other style or script has any effect, whatever a value contains.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from configdb_sync import __version__
from configdb_sync.names import one_line
from configdb_sync.status_page.page_urls import Links, level_name, level_text
from configdb_sync.sync.render.wording import key_text

FOLDER = Path(__file__).parent / "templates"
LONGEST_SHOWN = 400
"""Characters of one value that are shown; a longer one is cut, with its length."""

_WORDS = {"ACTIVE": "in step", "BUILD": "a run is at work", "ERROR": "failed", None: "unknown"}


@cache
def _asset(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8").strip()


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii")


@cache
def policy(*, served: bool = True) -> str:
    """Return the content security policy. In a file it can't say who may frame it, and forms go nowhere."""
    parts = [
        "default-src 'none'",
        f"style-src 'sha256-{_digest(_asset('style.css'))}'",
        f"script-src 'sha256-{_digest(_asset('script.js'))}'",
        "img-src data:",
        "base-uri 'none'",
        "form-action 'self'" if served else "form-action 'none'",
        *(["frame-ancestors 'none'"] if served else []),
    ]
    return "; ".join(parts)


def printable(value: Any) -> Any:
    """Return a value as a page shows it: invisible characters and those that change the direction are escaped."""
    if isinstance(value, str) and not isinstance(value, Markup) and not value.isprintable():
        return one_line(value)
    return value


def value_text(value: Any) -> str:
    """Return a value as one line of JSON, cut if long: for people, not to be parsed."""
    text = json.dumps(value, ensure_ascii=False)
    if len(text) <= LONGEST_SHOWN:
        return text
    return f"{text[:LONGEST_SHOWN]}… ({len(text):,} characters)"


def duration(seconds: float | None) -> str:
    """Return ``0.4 s``, ``12 s``, ``3 min 5 s``, ``2 h 10 min``."""
    if seconds is None:
        return ""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def size(number: int | None) -> str:
    """Return ``512 B``, ``1.5 kB``, ``20 MB``."""
    if number is None:
        return ""
    found, unit = float(number), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if found < 1000 or unit == "TB":
            break
        found /= 1000
    return f"{found:.0f} {unit}" if unit == "B" or found >= 100 else f"{found:.1f} {unit}"


def _time(text: str | None) -> str:
    """Return a time of the API (ISO 8601, UTC) to the second."""
    return "" if text is None else text[:19].replace("T", " ")


def broken(name: str) -> Markup:
    """Return a name that may wrap after each slash."""
    return Markup("/<wbr>").join(printable(part) for part in name.split("/"))


def ago(text: str | None, now: datetime | None) -> str:
    """Return how long ago a time of the API was: ``just now``, ``5 min ago``, ``3 days ago``; empty without ``now``.

    A file is read later than it is written: it has no ages.
    """
    if text is None or now is None:
        return ""
    then = datetime.fromisoformat(text.removesuffix("Z") + "+00:00")
    seconds = (now - then).total_seconds()
    if seconds < 60:
        return "just now"
    for length, unit in ((86400, "day"), (3600, "hour"), (60, "min")):
        if seconds >= length:
            number = int(seconds // length)
            return f"{number} {unit}{'s' if number > 1 and unit != 'min' else ''} ago"
    return ""


def tone(outcome: str | None) -> str:
    """Return which of the four colours a status or the outcome of a run has."""
    if outcome in {"ACTIVE", "OK", "done"}:
        return "ok"
    if outcome in {"BUILD", "AT WORK"}:
        return "busy"
    return "none" if outcome in {None, "", "null"} else "bad"


@cache
def environment() -> Environment:
    """Return Jinja's environment: it escapes everything, and an unknown name is an error."""
    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "value": value_text,
        "key": key_text,
        "level": level_name,
        "level_query": level_text,
        "broken": broken,
        "duration": duration,
        "size": size,
        "time": _time,
        "ago": ago,
        "tone": tone,
        "word": lambda status: _WORDS.get(status, ""),
    }
    made.globals |= {
        "style": Markup(_asset("style.css")),  # noqa: S704  # the product's own
        "script": Markup(_asset("script.js")),  # noqa: S704
        "version": __version__,
    }
    return made


def render(template: str, **values: Any) -> str:
    """Return a page."""
    return environment().get_template(template).render(**values)


def frame(now: datetime, *, user: str = "", sign_out: bool = False) -> dict[str, Any]:
    """Return what every page has: the time, the user, whether it offers to sign out."""
    return {"policy": None, "now": now, "trail": [], "sign_out": sign_out, "user": user}


Column = tuple[Mapping[str, Any], "str | None"]
"""A data source as the API represents it, and the address of its page, None if it has none."""


class Cells:
    """The cells of a matrix's rows. Most nodes of an environment look alike, so each look is rendered once.

    ``columns`` are the data sources that some row has; ``left`` are the others. ``joint``: see ``Links``.
    """

    _PLACE = Markup("\0")

    def __init__(self, columns: Sequence[Column], looks: Collection[tuple[str | None, ...]], joint: str) -> None:
        self._render = environment().get_template("cells.html").module.cells  # type: ignore[attr-defined]
        self._shown = [place for place in range(len(columns)) if any(look[place] for look in looks)]
        self._joint = joint
        self._looks: dict[tuple[object, ...], str] = {}
        self.columns = [columns[place] for place in self._shown]
        self.left = [column for place, column in enumerate(columns) if place not in self._shown]

    def __call__(self, statuses: Sequence[str | None], level: str | None) -> Markup:
        """Return a node's cells; ``level``: its level path, percent-encoded, None if it is unknown."""
        look = (*statuses, level is None)
        if look not in self._looks:
            cells = [(*column, statuses[place]) for column, place in zip(self.columns, self._shown, strict=True)]
            self._looks[look] = str(self._render(cells, self._PLACE if level is not None else None, self._joint))
        # NUL is the placeholder for the node's part of each address: no text in the page can contain it.
        return Markup(self._looks[look].replace("\0", level or ""))  # noqa: S704  # percent-encoded


def matrix_table(view: Mapping[str, Any], links: Links) -> Markup:
    """Return the matrix as a table."""
    number = view["environment"]
    columns: list[Column] = [
        (source, None if source["tenant"] is None else links.source(source["tenant"], number, source["name"]))
        for source in view["data_sources"]
    ]
    cells = Cells(columns, {tuple(row["statuses"]) for row in view["nodes"]}, links.joint)
    rows = [(row, cells(row["statuses"], level_text(row["level"]))) for row in view["nodes"]]
    table: Markup = environment().get_template("parts.html").module.matrix(view, cells, rows, links.joint)  # type: ignore[attr-defined]
    return table
