"""Reading all nodes over MCollective, against what the bus itself takes, in one run and on one broker.

Needs root, RabbitMQ and mcollectived, as the laboratory of the tests does. Without them nothing is measured.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import Measure, run
from benchmarks.trees import write_environment
from configdb_sync.clock import SystemClock
from configdb_sync.mcollective.broker import BrokerConnection
from configdb_sync.mcollective.bus_settings import Bounds, BusSettings, Destination, read_config
from configdb_sync.mcollective.client import BusRpc
from configdb_sync.nodes.mcollective import MCollectiveNodes
from configdb_sync.nodes.node_files import NodeRead
from configdb_sync.nodes.remote.commands import Commands
from tests.lab import laboratory
from tests.lab.laboratory import Laboratory
from tests.support import node_messages
from tests.support.simulator.bus import Simulator
from tests.support.simulator.faults import parse
from tests.support.simulator.nodes import SimulatedNodes
from tests.support.simulator.tree import Tree, load

ENVIRONMENT = 50
"""Nodes in the environment whose trees the simulated nodes have."""

SILENT = 20
QUEUE = "/queue/configdb-sync-bench"
ROUNDS = 3
DAEMON_ROUNDS = 11


def measure(full: bool) -> Iterable[Measure]:
    """Return the measures; ``full``: 1000 nodes and the default of 60 s to answer, else 200 and 15 s."""
    why = laboratory.unavailable()
    if why is not None:
        print(f"bench_mcollective: {why}", file=sys.stderr)
        return
    count, timeout = (1000, 60) if full else (200, 15)
    with tempfile.TemporaryDirectory() as folder:
        trees = Path(folder)
        write_environment(trees, ENVIRONMENT, 1)
        with laboratory.running() as lab:
            yield from _daemons(lab, trees)
            with _simulated(lab, trees, count):
                found = _child(lab, "read", count)
            ratio = found["read"] / (found["true"] + found["transfer"])
            parts = ", ".join(f"{name} {found[name]:.2f} s" for name in ("read", "true", "transfer"))
            yield Measure(f"read of {count} nodes / round trip and transfer", ratio, "", 3 if full else None, parts)
            yield Measure(f"peak memory while reading {count} nodes", found["memory"], "MB", 150)
            silent = [str(number) for number in range(1000, 1000 + count, count // SILENT)]
            with _simulated(lab, trees, count, f"{','.join(silent)}=silent"):
                found = _child(lab, "silent", count, timeout)
            named = f"{found['missing']:.0f} of {len(silent)} named"
            limit = 1.05 if full else None
            yield Measure(f"read with {SILENT} silent nodes / deadline", found["read"] / timeout, "", limit, named)


def _daemons(lab: Laboratory, trees: Path) -> Iterator[Measure]:
    for identity, node in lab.nodes.items():
        subprocess.run(["cp", "-a", f"{trees}/node-{identity}/etc/hiera/.", node.hiera], check=True)
        # What a link to /etc/astute.yaml would show is the machine's own.
        (node.hiera / "astute.yaml").unlink()
        subprocess.run(["cp", "-L", f"{trees}/node-{identity}/etc/astute.yaml", node.hiera], check=True)
    names = list(lab.nodes)
    trips, reads = [], []
    with BusRpc(lab.settings()) as bus:
        nodes = MCollectiveNodes(bus, env=1)
        for _ in range(DAEMON_ROUNDS):
            trips.append(_timed(lambda: _trip(bus, names)))
            reads.append(_timed(lambda: _read(nodes, names)))
    trip, read = statistics.median(trips), statistics.median(reads)
    note = f"{read * 1000:.0f} ms to {trip * 1000:.0f} ms"
    yield Measure("read of four daemons / one round trip", read / trip, "", 1.3, note)


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _trip(bus: BusRpc, names: list[str]) -> None:
    done = sum(1 for _ in bus.call("execute_shell_command", "execute", {"cmd": "true"}, names, timeout=60))
    assert done == len(names)


def _read(nodes: MCollectiveNodes, names: list[str]) -> int:
    """Return how many nodes could not be read; hold none of them."""
    return sum(not isinstance(item, NodeRead) or bool(item.faults) for item in nodes.read(names))


# The processes: one is the nodes, one reads them


@contextmanager
def _simulated(lab: Laboratory, trees: Path, count: int, *faults: str) -> Iterator[None]:
    command = [sys.executable, "-m", "benchmarks.bench_mcollective", "be", str(lab.config), str(trees), str(count)]
    with subprocess.Popen([*command, *faults], stdout=subprocess.PIPE, stdin=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            yield
        finally:
            process.terminate()


def _child(lab: Laboratory, what: str, count: int, timeout: float = 60) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.bench_mcollective", what, str(lab.config), str(count), str(timeout)]
    found: dict[str, float] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    return found


def _settings(config: str) -> BusSettings:
    return read_config(Path(config), {}, identity="master", uid=0, bounds=Bounds())


def _names(count: int) -> list[str]:
    # Not those of the real daemons.
    return [str(number) for number in range(1000, 1000 + count)]


def _be(config: str, trees: str, count: str, *faults: str) -> None:
    settings = _settings(config)
    bases = [load(path) for path in sorted(Path(trees).iterdir())]
    nodes = {name: Tree(bases[place % len(bases)]) for place, name in enumerate(_names(int(count)))}
    simulated = SimulatedNodes(nodes, settings.signer, parse(faults))
    Simulator(settings, simulated, SystemClock()).run(lambda: False, lambda: print("ready", flush=True))


def _ask(config: str, what: str, count: int, timeout: float) -> dict[str, float]:
    settings, names = _settings(config), _names(count)
    with BusRpc(settings) as bus:
        nodes = MCollectiveNodes(bus, env=1, timeout=timeout)
        if what == "silent":
            missing = 0

            def read() -> None:
                nonlocal missing
                missing = _read(nodes, names)

            return {"read": _timed(read), "missing": missing}
        # The first time, the nodes pack what they print; real ones do so side by side.
        assert _read(nodes, names) == 0
        reads = [_timed(lambda: _read(nodes, names)) for _ in range(ROUNDS)]
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        trips = [_timed(lambda: _trip(bus, names)) for _ in range(ROUNDS)]
        bodies = _bodies(bus, settings, names)
        transfers = [_transfer(settings, bodies) for _ in range(ROUNDS)]
    return {"read": min(reads), "true": min(trips), "transfer": min(transfers), "memory": memory}


def _bodies(bus: BusRpc, settings: BusSettings, names: list[str]) -> list[bytes]:
    """Return the messages that the nodes reply with to a read."""
    command = Commands().read([b"/etc/hiera"])
    found = []
    for outcome in bus.call("execute_shell_command", "execute", {"cmd": command}, names, timeout=60):
        data = {name: value.decode() if isinstance(value, bytes) else value for name, value in outcome.data.items()}  # type: ignore[union-attr]
        body = node_messages.rpc_reply(0, "OK", data)
        found.append(
            node_messages.reply(settings.signer, body=body, agent="execute_shell_command", request_id="0" * 32, now=0)
        )
    return found


def _transfer(settings: BusSettings, bodies: list[bytes]) -> float:
    """Return how long it takes to send the messages through the broker and to receive them, untouched."""
    clock = time.monotonic
    sender = BrokerConnection(settings.hosts[0], settings, clock, "sender")
    receiver = BrokerConnection(settings.hosts[0], settings, clock, "receiver")
    receiver.subscribe(QUEUE, "bench")
    sender.send(Destination(QUEUE, {}), b"first")
    assert receiver.receive(10) is not None
    began = time.perf_counter()
    left = 0
    for body in bodies:
        sender.send(Destination(QUEUE, {}), body)
        left += 1
        while left > 100 and receiver.receive(0) is not None:
            left -= 1
    while left:
        assert receiver.receive(30) is not None
        left -= 1
    taken = time.perf_counter() - began
    sender.close()
    receiver.close()
    return taken


if __name__ == "__main__":
    if sys.argv[1:2] == ["be"]:
        _be(*sys.argv[2:])
    elif sys.argv[1:2] in (["read"], ["silent"]):
        print(json.dumps(_ask(sys.argv[2], sys.argv[1], int(sys.argv[3]), float(sys.argv[4]))))
    else:
        run(measure)
