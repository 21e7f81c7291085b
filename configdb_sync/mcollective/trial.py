"""Tries a broker by itself, without any node: login, TLS, and both exchanges there and back."""

from __future__ import annotations

from configdb_sync.clock import Clock
from configdb_sync.errors import BusError
from configdb_sync.mcollective.link import Link
from configdb_sync.mcollective.settings import BusSettings, Host


def try_broker(host: Host, settings: BusSettings, clock: Clock, name: str) -> str:
    """Log in, have one's own message come back over the directed and the broadcast exchange; return what was found.

    ``name``: an identity that nobody has. Each step has the time that a connection has. Raises ``BusError``.
    """
    link = Link(host, settings, clock.monotonic, name)
    try:
        connector = settings.connector
        for kind, target in (
            ("directed", connector.directed(name, link.replies)),
            ("broadcast", connector.broadcast(name, link.replies)),
        ):
            link.subscribe(target.destination, f"{name}-{kind}")
            link.send(target, _body(name, kind))
            if not _comes(link, _body(name, kind), settings.bounds.connect, clock):
                exchange = f"{settings.signer.collective}_{kind}"
                raise BusError(
                    f"the broker {host} took a message for {exchange} and didn't deliver it in time",
                    way_out=f"see its exchange {exchange}, and the rights of user {host.user!r}",
                    phase="call",
                )
    finally:
        link.close()
    tls = "without TLS" if host.tls is None else "TLS verified" if host.tls.verify else "TLS not verified"
    return f"{host} ({tls})"


def _comes(link: Link, body: bytes, seconds: float, clock: Clock) -> bool:
    end = clock.monotonic() + seconds
    while (left := end - clock.monotonic()) > 0:
        message = link.receive(left)
        if message is not None and message.body == body:
            return True
    return False


def _body(name: str, kind: str) -> bytes:
    # No node is asked, and none could read it.
    return f"{name} {kind}".encode("ascii")
