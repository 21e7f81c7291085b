"""What a benchmark gives, and how a module of benchmarks is run alone.

A module ``bench_<name>.py`` defines ``measure(full)``, which returns its measures (``full`` asks for the sizes that the
limits are meant for), and ends in ``if __name__ == "__main__": run(measure)``.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Measure:
    """One measured number. ``limit`` is the most it may be in ``unit``, None if it only informs."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    note: str = ""

    @property
    def within(self) -> bool:
        """Tell whether the limit, if there is one, was kept."""
        return self.limit is None or self.value <= self.limit


def dump(measures: Iterable[Measure]) -> str:
    """Return measures as one line of JSON."""
    return json.dumps([asdict(measure) for measure in measures])


def load(line: str) -> list[Measure]:
    """Return the measures that ``dump`` wrote."""
    return [Measure(**fields) for fields in json.loads(line)]


def run(measure: Callable[[bool], Iterable[Measure]]) -> None:
    """Measure and print, as the arguments of this process say: ``--full``, ``--json``."""
    measures = list(measure("--full" in sys.argv))
    if "--json" in sys.argv:
        print(dump(measures))
        return
    for each in measures:
        limit = "" if each.limit is None else f" (limit {each.limit:g})"
        print(f"{each.name}: {each.value:.4g} {each.unit}{limit} {each.note}".rstrip())
