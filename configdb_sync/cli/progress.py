"""Progress of a run: a bar on a terminal, plain lines elsewhere; on standard error, so that results stay clean."""

from __future__ import annotations

import os
import sys
from contextlib import AbstractContextManager
from typing import Self

from configdb_sync.sync.report import ProgressListener

_LINES = 10


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


def progress_for() -> AbstractContextManager[ProgressListener]:
    """Return the progress that fits standard error."""
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        # Late: most runs have no terminal, and it takes longer to load than a small run takes.
        from configdb_sync.cli.bar import BarProgress

        return BarProgress()
    return LineProgress()
