"""Reading documents, measured beside ``yaml.CSafeLoader`` over the same files in the same run.

``python -m benchmarks.bench_documents [--full] [--nodes 200]``. Times are of the processor, so that the load of others
doesn't count. The loader reads a sample, scaled by bytes: all files would take it more than a minute.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from time import process_time

import yaml

from benchmarks.measure import Measure, run
from benchmarks.trees import write_environment
from configdb_sync.hiera.documents import Reader
from tests.support import fixtures

FULL = 200
QUICK = 40
SAMPLE = 6
VARIANTS = 200


def measure(full: bool) -> Iterator[Measure]:
    """Give the ratios to PyYAML and to a node alone; the limits hold for 200 nodes."""
    nodes = _nodes_asked() or (FULL if full else QUICK)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_environment(root / "one", nodes, 5)
        yield from _of_tree(root / "one", nodes)
        peak = _peak(root / "one")
        yield Measure(f"peak memory, {nodes} nodes", peak, "MB", 100)
        if full:
            write_environment(root / "two", 2 * nodes, 5)
            twice = _peak(root / "two")
            yield Measure(f"peak memory, {2 * nodes} nodes", twice, "MB", 100)
            yield Measure("peak memory, twice the nodes", twice / peak, "times", 1.5)
    data = fixtures.data_folder()
    if data is not None:
        raw = (data / "clusters/env-37/node-121/etc/hiera/globals.yaml").read_bytes()
        yield _compared(f"{VARIANTS} variants of a real globals.yaml", _variants(raw), 60)


def _nodes_asked() -> int | None:
    return int(sys.argv[sys.argv.index("--nodes") + 1]) if "--nodes" in sys.argv else None


def _of_tree(root: Path, nodes: int) -> Iterator[Measure]:
    limits = (6, 15) if nodes >= FULL else (None, None)
    yield _compared(f"all files of {nodes} nodes", _files(root), limits[0])
    files = [path for path in _files(root) if path.name == "astute.yaml"]
    changed = [_ChangedLeaf(path, number, nodes) for number, path in enumerate(files)]
    yield _compared(f"one leaf of network_metadata differs, {nodes} nodes", changed, limits[1])


class _ChangedLeaf:
    """``astute.yaml`` with another value in one node's entry of ``network_metadata``."""

    def __init__(self, path: Path, number: int, nodes: int) -> None:
        self._path, self._number, self._nodes = path, number, nodes

    def read_bytes(self) -> bytes:
        text = self._path.read_text(encoding="utf-8")
        start = text.index("\nnetwork_metadata:")
        place = text.index("hypervisor_id: ", text.index(f"\n    node-{1 + self._number * 7 % self._nodes}:", start))
        return f"{text[:place]}hypervisor_id: changed{self._number}{text[text.index(chr(10), place) :]}".encode()


class _Text:
    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def read_bytes(self) -> bytes:
        return self._raw


_File = Path | _ChangedLeaf | _Text


def _variants(raw: bytes) -> list[_Text]:
    """Return variants of a file, each with another of its leaves changed."""
    leaves = list(re.finditer(rb"(?m)^ +[a-z_]+: ([a-z0-9]+)$", raw))
    found = []
    for number in range(VARIANTS):
        leaf = leaves[number % len(leaves)]
        found.append(_Text(raw[: leaf.start(1)] + b"changed%d" % number + raw[leaf.end(1) :]))
    return found


def _files(root: Path) -> list[Path]:
    return [path for path in sorted(root.rglob("*.yaml")) if not path.is_symlink()]


def _compared(name: str, files: Sequence[_File], limit: float | None) -> Measure:
    """Measure our reading of all files in per cent of the loader's, which reads a sample before and after."""
    step = max(len(files) // SAMPLE // 12, 1) if isinstance(files[0], Path) else max(len(files) // SAMPLE, 1)
    sample = [file.read_bytes() for file in files[::step]]
    sampled = sum(map(len, sample))
    before = _timed(lambda: _load_all(sample))
    total = 0
    reader = Reader()

    def ours() -> None:
        nonlocal total
        for file in files:
            raw = file.read_bytes()
            total += len(raw)
            assert reader.read(raw).digest

    prepared = 0.0 if isinstance(files[0], Path) else _timed(lambda: _read_all(files))
    took = _timed(ours) - prepared
    after = _timed(lambda: _load_all(sample))
    loader = (before + after) / 2 * total / sampled
    note = f"{took:.2f} s against {loader:.2f} s for {total / 1e6:.1f} MB"
    return Measure(name, 100 * took / loader, "% of CSafeLoader", limit, note)


def _load_all(texts: Iterable[bytes]) -> None:
    for text in texts:
        yaml.load(text, Loader=yaml.CSafeLoader)


def _read_all(files: Iterable[_File]) -> None:
    for file in files:
        file.read_bytes()


def _timed(work: Callable[[], None]) -> float:
    start = process_time()
    work()
    return process_time() - start


_PEAK = """
import re, sys
from pathlib import Path
from configdb_sync.hiera.documents import Reader
reader = Reader()
for path in sorted(Path(sys.argv[1]).rglob("*.yaml")):
    if not path.is_symlink():
        document = reader.read(path.read_bytes())
        document.json_bytes(), document.digest
status = Path("/proc/self/status").read_text()
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", status)[1]) / 1024)
"""


def _peak(root: Path) -> float:
    """Return the peak memory in MB of a process that reads all files of a tree."""
    command = [sys.executable, "-c", _PEAK, str(root)]
    return float(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


if __name__ == "__main__":
    run(measure)
