"""Lists as tables, CSV, JSON and YAML, with chosen columns: one way for all commands that show a list (U16)."""

from __future__ import annotations

import csv
import functools
import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from configdb_sync.cli.options import format_option
from configdb_sync.cli.output import show_json
from configdb_sync.configdb.edits import shown_key
from configdb_sync.jsonvalues import Json, dumps
from configdb_sync.names import one_line

F = TypeVar("F", bound=Callable[..., Any])

_TABLES = ("table", "csv")
_SHARED = ("table", "json", "yaml", "csv")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "'")
"""How a text begins that a spreadsheet takes for a formula, or that would look as if it had been marked as none."""
_ABSENT = object()


@dataclass(frozen=True)
class ListOutput:
    """How a command shows its list. ``columns``: those that were asked for, else none."""

    name: str
    known: tuple[str, ...]
    form: str
    columns: tuple[str, ...]

    @property
    def is_own(self) -> bool:
        """Whether the command prints its list in a form of its own, as text for people."""
        return self.form not in _SHARED and not self.columns

    @property
    def is_table(self) -> bool:
        """Whether the list is shown in rows, with columns."""
        return bool(self.columns) or self.form in _TABLES

    def show(
        self, entries: Iterable[Json], beside: Mapping[str, Json] | None = None, *, rows: Iterable[Json] | None = None
    ) -> None:
        """Print the entries of the list, and the fields ``beside`` it where the form has a place for them.

        ``rows``: the entries without lists of further entries in them, one for each row of a table.
        """
        if self.form in {"json", "yaml"}:
            found = list(entries if rows is None or not self.columns else rows)
            if self.columns:
                found = [{name: value for name, value in self._cells(one) if value is not _ABSENT} for one in found]
            show_json({**(beside or {}), self.name: found}, self.form)
            return
        lines = [[value for _, value in self._cells(one)] for one in (entries if rows is None else rows)]
        heads = self.columns or self.known
        click.echo(csv_text(heads, lines) if self.form == "csv" else table_text(heads, lines), nl=False)

    def _cells(self, entry: Json) -> list[tuple[str, Any]]:
        return [(name, _field(entry, name)) for name in self.columns or self.known]


def list_options(name: str, *columns: str, own: Sequence[str] = ("text",)) -> Callable[[F], F]:
    """Give a command ``--format`` and ``--column``; it gets a ``ListOutput`` as ``output``.

    ``name``: the field of the JSON output that holds the list. ``columns``: fields of its entries, with a dot for a
    field of a field. ``own``: forms that the command itself prints; the first is the default.
    """

    def decorate(function: F) -> F:
        @format_option(*own, *_SHARED)
        @click.option(
            "--column",
            "-c",
            "chosen",
            multiple=True,
            type=click.Choice(columns),
            metavar="NAME",
            help=f"Show only this column; repeat it. One of: {', '.join(columns)}.",
        )
        @functools.wraps(function)
        def wrapped(*args: Any, form: str, chosen: tuple[str, ...], **kwargs: Any) -> Any:
            return function(*args, output=ListOutput(name, columns, form, chosen), **kwargs)

        return wrapped  # type: ignore[return-value]

    return decorate


def csv_text(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table as CSV: texts in quotes, numbers bare, and nothing that a spreadsheet takes for a formula.

    A text that begins as a formula, or with an apostrophe, gets an apostrophe in front: whoever removes it has exactly
    the text. Lists and mappings are compact JSON.
    """
    file = io.StringIO()
    writer = csv.writer(file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows([_csv_cell(value) for value in row] for row in rows)
    return file.getvalue()


def _csv_cell(value: Any) -> str | float:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value
    text = _text(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def table_text(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table for people: as wide as the terminal, and as its content where there is none."""
    # Late: they take longer to load than most commands to run.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    file = io.StringIO()
    width = Console().width if sys.stdout.isatty() else 1 << 20
    table = Table(*heads, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*(Text(one_line(_text(value, for_people=True)), overflow="fold") for value in row))
    Console(file=file, width=width, color_system=None, highlight=False).print(table)
    return "".join(f"{line.rstrip()}\n" for line in file.getvalue().splitlines())


def _field(entry: Json, name: str) -> Any:
    found = entry
    for part in name.split("."):
        if not isinstance(found, dict) or part not in found:
            return _ABSENT
        found = found[part]
    return shown_key(found) if name == "key" and isinstance(found, list) else found


def _text(value: Any, *, for_people: bool = False) -> str:
    if value is None or value is _ABSENT:
        return ""
    if isinstance(value, str):
        return value
    if for_people and isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return dumps(value)
