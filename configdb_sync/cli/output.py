"""How results reach the user: standard output, colours on a terminal, report files for their owner alone."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from configdb_sync.errors import SettingsError

_COLOURS = {"+": "green", "-": "red", "~": "yellow"}


def show_lines(lines: Iterable[str]) -> None:
    """Print lines; those that stand for a change in its colour where the output is a terminal."""
    for line in lines:
        sign = line.lstrip()[:2]
        colour = _COLOURS.get(sign[:1]) if sign[1:] == " " and line.startswith("    ") else None
        click.echo(click.style(line, fg=colour) if colour else line)


def show_json(value: Any) -> None:
    """Print a JSON value, indented."""
    click.echo(json.dumps(value, indent=2))


def write_report(path: Path, value: Any) -> None:
    """Write a report file, whole or not at all, mode 0600. Raises ``SettingsError`` if it can't be written."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(value, file, indent=2)
            file.write("\n")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise SettingsError(
            f"the report {path} can't be written: {error.strerror}", way_out="name another with --report"
        ) from error
