"""The forms in which plans and reports are shown, and which of them a file's name asks for."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from configdb_sync.errors import SettingsError
from configdb_sync.sync.plan import Plan
from configdb_sync.sync.render.json_values import plan_json, report_json
from configdb_sync.sync.render.markdown import plan_markdown, report_markdown
from configdb_sync.sync.render.text import plan_lines, report_lines
from configdb_sync.sync.report import Report

T = TypeVar("T")
FORMS = ("text", "json", "markdown")
_ENDINGS = {".json": "json", ".md": "markdown", ".txt": "text"}


def form_of(path: Path) -> str:
    """Return the form that a report file's ending asks for. Raises ``SettingsError`` for an unknown one."""
    try:
        return _ENDINGS[path.suffix.lower()]
    except KeyError:
        raise SettingsError(
            f"the ending of the report {path.name[:100]} names no form", way_out="end it in .json, .md or .txt"
        ) from None


def lines(found: Plan | Report, form: str) -> Iterator[str]:
    """Yield the lines of a plan or a report in a form of ``FORMS``."""
    if isinstance(found, Plan):
        yield from _lines(form, found, plan_lines, plan_markdown, plan_json)
    else:
        yield from _lines(form, found, report_lines, report_markdown, report_json)


def _lines(
    form: str,
    found: T,
    text: Callable[[T], Iterator[str]],
    markdown: Callable[[T], Iterator[str]],
    values: Callable[[T], dict[str, Any]],
) -> Iterator[str]:
    if form == "json":
        yield from json.dumps(values(found), indent=2).splitlines()
    else:
        yield from (markdown if form == "markdown" else text)(found)


def kept(report: Report) -> dict[str, Any]:
    """Return what the database keeps of a report: its JSON values, and the lines of the other forms."""
    return {
        "json": report_json(report),
        "text": list(report_lines(report)),
        "markdown": list(report_markdown(report)),
    }
