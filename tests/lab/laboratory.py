"""The whole: a broker and nodes, started, reachable and ended together."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from configdb_sync.errors import BusError
from configdb_sync.mcollective.bus_settings import Bounds, BusSettings, Host, Tls
from configdb_sync.mcollective.client import BusRpc
from configdb_sync.mcollective.envelope import Signer
from tests.lab import broker as brokers
from tests.lab.broker import Broker, make_broker
from tests.lab.nodes import Node, daemon, make_node, ruby

IDENTITIES = ("1", "2", "3", "4")
START = 60


@dataclass(frozen=True)
class Laboratory:
    """A bus that runs. ``config``: a ``client.cfg`` for it."""

    folder: Path
    psk: str
    broker: Broker
    nodes: dict[str, Node]

    @property
    def config(self) -> Path:
        """MCollective's settings for clients."""
        return self.folder / "client.cfg"

    def settings(self, *, tls: bool = False, **changes: object) -> BusSettings:
        """Return settings for it; ``changes``: other fields of them."""
        trust = Tls(ca=(str(self.broker.authority.certificate),)) if tls else None
        port = self.broker.tls if tls else self.broker.stomp
        settings = BusSettings(
            hosts=(Host("127.0.0.1", port, brokers.USER, self.broker.password, trust),),
            signer=Signer("master", self.psk.encode()),
            bounds=Bounds(connect=5, attempts=2),
        )
        return replace(settings, **changes)  # type: ignore[arg-type]

    def mend(self) -> None:
        """Start whatever doesn't run, and empty the nodes' folders."""
        restart = not self.broker.server.running
        if restart:
            self.broker.start()
        for node in self.nodes.values():
            # By itself a node may take half a minute to find back to a broker.
            if restart:
                node.process.stop()
            node.clear()
            if not node.process.running:
                node.process.start()
        self.await_nodes()

    def await_nodes(self, identities: Sequence[str] | None = None) -> None:
        """Return when the nodes (by default all) answer."""
        wanted = list(self.nodes) if identities is None else list(identities)
        with BusRpc(self.settings()) as rpc:
            for _ in range(START * 2):
                try:
                    if set(wanted) <= set(rpc.discover(timeout=0.5, expected=wanted)):
                        return
                except BusError:
                    # A broker that listens already may still refuse everybody while it starts.
                    time.sleep(0.5)
        raise RuntimeError(f"not all of the nodes {', '.join(wanted)} came up")


def unavailable() -> str | None:
    """Return why there can be no laboratory here, or None."""
    if os.geteuid() != 0:
        return "the MCollective laboratory needs root"
    if not (brokers.PROGRAMS / "rabbitmq-server").exists():
        return "RabbitMQ is not installed here"
    if daemon() is None:
        return "mcollectived is not installed here"
    if ruby() is None:
        return "ruby is not installed here"
    for program in ("openssl", "setpriv", "unshare"):
        if shutil.which(program) is None:
            return f"{program} is not installed here"
    tried = subprocess.run(
        ["unshare", "-m", "--propagation", "private", "mount", "-t", "tmpfs", "none", "/mnt"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"no mount namespaces here: {tried.stderr.strip()[-200:]}" if tried.returncode else None


@contextlib.contextmanager
def running(identities: Sequence[str] = IDENTITIES, *, level: str = "info") -> Iterator[Laboratory]:
    """Yield a laboratory with these nodes; it is gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="lab-", dir="/tmp"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o755)
        password, psk = f"pw-{secrets.token_hex(8)}", f"psk-{secrets.token_hex(8)}"
        broker = make_broker(folder / "broker", password)
        stack.callback(broker.stop)
        broker.start()
        (folder / "facts.yaml").write_text("--- {}\n")
        common = _common(broker, folder)
        client = [*common, "identity = master", f"plugin.psk = {psk}", f"logfile = {folder}/client.log"]
        (folder / "client.cfg").write_text("\n".join([*client, "loglevel = warn", "libdir = /usr/share/mcollective"]))
        (folder / "client.cfg").chmod(0o600)
        nodes = {one: make_node(folder / f"nodes/{one}", one, common, level=level, psk=psk) for one in identities}
        laboratory = Laboratory(folder, psk, broker, nodes)
        for node in nodes.values():
            stack.callback(node.process.stop)
            node.process.start()
        laboratory.await_nodes()
        yield laboratory


def _common(broker: Broker, folder: Path) -> list[str]:
    return [
        "main_collective = mcollective",
        "collectives = mcollective",
        "securityprovider = psk",
        "connector = rabbitmq",
        "direct_addressing = 1",
        "ttl = 4294957",
        "factsource = yaml",
        f"plugin.yaml = {folder}/facts.yaml",
        f"plugin.rabbitmq.vhost = {brokers.VHOST}",
        "plugin.rabbitmq.pool.size = 1",
        "plugin.rabbitmq.pool.1.host = 127.0.0.1",
        f"plugin.rabbitmq.pool.1.port = {broker.stomp}",
        f"plugin.rabbitmq.pool.1.user = {brokers.USER}",
        f"plugin.rabbitmq.pool.1.password = {broker.password}",
        "plugin.rabbitmq.heartbeat_interval = 30",
    ]
