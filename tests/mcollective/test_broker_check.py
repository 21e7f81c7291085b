"""A broker that is tried by itself (U8): what it must do with a message of one's own."""

from __future__ import annotations

import pytest

from configdb_sync.clock import SystemClock
from configdb_sync.errors import BusError
from configdb_sync.mcollective.broker import try_broker
from configdb_sync.mcollective.transport import BrokerLostError
from tests.mcollective.fake import PASSWORD, PSK, Heard, Peer, broker


def frames(peer: Peer) -> list[Heard]:
    """Let the client in, and return the subscription and the message that it sends first."""
    peer.welcome()
    found = [heard for heard in (peer.read(), peer.read()) if heard is not None]
    assert [heard.command for heard in found] == ["SUBSCRIBE", "SEND"]
    return found


def deliver(peer: Peer, heard: Heard) -> None:
    place = heard.headers["destination"]
    peer.send("MESSAGE", {"subscription": "x", "destination": place, "message-id": "1"}, heard.body)


def test_both_exchanges_bring_it_back_and_others_messages_are_passed_by() -> None:
    seen: list[Heard] = []

    def both(peer: Peer) -> None:
        seen.extend(frames(peer))
        peer.send("MESSAGE", {"subscription": "x", "destination": "/y", "message-id": "0"}, b"another's")
        deliver(peer, seen[1])
        seen.extend(heard for heard in (peer.read(), peer.read()) if heard is not None)
        deliver(peer, seen[3])
        peer.read()

    with broker(both) as fake:
        found = try_broker(fake.settings().hosts[0], fake.settings(), SystemClock(), "doctor-1")
    assert found == f"127.0.0.1:{fake.port} (without TLS)"
    assert [heard.headers["destination"] for heard in seen] == [
        *["/exchange/mcollective_directed/doctor-1"] * 2,
        *["/exchange/mcollective_broadcast/doctor-1"] * 2,
    ]
    assert not any(secret in f"{seen}" for secret in (PSK, PASSWORD))


def test_one_that_does_not_deliver() -> None:
    def silent(peer: Peer) -> None:
        deliver(peer, frames(peer)[1])
        while peer.read() is not None:
            pass

    with broker(silent) as fake:
        settings = fake.settings(connect=2)
        with pytest.raises(BusError, match=r"took a message for mcollective_broadcast .* in time"):
            try_broker(settings.hosts[0], settings, SystemClock(), "doctor-1")


def test_one_that_has_no_such_exchange() -> None:
    def refuse(peer: Peer) -> None:
        frames(peer)
        peer.send("ERROR", {"message": "not_found"}, f"no exchange; {PASSWORD}".encode())

    with broker(refuse) as fake, pytest.raises(BrokerLostError, match="not_found: no exchange") as caught:
        try_broker(fake.settings().hosts[0], fake.settings(), SystemClock(), "doctor-1")
    assert PASSWORD not in str(caught.value)
