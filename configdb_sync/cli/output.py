"""How results reach the user: standard output, colours on a terminal, report files for their owner alone."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from configdb_sync.errors import SettingsError
from configdb_sync.sync.plan import Plan
from configdb_sync.sync.render.forms import form_of, lines
from configdb_sync.sync.report import Report

_COLOURS = {"+": "green", "-": "red", "~": "yellow"}


def show_lines(text: Iterable[str]) -> None:
    """Print lines; those that stand for a change in its colour where the output is a terminal."""
    for line in text:
        sign = line.lstrip()[:2]
        colour = _COLOURS.get(sign[:1]) if sign[1:] == " " and line.startswith("    ") else None
        click.echo(click.style(line, fg=colour) if colour else line)


def show_json(value: Any) -> None:
    """Print a JSON value, indented."""
    click.echo(json.dumps(value, indent=2))


def show(found: Plan | Report, form: str) -> None:
    """Print a plan or a report in one of ``render.FORMS``."""
    if form == "text":
        show_lines(lines(found, form))
    else:
        click.echo("\n".join(lines(found, form)))


def write_report(path: Path, found: Plan | Report) -> None:
    """Write a report file in the form of its ending, whole or not at all, mode 0600.

    Raises ``SettingsError`` if it can't be written or its ending is unknown.
    """
    try:
        write_private(path, "\n".join(lines(found, form_of(path))) + "\n")
    except OSError as error:
        raise SettingsError(
            f"the report {path} can't be written: {error.strerror}", way_out="name another with --report"
        ) from error


def write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600, whole or not at all. Raises ``OSError``."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise
