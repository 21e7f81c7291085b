"""Connections against brokers that misbehave, on real sockets (B01, B02, B03, B16, B17; U12)."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from configdb_sync.errors import BusError
from configdb_sync.exits import Exit, exit_of
from configdb_sync.mcollective.broker import BrokerConnection, IncompatibleError, LoginRefusedError, UnreachableError
from configdb_sync.mcollective.bus_settings import BusSettings, RabbitMQ, Replies
from configdb_sync.mcollective.client import BusRpc
from configdb_sync.mcollective.transport import BrokerLostError
from tests.mcollective.fake import LIMIT, PASSWORD, PSK, Peer, answering, broker, settings

SOON = 20.0
"""Seconds within which what takes one or two ends on a machine with much else to do; what hangs takes longer."""


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    """No test leaves a thread behind, whatever the broker did."""
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def ask(rpc: BusRpc, *identities: str, timeout: float = 60) -> list[object]:
    return list(rpc.call("a", "b", {}, identities or ("1",), timeout=timeout))


def test_b01_bodies_arrive_as_the_bytes_that_they_are() -> None:
    """B01."""
    raw = bytes.fromhex("04082206ff")

    def send(peer: Peer) -> None:
        peer.welcome()
        peer.send("MESSAGE", {"subscription": "x"}, raw)
        peer.send("MESSAGE", {"subscription": "x"}, bytes(range(256)) * 100)
        peer.read()

    with broker(send) as fake:
        link = BrokerConnection(fake.settings().hosts[0], fake.settings(), time.monotonic, "x")
        first, second = link.receive(LIMIT), link.receive(LIMIT)
        link.close()
    assert first is not None
    assert type(first.body) is bytes
    assert first.body == raw
    assert second is not None
    assert second.body == bytes(range(256)) * 100


@pytest.mark.parametrize("version", ["1.2", "1.0", None, "9" * 1000])
def test_a_broker_of_another_version_of_stomp_is_told_at_once(version: str | None) -> None:
    """We ask for 1.1: in 1.2 headers are escaped otherwise, and 1.0 escapes none."""

    def welcome(peer: Peer) -> None:
        peer.read()
        peer.send("CONNECTED", {"heart-beat": "0,0", **({} if version is None else {"version": version})})
        peer.read()

    told = r"speaks STOMP \S{1,20}, not 1\.1 .*use a broker with STOMP 1\.1"
    with broker(welcome) as fake, pytest.raises(IncompatibleError, match=told):
        BusRpc(fake.settings()).discover(timeout=1)


def test_b02_a_broker_that_takes_the_connection_and_says_nothing() -> None:
    """B02: ends within its limit, names host, port and phase, leaves no thread."""

    def silent(peer: Peer) -> None:
        peer.read()
        peer.read()

    with broker(silent) as fake:
        start = time.monotonic()
        with pytest.raises(UnreachableError) as error, BusRpc(fake.settings(connect=1)) as rpc:
            ask(rpc)
        assert time.monotonic() - start < SOON
    assert error.value.phase == "handshake"
    assert f"127.0.0.1:{fake.port}" in str(error.value)
    assert exit_of(error.value) is Exit.NODES


def test_b02_a_broker_that_says_a_little_now_and_then() -> None:
    """B02: the limit holds for the whole of the handshake, not for each byte."""

    def drip(peer: Peer) -> None:
        while True:
            peer.raw(b"\n")
            time.sleep(0.05)

    with broker(drip) as fake:
        start = time.monotonic()
        with (
            pytest.raises(UnreachableError, match="sent nothing for 1 s") as error,
            BusRpc(fake.settings(connect=1)) as rpc,
        ):
            ask(rpc)
        assert time.monotonic() - start < SOON
    assert error.value.phase == "handshake"


def refuse(peer: Peer) -> None:
    peer.read()
    # Some brokers show what they were given.
    peer.send("ERROR", {"message": "Bad CONNECT"}, f"Access refused for user 'mcollective' ({PASSWORD})\n".encode())
    peer.read()


def test_b03_a_refused_login_says_why_and_is_not_tried_again() -> None:
    """B03: the broker's words, not the password; the socket stays open and nobody waits for it."""
    with broker(refuse) as fake:
        start = time.monotonic()
        with pytest.raises(LoginRefusedError) as error, BusRpc(fake.settings(attempts=5)) as rpc:
            ask(rpc)
        assert time.monotonic() - start < SOON
        assert fake.connections == 1
    assert "Bad CONNECT: Access refused for user 'mcollective'" in str(error.value)
    assert error.value.phase == "login"
    assert PASSWORD not in f"{error.value!s} {error.value!r}"
    assert exit_of(error.value) is Exit.NODES


