"""Progress of a run: a bar on a terminal, plain lines elsewhere; on standard error, so that results stay clean."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Self

from rich import progress as bars
from rich.console import Console

from configdb_sync.sync.run import Progress

_LINES = 10


class BarProgress:
    """A bar that grows with the nodes done."""

    def __init__(self, console: Console) -> None:
        self._bar = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task: bars.TaskID | None = None
        self._failed = 0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def begins(self, nodes: int) -> None:
        """Show an empty bar for so many nodes."""
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task("nodes", total=nodes)

    def node_done(self, node: str, problems: int) -> None:
        """Let the bar grow."""
        self._failed += bool(problems)
        if self._task is not None:
            failed = f" ({self._failed} with problems)" if self._failed else ""
            self._bar.update(self._task, advance=1, description=f"nodes{failed}")


class LineProgress:
    """At most a few plain lines, for logs."""

    def __init__(self) -> None:
        self._total = 0
        self._done = 0
        self._said = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def begins(self, nodes: int) -> None:
        """Take note of the number of nodes."""
        self._total, self._done, self._said = nodes, 0, 0

    def node_done(self, node: str, problems: int) -> None:
        """Say so at every tenth part, and for every node with problems."""
        self._done += 1
        if problems:
            print(f"node {node}: {problems} problem{'s' if problems > 1 else ''}", file=sys.stderr)
        part = self._done * _LINES // self._total if self._total else 0
        if part > self._said and self._total > _LINES:
            self._said = part
            print(f"{self._done} of {self._total} nodes done", file=sys.stderr)


def progress_for() -> AbstractContextManager[Progress]:
    """Return the progress that fits standard error."""
    console = Console(stderr=True)
    if console.is_terminal:
        return BarProgress(console)
    return LineProgress()
