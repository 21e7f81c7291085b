"""How results reach the user: standard streams that never break a command, JSON, private files, progress.

A command does its work whether or not its output is read: ``configdb-sync plan | head -1`` ends with the
command's own exit code, and a run isn't stopped because its log is gone. Progress goes to standard error, so that
results stay clean.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import secrets
import select
import sys
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

import click

from configdb_sync.cli.help import is_quiet
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import OUTPUT_VERSION, Json

if TYPE_CHECKING:
    from configdb_sync.sync.report import ProgressListener

_COLOURS = {"+": "green", "-": "red", "~": "yellow"}


def show_lines(text: Iterable[str], *, coloured: bool = True) -> None:
    """Print lines; on a terminal, lines that describe a change get its colour."""
    for line in text:
        sign = line.lstrip()[:2]
        colour = _COLOURS.get(sign[:1]) if coloured and sign[1:] == " " and line.startswith("    ") else None
        click.echo(click.style(line, fg=colour) if colour else line)


def show_json(fields: Mapping[str, Json], form: str = "json") -> None:
    """Print fields as an object with the version of its form (``outputs.schema.json`` beside this module).

    ``form``: ``json`` or ``yaml``.
    """
    whole = {"version": OUTPUT_VERSION, **fields}
    if form == "yaml":
        from configdb_sync.configdb import typed

        click.echo(typed.text(whole, form))
    else:
        click.echo(json.dumps(whole, indent=2))


def write_private(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file that only its owner reads, or one of another mode, whole or not at all. Raises ``OSError``."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            os.fchmod(handle, mode)
            file.write(text)
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def show_note(text: str) -> None:
    """Print a note on standard error, unless ``--quiet`` was given."""
    if not is_quiet():
        click.echo(text, err=True)


_MOST_LINES = 10


class LineProgress:
    """Progress as a few plain lines, for logs; ``quiet``: as none."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self._total = 0
        self._done = 0
        self._said = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begins(self, nodes: int) -> None:
        """Start to count this many nodes."""
        self._total, self._done, self._said = nodes, 0, 0

    def node_done(self, node: str, problems: int) -> None:
        """Print a line for every tenth of the nodes, and for every node with problems."""
        self._done += 1
        if self._quiet:
            return
        if problems:
            print(f"node {node}: {problems} problem{'s' if problems > 1 else ''}", file=sys.stderr)
        part = self._done * _MOST_LINES // self._total if self._total else 0
        if part > self._said and self._total > _MOST_LINES:
            self._said = part
            print(f"{self._done} of {self._total} nodes done", file=sys.stderr)


def progress_for() -> AbstractContextManager[ProgressListener]:
    """Return the progress that fits standard error, one without output after ``--quiet``."""
    if not is_quiet() and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        return BarProgress()
    return LineProgress(quiet=is_quiet())


class BarProgress:
    """Progress as a bar on a terminal."""

    def __init__(self) -> None:
        # Late: most runs have no terminal, and loading it takes longer than a small run.
        from rich import progress as bars
        from rich.console import Console

        self._bar = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task: Any = None
        self._failed = 0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begins(self, nodes: int) -> None:
        """Show an empty bar for this many nodes."""
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task("nodes", total=nodes)

    def node_done(self, node: str, problems: int) -> None:
        """Advance the bar."""
        self._failed += bool(problems)
        if self._task is not None:
            failed = f" ({self._failed} with problems)" if self._failed else ""
            self._bar.update(self._task, advance=1, description=f"nodes{failed}")


class GuardedStream(io.RawIOBase):
    """A stream on a file descriptor. After a failed write it drops everything that follows.

    A reader that has gone is no error. With ``heed``, any other failure is a ``SettingsError``.
    """

    def __init__(self, descriptor: int, *, heed: bool) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._heed = heed
        self._broken = False

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def isatty(self) -> bool:
        """Tell whether it is a terminal."""
        return os.isatty(self._descriptor)

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any, /) -> int:
        """Write what can be written now and return its length; wait for a descriptor that is not ready."""
        while not self._broken:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                select.select((), (self._descriptor,), ())
            except OSError as error:
                self._broken = True
                if self._heed and not isinstance(error, BrokenPipeError):
                    raise SettingsError(
                        f"the output can't be written: {error.strerror}", way_out="redirect it elsewhere"
                    ) from None
        return len(data)


def guard() -> None:
    """Replace this process's standard streams by guarded ones, unless something else has replaced them already."""
    for descriptor in (0, 1, 2):
        # Otherwise the next file to be opened, a database, gets the number that messages are printed to.
        with contextlib.suppress(OSError):
            os.fstat(descriptor)
            continue
        os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is sys.__stdout__:
        sys.stdout = _wrapped(sys.__stdout__, 1, heed=True)
    if sys.stderr is sys.__stderr__:
        sys.stderr = _wrapped(sys.__stderr__, 2, heed=False)


def _wrapped(stream: TextIO | None, descriptor: int, *, heed: bool) -> TextIO:
    encoding, by_line = "utf-8", True
    if isinstance(stream, io.TextIOWrapper):
        stream.flush()
        # PYTHONUNBUFFERED replaces the buffering by lines: without either, progress would come at the end.
        encoding, by_line = stream.encoding, stream.line_buffering or stream.write_through
    # Names that are no text, and characters that the terminal lacks, are shown escaped rather than raise an error.
    return io.TextIOWrapper(
        io.BufferedWriter(GuardedStream(descriptor, heed=heed)),
        encoding=encoding,
        errors="backslashreplace",
        line_buffering=by_line,
    )