def test_a_broker_that_hangs_up_during_the_login() -> None:
    def hang_up(peer: Peer) -> None:
        peer.read()

    with broker(hang_up) as fake, BusRpc(fake.settings(attempts=2)) as rpc:
        with pytest.raises(UnreachableError, match=r"closed the connection.*tried 2 times") as error:
            ask(rpc)
        assert fake.connections == 2
    assert error.value.phase == "handshake"


@pytest.mark.parametrize(
    "noise",
    [
        b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n" + b"x" * 100 + b"\0",
        b"\0\0\0\0",
        b"CONNECTED\nheart-beat:a,b,c\n\n\0",
        b"CONNECTED\nheart-beat:-1\n\n\0",
        b"RECEIPT\n\n\0",
        b"CONNECTED\ncontent-length:99999999999999999999\n\n\0",
        b"\xff" * 100000,
        b"CONNECTED",
    ],
)
def test_a_peer_that_is_no_broker(noise: bytes) -> None:
    def send(peer: Peer) -> None:
        peer.read()
        peer.raw(noise)

    with broker(send) as fake, BusRpc(fake.settings(connect=1)) as rpc, pytest.raises(BusError):
        ask(rpc, timeout=0.5)


def test_b17_a_port_where_nobody_listens() -> None:
    """B17: at most limit times attempts, and the message says how to change them."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
        start = time.monotonic()
        with pytest.raises(UnreachableError) as error, broker(answering) as fake:
            ask(BusRpc(settings(port, bounds=fake.settings(connect=2, attempts=3).bounds)))
        assert time.monotonic() - start < SOON
    assert error.value.phase == "connect"
    assert f"127.0.0.1:{port}" in str(error.value)
    assert "Connection refused (tried 3 times)" in str(error.value)
    assert "--mco-connect-limit and --mco-attempts" in str(error.value)


def test_b17_a_host_that_drops_what_it_gets() -> None:
    """B17: nobody answers the first packet; here a listener whose queue is full does so."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for sock in (first, second):
            sock.setblocking(False)
            sock.connect_ex(listener.getsockname())
        start = time.monotonic()
        with broker(answering) as fake, pytest.raises(UnreachableError, match=r"no answer within 0\.5 s") as error:
            ask(BusRpc(settings(listener.getsockname()[1], bounds=fake.settings(connect=0.5, attempts=2).bounds)))
        assert time.monotonic() - start < SOON
    assert error.value.phase == "connect"


def test_the_next_host_of_the_pool_is_used_when_one_is_down() -> None:
    with socket.socket() as sock, broker(answering) as fake:
        sock.bind(("127.0.0.1", 0))
        pool = settings(sock.getsockname()[1], fake.port, bounds=fake.settings().bounds)
        with BusRpc(pool) as rpc:
            assert len(ask(rpc, "1", "2")) == 2


def test_when_all_hosts_are_down_all_are_named() -> None:
    with socket.socket() as one, socket.socket() as other:
        ports = []
        for sock in (one, other):
            sock.bind(("127.0.0.1", 0))
            ports.append(sock.getsockname()[1])
        with pytest.raises(UnreachableError) as error, broker(answering) as fake:
            ask(BusRpc(settings(*ports, bounds=fake.settings(attempts=2).bounds)))
    for port in ports:
        assert f"127.0.0.1:{port}" in str(error.value)


