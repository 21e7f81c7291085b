"""A run's progress bar on a terminal."""

from __future__ import annotations

from typing import Self

from rich import progress as bars
from rich.console import Console


class BarProgress:
    """A bar that grows with the nodes done."""

    def __init__(self) -> None:
        self._bar = bars.Progress(
            bars.TextColumn("{task.description}"),
            bars.BarColumn(),
            bars.MofNCompleteColumn(),
            bars.TimeElapsedColumn(),
            console=Console(stderr=True),
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
