"""The forms in which plans and reports are shown, and which of them a file's name asks for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from configdb_sync.errors import SettingsError
from configdb_sync.sync.plan import Plan
from configdb_sync.sync.render.json_values import plan_json, report_json
from configdb_sync.sync.render.markdown import plan_markdown, report_markdown
from configdb_sync.sync.render.text import plan_lines, report_lines
from configdb_sync.sync.report import Report

FORMS = ("text", "json", "markdown")
_ENDINGS = {".json": "json", ".md": "markdown", ".txt": "text"}


def form_of(path: Path) -> str:
    """Return the form that a report file's ending asks for. Raises ``SettingsError`` for an unknown one."""
    try:
        return _ENDINGS[path.suffix.lower()]
    except KeyError:
        raise SettingsError(
            f"the report {path.name[:100]} has an unknown ending", way_out="end it in .json, .md or .txt"
        ) from None


def lines(found: Plan | Report, form: str, *, brief: bool = False) -> Iterator[str]:
    """Yield the lines of a plan or a report in a form of ``FORMS``; ``brief``: as ``plan_lines``."""
    if form == "json":
        values = plan_json(found) if isinstance(found, Plan) else report_json(found)
        yield from json.dumps(values, indent=2).splitlines()
    elif form == "markdown":
        yield from plan_markdown(found, brief=brief) if isinstance(found, Plan) else report_markdown(found)
    else:
        yield from plan_lines(found, brief=brief) if isinstance(found, Plan) else report_lines(found)


def stored_forms(report: Report) -> dict[str, Any]:
    """Return what the database keeps of a report: its JSON values, and the lines of the other forms."""
    return {
        "json": report_json(report),
        "text": list(report_lines(report)),
        "markdown": list(report_markdown(report)),
    }