def test_what_the_login_says() -> None:
    seen = []

    def look(peer: Peer) -> None:
        seen.append(peer.welcome().headers)
        peer.read()

    with broker(look) as fake:
        BrokerConnection(fake.settings().hosts[0], fake.settings(), time.monotonic, "x").close()
    assert seen == [
        {
            "accept-version": "1.1",
            "heart-beat": "0,29500",
            "host": "mcollective",
            "login": "mcollective",
            "passcode": PASSWORD,
        }
    ]


def test_replies_are_subscribed_to_where_a_connector_wants_it() -> None:
    """Another connector than RabbitMQ's (cut as ActiveMQ's would be); a refusal names the phase."""
    seen = []

    class Other(RabbitMQ):
        def replies(self, name: str) -> Replies:
            return Replies(f"/queue/reply.{name}", subscribe=f"/queue/reply.{name}")

    class Told(BusSettings):
        @property
        def connector(self) -> RabbitMQ:
            return Other("master", 60)

    def look(peer: Peer) -> None:
        peer.welcome()
        for _ in range(2):
            heard = peer.read()
            assert heard is not None
            seen.append((heard.command, heard.headers["destination"], heard.headers.get("reply-to")))
        peer.read()

    with broker(look) as fake:
        told = Told(fake.settings().hosts, fake.settings().signer)
        link = BrokerConnection(told.hosts[0], told, time.monotonic, "x")
        link.send(told.connector.directed("1", link.replies), b"x")
        link.close()
    assert seen == [
        ("SUBSCRIBE", "/queue/reply.x", None),
        ("SEND", "/exchange/mcollective_directed/1", "/queue/reply.x"),
    ]


def test_a_lost_subscription_names_the_phase() -> None:
    def hang_up(peer: Peer) -> None:
        peer.welcome()
        peer.send("ERROR", {"message": "access_refused"})

    with broker(hang_up) as fake:
        link = BrokerConnection(fake.settings().hosts[0], fake.settings(), time.monotonic, "x")
        end = time.monotonic() + LIMIT
        while link.usable and time.monotonic() < end:
            time.sleep(0.01)
        with pytest.raises(BrokerLostError, match="access_refused") as error:
            link.subscribe("/queue/x", "x")
    assert error.value.phase == "subscribe"
    assert f"127.0.0.1:{fake.port}" in str(error.value)


class Clock:
    """Monotonic seconds that a test moves."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


class Frozen(Clock):
    """One that stands still but for the test: no busy machine makes it late."""

    def __call__(self) -> float:
        return self.ahead


def test_a_broker_without_heartbeats_is_lost() -> None:
    clock = Clock()

    def silent(peer: Peer) -> None:
        peer.welcome(beat="1000,1000")
        peer.read()

    with broker(silent) as fake:
        link = BrokerConnection(fake.settings().hosts[0], fake.settings(heartbeat=1), clock, "x")
        assert link.receive(0.01) is None
        timer = threading.Timer(0.2, lambda: setattr(clock, "ahead", 5.0))
        timer.start()
        with pytest.raises(BrokerLostError, match="no heartbeat either") as error:
            link.receive(60)
        timer.join()
    assert error.value.phase == "call"


def test_a_caller_that_was_busy_takes_nothing_for_silence() -> None:
    clock, over = Clock(), threading.Event()

    def late(peer: Peer) -> None:
        peer.welcome(beat="1000,1000")
        over.wait(LIMIT)
        peer.send("MESSAGE", {}, b"x")
        peer.read()

    with broker(late) as fake:
        link = BrokerConnection(fake.settings().hosts[0], fake.settings(heartbeat=1), clock, "x")
        clock.ahead = 1000.0
        over.set()
        message = link.receive(LIMIT)
        link.close()
    assert message is not None


def test_b16_heartbeats_due_while_a_reply_is_read() -> None:
    """B16: one owner of the socket; in 500 rounds the end of a reply comes when the silence is at its longest."""
    clock = Frozen()
    whole = b"MESSAGE\ncontent-length:1000\n\n" + b"\0" * 1000 + b"\0"

    def beat(peer: Peer) -> None:
        peer.welcome(beat="1000,1000")
        while peer.read() is not None:
            peer.raw(whole[:100])
            clock.ahead += 2.4995
            peer.raw(whole[100:600])
            peer.raw(whole[600:] + b"\n")

    with broker(beat) as fake:
        told = fake.settings(heartbeat=1)
        link = BrokerConnection(told.hosts[0], told, clock, "x")
        for _ in range(500):
            link.send(told.connector.directed("1", link.replies), b"x")
            message = link.receive(60)
            assert message is not None
            assert message.body == b"\0" * 1000
        link.close()
    assert fake.connections == 1


def test_a_broker_that_takes_nothing_is_lost() -> None:
    given_up = threading.Event()

    def deaf(peer: Peer) -> None:
        peer.welcome()
        given_up.wait(LIMIT)

    with broker(deaf) as fake:
        link = BrokerConnection(fake.settings().hosts[0], fake.settings(stall=0.5), time.monotonic, "x")
        target = fake.settings().connector.directed("1", link.replies)
        start = time.monotonic()
        with pytest.raises(BrokerLostError, match=r"accepted no data for 0\.5 s"):
            link.send(target, b"x" * 100_000_000)
        given_up.set()
        assert time.monotonic() - start < SOON


def test_both_sides_send_a_lot_at_once() -> None:
    """A broker that can't go on before we have taken something of it doesn't stop us."""
    size = 12 << 20

    def flood(peer: Peer) -> None:
        peer.welcome()
        peer.send("MESSAGE", {}, b"y" * (4 << 20))
        heard = peer.read()
        assert heard is not None
        assert len(heard.body) == size
        peer.send("MESSAGE", {}, b"end")
        peer.read()

    with broker(flood) as fake:
        link = BrokerConnection(fake.settings().hosts[0], fake.settings(), time.monotonic, "x")
        link.send(fake.settings().connector.directed("1", link.replies), b"x" * size)
        first, second = link.receive(LIMIT), link.receive(LIMIT)
        link.close()
    assert first is not None
    assert first.size == 4 << 20
    assert second is not None
    assert second.body == b"end"


def test_an_error_of_the_broker_ends_the_call_with_its_words() -> None:
    def complain(peer: Peer) -> None:
        peer.welcome()
        peer.read()
        peer.send("ERROR", {"message": "internal_error"}, f"no exchange 'x' {PSK}\x1b[0m\n".encode())

    with broker(complain) as fake, BusRpc(fake.settings(losses=1)) as rpc, pytest.raises(BrokerLostError) as error:
        ask(rpc, "1", "2")
    assert "internal_error: no exchange 'x' ***\\x1b[0m" in str(error.value)
    assert "given up after losing 2 connections, no answer from 2 nodes: 1, 2" in str(error.value)
    assert PSK not in repr(error.value)


def test_a_secret_in_an_error_of_the_broker_is_hidden_where_the_text_is_cut() -> None:
    def complain(peer: Peer) -> None:
        peer.welcome()
        peer.read()
        peer.send("ERROR", {"message": "x"}, b"y" * (300 - len("x: ") - len(PSK) + 2) + PSK.encode())

    with broker(complain) as fake, BusRpc(fake.settings(losses=0)) as rpc, pytest.raises(BrokerLostError) as error:
        ask(rpc)
    assert PSK[:-2] not in str(error.value)


def test_an_error_that_would_come_again_ends_the_call_at_once() -> None:
    def complain(peer: Peer) -> None:
        peer.welcome()
        peer.read()
        peer.send("ERROR", {"message": "not_found"}, b"NOT_FOUND - no exchange 'x' in vhost '/'\n")

    with broker(complain) as fake, BusRpc(fake.settings()) as rpc:
        with pytest.raises(BrokerLostError, match="after losing the connection"):
            ask(rpc)
        with pytest.raises(BrokerLostError, match="NOT_FOUND"):
            rpc.discover(timeout=60)
        assert fake.connections == 2


def test_nothing_of_a_connection_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with broker(answering) as fake, BusRpc(fake.settings()) as rpc:
        list(rpc.call("a", "b", {"cmd": "CANARY-data"}, ["1"], timeout=60))
        shown = repr(vars(rpc)) + repr(fake.settings())
    assert "CANARY" not in caplog.text + shown
