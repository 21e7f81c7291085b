"""Calls against nodes and brokers that misbehave, on real sockets (B04, B08, B10, B11, B13, B15, B18; U8, U14)."""

from __future__ import annotations

import base64
import select
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from configdb_sync.errors import BusError
from configdb_sync.mcollective.broker import LoginRefusedError
from configdb_sync.mcollective.client import BusRpc
from configdb_sync.mcollective.envelope import Envelope
from configdb_sync.mcollective.marshal import MarshalError, dumps
from configdb_sync.mcollective.outcomes import UNREADABLE, ErrorReply, Missing, Outcome, Reply, ReplyCounts
from configdb_sync.mcollective.transport import BrokerLostError
from tests.mcollective import fake as fakes
from tests.mcollective.fake import LIMIT, Fake, Heard, Peer, answering, broker
from tests.support.clocks import Hasty


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = threading.active_count()
    yield
    assert threading.active_count() == before


def ask(
    fake: Fake, *identities: str, timeout: float = 60, clock: Hasty | None = None, **changes: Any
) -> tuple[dict[str, Outcome], ReplyCounts]:
    """Call and return the outcomes by identity, each exactly once, and the counts."""
    with BusRpc(fake.settings(**changes), clock) as rpc:
        outcomes = list(rpc.call("agent", "do", {"x": b"1"}, identities, timeout=timeout))
    assert sorted(one.identity for one in outcomes) == sorted(identities)
    return {one.identity: one for one in outcomes}, rpc.counts


def test_every_node_is_asked_once_and_answers_are_matched_to_it() -> None:
    heard = []

    def look(peer: Peer) -> None:
        peer.welcome()
        for one in peer.requests():
            heard.append(one)
            peer.answer(one, data={"who": one.identity})

    with broker(look) as fake:
        outcomes, counts = ask(fake, "1", "2", "3")
    assert outcomes == {name: Reply(name, {"who": name.encode()}) for name in "123"}
    assert counts == ReplyCounts()
    assert [one.headers["destination"] for one in heard] == [f"/exchange/mcollective_directed/{n}" for n in "123"]
    assert len({one.headers["reply-to"] for one in heard}) == 1
    assert heard[0].headers["reply-to"].startswith("/temp-queue/mcollective_reply_")
    assert heard[0].headers["expiration"] == "4294967000"
    assert heard[0].headers["mc_sender"] == "master"
    assert len({one.request.request_id for one in heard}) == 1
    assert len(heard[0].request.request_id) == 32


def test_a_node_that_is_named_twice_is_asked_once() -> None:
    with broker(answering) as fake, BusRpc(fake.settings()) as rpc:
        assert len(list(rpc.call("a", "b", {}, ["1", "1"], timeout=60))) == 1


def test_nodes_can_be_asked_different_things_at_once() -> None:
    def echo(peer: Peer) -> None:
        peer.welcome()
        for one in peer.requests():
            peer.answer(one, data={"size": len(one.request.body)})

    with broker(echo) as fake, BusRpc(fake.settings()) as rpc:
        requests = {"1": {"content": b"x"}, "2": {"content": b"x" * 1000}}
        sizes = {
            one.identity: one.data["size"]
            for one in rpc.call_each("a", "b", requests, timeout=60)
            if isinstance(one, Reply)
        }
    assert sizes["2"] - sizes["1"] > 990


def test_b04_a_lost_connection_is_made_anew_and_only_the_unanswered_are_asked_again() -> None:
    """B04: under a new request id; a reply to the old one is counted as late, and is no answer."""
    asked: list[list[tuple[str, str]]] = [[], []]

    def lose(peer: Peer) -> None:
        peer.welcome()
        requests = peer.requests()
        heard = [next(requests) for _ in range(3)]
        asked[0] += [(one.identity, one.request.request_id) for one in heard]
        peer.answer(heard[0])

    def serve(peer: Peer) -> None:
        peer.welcome()
        old = asked[0][0][1]
        for one in peer.calls("1", "2", "3"):
            asked[1].append((one.identity, one.request.request_id))
            peer.answer(one, request_id=old, data={"n": "old"})
            peer.answer(one)

    with broker(lose, serve) as fake:
        outcomes, counts = ask(fake, "1", "2", "3")
    assert all(one == Reply(one.identity, {"n": 1}) for one in outcomes.values())
    assert [name for name, _ in asked[1]] == ["2", "3"]
    assert asked[0][0][1] != asked[1][0][1]
    # The last of the old replies comes after the call's end.
    assert counts.lost == 1
    assert counts.late >= 1


def test_b04_nodes_are_asked_again_when_they_are_back() -> None:
    """B04: a broker drops what is sent to a node that has not found back to it yet."""
    asked = []
    clock = Hasty()

    def lose(peer: Peer) -> None:
        peer.welcome()
        requests = peer.requests()
        for _ in range(3):
            next(requests)

    def serve(peer: Peer) -> None:
        peer.welcome()
        pings = 0
        for one in peer.requests():
            if one.ping:
                pings += 1
                assert sorted(one.request.filters["identity"]) == ["1", "2", "3"][pings - 1 :]
                peer.answer(one, sender=str(pings), body=dumps("pong")) if pings < 3 else None
            else:
                asked.append((pings, one.identity))
                peer.answer(one)
                if pings == 2:
                    clock.forward()

    with broker(lose, serve) as fake:
        outcomes, _ = ask(fake, "1", "2", "3", clock=clock)
    assert asked == [(1, "1"), (2, "2")]
    assert isinstance(outcomes["1"], Reply)
    assert isinstance(outcomes["2"], Reply)
    assert isinstance(outcomes["3"], Missing)


def test_a_flood_of_other_messages_is_no_excuse() -> None:
    """A call ends though messages that don't count come without end."""

    def flood(peer: Peer) -> None:
        peer.welcome()
        one = next(peer.requests())
        while True:
            peer.answer(one, sender="77", body=dumps("pong"))

    start = time.monotonic()
    with broker(flood) as fake:
        outcomes, _ = ask(fake, "1", timeout=0.5)
        with BusRpc(fake.settings()) as rpc:
            # A loaded machine may not have begun to flood before the time is over.
            assert set(rpc.discover(timeout=0.5, expected=["1"])) <= {"77"}
    assert time.monotonic() - start < 30
    assert isinstance(outcomes["1"], Missing)


def test_what_came_while_the_caller_was_busy_counts() -> None:
    """The time of a node is over only when nothing of it has come."""

    names = [str(number) for number in range(20)]
    sent = threading.Event()
    clock = Hasty()

    def much(peer: Peer) -> None:
        peer.welcome()
        requests = peer.requests()
        for one in [next(requests) for _ in names]:
            peer.answer(one, data={"stdout": b"x" * 2000})
        sent.set()
        peer.read()

    with broker(much) as fake, BusRpc(fake.settings(), clock) as rpc:
        outcomes = []
        for one in rpc.call("a", "b", {}, names, timeout=60):
            outcomes.append(one)
            assert sent.wait(LIMIT)
            clock.forward()
    assert [type(one) for one in outcomes] == [Reply] * 20


def test_b04_losses_count_while_nothing_is_gained() -> None:
    """A call whose connection is lost after each answer gets to its end all the same."""

    def one(peer: Peer) -> None:
        peer.welcome()
        calls = peer.calls(*names)
        # All is read first: a connection that is closed on what wasn't read may take the answer with it.
        heard = [next(calls) for _ in left]
        peer.answer(heard[0])
        left.remove(heard[0].identity)

    names = [str(number) for number in range(8)]
    left = list(names)
    with broker(one) as fake:
        outcomes, counts = ask(fake, *names, losses=3)
    assert all(isinstance(outcome, Reply) for outcome in outcomes.values())
    assert counts.lost >= 7


def test_b04_a_broker_that_refuses_everybody_while_it_starts_again() -> None:
    """B04: who was let in before tries again; without that a refused login is final (B03)."""

    def lose(peer: Peer) -> None:
        peer.welcome()
        peer.read()

    def refuse(peer: Peer) -> None:
        peer.read()
        peer.send("ERROR", {"message": "Bad CONNECT"}, b"Virtual host 'mcollective' access denied")

    with broker(lose, refuse, refuse, answering) as fake:
        outcomes, _ = ask(fake, "1", "2")
    assert all(isinstance(one, Reply) for one in outcomes.values())
    with broker(lose, refuse) as fake, pytest.raises(LoginRefusedError):
        ask(fake, "1", "2", timeout=0.5)


def test_b04_a_broker_that_is_lost_each_time_ends_the_call() -> None:
    def lose(peer: Peer) -> None:
        peer.welcome()
        peer.read()

    with broker(lose) as fake, pytest.raises(BrokerLostError, match="no answer from 2 nodes") as error:
        ask(fake, "1", "2", losses=2)
    assert fake.connections == 3
    assert error.value.phase == "call"


def test_what_must_not_be_done_twice_is_not_asked_again() -> None:
    def lose(peer: Peer) -> None:
        peer.welcome()
        requests = peer.requests()
        first, _ = next(requests), next(requests)
        peer.answer(first)

    with broker(lose, answering) as fake, BusRpc(fake.settings(window=2)) as rpc:
        outcomes = {
            one.identity: one for one in rpc.call("a", "b", {}, ["1", "2", "3", "4"], timeout=60, repeatable=False)
        }
    assert isinstance(outcomes["1"], Reply)
    missing = [name for name, one in outcomes.items() if isinstance(one, Missing)]
    # Those that had been asked are left; the others were only due.
    assert missing
    assert all("may have done it" in outcomes[name].hint for name in missing)  # type: ignore[union-attr]
    assert isinstance(outcomes["4"], Reply)


def test_b08_a_duplicate_does_not_hide_a_silent_node() -> None:
    """B08: replies 1, 1, 2; node 3 is missing, one duplicate is noted."""

    clock = Hasty()

    def twice(peer: Peer) -> None:
        peer.welcome()
        requests = peer.requests()
        heard = {one.identity: one for one in (next(requests) for _ in range(3))}
        for name in ("1", "1", "2"):
            peer.answer(heard[name])
        clock.forward()
        peer.read()

    with broker(twice) as fake:
        outcomes, counts = ask(fake, "1", "2", "3", clock=clock)
    assert isinstance(outcomes["1"], Reply)
    assert isinstance(outcomes["2"], Reply)
    assert isinstance(outcomes["3"], Missing)
    assert counts == ReplyCounts(duplicates=1)


def test_strangers_and_forgers_are_counted_and_answer_for_nobody() -> None:
    def lie(peer: Peer) -> None:
        peer.welcome()
        requests = peer.requests()
        one = next(requests)
        peer.answer(one, sender="77")
        peer.answer(one, psk="wrong", data={"n": "forged"})
        peer.answer(one, request_id="0" * 32, data={"n": "old"})
        peer.answer(one)
        peer.read()

    with broker(lie) as fake:
        outcomes, counts = ask(fake, "1")
    assert outcomes == {"1": Reply("1", {"n": 1})}
    assert counts == ReplyCounts(strangers=1, forged=1, late=1)


def test_b10_an_unreadable_reply_spoils_that_node_alone() -> None:
    """B10: sizes only; the others succeed, the run ends within its deadline."""

    clock = Hasty()

    def cut(peer: Peer) -> None:
        peer.welcome()
        for one in peer.requests():
            if one.identity == "2":
                peer.message(one, b"\x04\x08{")
            else:
                peer.answer(one)
            if one.identity == "3":
                clock.forward()

    with broker(cut) as fake:
        outcomes, counts = ask(fake, "1", "2", "3", clock=clock)
    assert isinstance(outcomes["1"], Reply)
    assert isinstance(outcomes["3"], Reply)
    two = outcomes["2"]
    assert isinstance(two, Missing)
    assert "unreadable message of 3 bytes" in two.hint
    assert counts == ReplyCounts(unreadable=1)


@pytest.mark.parametrize(
    "body",
    [
        b"\x04\x08{",
        b"\x04\x08{\x08:\x0fstatuscodei\x00:\x0estatusmsg0:\x09data}\x00i\x0a",  # B15: Hash.new(5)
        b"\x04\x08" + b"[\x06" * 10000 + b"0",  # B15
        b"\x04\x08o:\x08Foo\x00",  # B15
        b'\x04\x08"\x04\xff\xff\xff\x7f',  # B15
        dumps("OK"),
    ],
)
def test_b15_a_body_that_cannot_be_read_is_that_nodes_failure_at_once(body: bytes) -> None:
    """B10, B15: the hash is right, so that it is the node's own; nobody waits for another."""

    def send(peer: Peer) -> None:
        peer.welcome()
        for one in peer.requests():
            peer.answer(one, body=body)

    start = time.monotonic()
    with broker(send) as fake:
        outcomes, _ = ask(fake, "1", timeout=60)
    assert time.monotonic() - start < 50
    one = outcomes["1"]
    assert isinstance(one, ErrorReply)
    assert one.code == UNREADABLE
    assert f"unreadable reply: body of {len(body)} bytes" in one.text
    assert "Foo" not in one.text


def test_a_reply_beyond_the_limit_spoils_that_node_alone() -> None:
    clock = Hasty()

    def big(peer: Peer) -> None:
        peer.welcome()
        for one in peer.requests():
            peer.answer(one, data={"stdout": b"x" * (3 << 20 if one.identity == "2" else 10)})
            if one.identity == "3":
                clock.forward()

    with broker(big) as fake:
        outcomes, counts = ask(fake, "1", "2", "3", clock=clock, frame=1 << 20)
    two = outcomes["2"]
    assert isinstance(two, Missing)
    assert "beyond the limit" in two.hint
    assert isinstance(outcomes["3"], Reply)
    assert counts == ReplyCounts(unreadable=1)


def test_b11_a_request_carries_the_ttl_and_a_silent_node_the_hint() -> None:
    """B11."""
    sent: list[Envelope] = []

    def silent(peer: Peer) -> None:
        peer.welcome()
        sent.extend(one.request for one in peer.requests())

    with broker(silent) as fake:
        outcomes, _ = ask(fake, "1", timeout=0.3)
        signer = replace(fake.settings().signer, ttl=60)
        ask(fake, "1", timeout=0.3, signer=signer)
    assert [one.ttl for one in sent] == [4294957, 60]
    assert abs(sent[0].sent - time.time()) < LIMIT
    one = outcomes["1"]
    assert isinstance(one, Missing)
    assert "clock or ttl" in one.hint


def wrapped(peer: Peer, clock: Hasty | None = None) -> None:
    """Answer in base64, in lines as Ruby makes them; then ``clock`` goes forward."""
    peer.welcome()
    for one in peer.requests():
        plain = (
            one if one.body.startswith(b"\x04\x08") else replace(one, body=base64.b64decode(one.body, validate=True))
        )
        peer.message(one, base64.encodebytes(fakes.reply(plain, one.identity)))
        if clock is not None:
            clock.forward()


def test_b13_base64_is_spoken_where_it_is_set() -> None:
    """B13: both ways."""
    with broker(wrapped) as fake:
        outcomes, _ = ask(fake, "1", base64=True)
    assert isinstance(outcomes["1"], Reply)


def test_b13_base64_where_it_is_not_set_names_the_setting() -> None:
    """B13."""
    clock = Hasty()
    with broker(lambda peer: wrapped(peer, clock)) as fake:
        outcomes, counts = ask(fake, "1", clock=clock)
    one = outcomes["1"]
    assert isinstance(one, Missing)
    assert "in base64, and plugin.rabbitmq.base64 is not set" in one.hint
    assert counts == ReplyCounts(unreadable=1)


def test_b13_no_base64_where_it_is_set_names_the_setting() -> None:
    """B13."""
    clock = Hasty()

    def plain(peer: Peer) -> None:
        peer.welcome()
        for one in peer.requests():
            decoded = replace(one, body=base64.b64decode(one.body))
            peer.message(one, fakes.reply(decoded, one.identity))
            clock.forward()

    with broker(plain) as fake:
        outcomes, _ = ask(fake, "1", clock=clock, base64=True)
    one = outcomes["1"]
    assert isinstance(one, Missing)
    assert "not in base64, and plugin.rabbitmq.base64 is set" in one.hint


def test_b18_a_silent_node_is_missing_and_the_others_are_not() -> None:
    """B18: three nodes, one silent."""

    clock = Hasty()

    def quiet(peer: Peer) -> None:
        peer.welcome()
        for one in peer.requests():
            if one.identity != "2":
                peer.answer(one, code=0 if one.identity == "1" else 5, text="no such thing")
            if one.identity == "3":
                clock.forward()

    with broker(quiet) as fake:
        outcomes, _ = ask(fake, "1", "2", "3", clock=clock)
    assert isinstance(outcomes["1"], Reply)
    assert isinstance(outcomes["2"], Missing)
    assert outcomes["3"] == ErrorReply("3", 5, "no such thing")


def test_large_environments_are_asked_in_batches() -> None:
    batches = 0

    def in_tens(peer: Peer) -> None:
        nonlocal batches
        peer.welcome()
        at_work: list[Heard] = []
        for one in peer.requests():
            at_work.append(one)
            if len(at_work) == 10:
                # The eleventh would come at once.
                more, _, _ = select.select([peer.sock], [], [], 0.2)
                assert not more
                assert not peer._rest.strip()
                batches += 1
                while at_work:
                    peer.answer(at_work.pop())

    with broker(in_tens) as fake:
        # Who has been silent for a twentieth of it would be at work no more.
        outcomes, _ = ask(fake, *map(str, range(60)), window=10, timeout=1000)
    assert all(isinstance(one, Reply) for one in outcomes.values())
    assert batches == 6


def test_silent_nodes_hold_nobody_up() -> None:
    silent = {str(number) for number in range(0, 200, 10)}

    clock = Hasty()

    def quiet(peer: Peer) -> None:
        peer.welcome()
        left, heard = 200, 0
        for one in peer.requests():
            left -= 1
            if one.identity not in silent:
                peer.answer(one)
            else:
                heard += 1
            if heard == 10 and one.identity in silent:
                # They fill the window; a twentieth of their time opens it.
                clock.forward(3.1)
            if not left:
                clock.forward()

    start = time.monotonic()
    with broker(quiet) as fake:
        outcomes, _ = ask(fake, *map(str, range(200)), window=10, timeout=60, clock=clock)
    assert {name for name, one in outcomes.items() if isinstance(one, Missing)} == silent
    assert time.monotonic() - start < 50


def test_calls_may_be_nested_and_left_unfinished() -> None:
    with broker(answering) as fake, BusRpc(fake.settings()) as rpc:
        found: list[tuple[str, str]] = []
        for outer in rpc.call("a", "b", {}, ["1", "2", "3"], timeout=60):
            inner = rpc.call("a", "c", {}, ["4", "5"], timeout=60)
            found.extend((outer.identity, one.identity) for one in inner)
            if outer.identity == "2":
                break
        assert found == [("1", "4"), ("1", "5"), ("2", "4"), ("2", "5")]
        assert len(list(rpc.call("a", "b", {}, ["6"], timeout=60))) == 1


def test_calls_may_run_in_threads() -> None:
    with broker(answering) as fake, BusRpc(fake.settings()) as rpc:
        found: dict[int, list[Outcome]] = {}

        def work(number: int) -> None:
            found[number] = list(rpc.call("a", "b", {}, [f"{number}-{at}" for at in range(20)], timeout=60))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {number: len(outcomes) for number, outcomes in found.items()} == dict.fromkeys(range(8), 20)
    assert all(isinstance(one, Reply) for outcomes in found.values() for one in outcomes)


def test_a_connection_is_used_again_and_late_replies_of_the_call_before_are_known() -> None:
    held: list[Heard] = []

    def late(peer: Peer) -> None:
        peer.welcome()
        for one in peer.requests():
            if not held:
                held.append(one)
                continue
            peer.answer(held[0], data={"n": "late"})
            peer.answer(one)

    with broker(late) as fake, BusRpc(fake.settings()) as rpc:
        (first,) = rpc.call("a", "b", {}, ["1"], timeout=0.3)
        (second,) = rpc.call("a", "b", {}, ["1"], timeout=60)
        assert fake.connections == 1
    assert isinstance(first, Missing)
    assert second == Reply("1", {"n": 1})
    assert rpc.counts == ReplyCounts(late=1)


def test_an_idle_connection_that_was_lost_is_made_anew_without_a_word() -> None:
    def once(peer: Peer) -> None:
        peer.welcome()
        peer.answer(next(peer.requests()))

    with broker(once) as fake, BusRpc(fake.settings()) as rpc:
        for number in range(3):
            assert [type(one) for one in rpc.call("a", "b", {}, ["1"], timeout=60)] == [Reply]
            end = time.monotonic() + LIMIT
            while fake.ended <= number:
                assert time.monotonic() < end
                time.sleep(0.01)
        assert rpc.counts.lost == 0


def test_nothing_is_asked_of_nobody() -> None:
    with broker(answering) as fake, BusRpc(fake.settings()) as rpc:
        assert list(rpc.call("a", "b", {}, [], timeout=5)) == []
        assert fake.connections == 0


@pytest.mark.parametrize("identity", ["", "../x", "a/b", "a b", "a\nb", "é", "x" * 300, "*", "#"])
def test_what_is_no_identity_is_refused_before_anything_is_sent(identity: str) -> None:
    with broker(answering) as fake, BusRpc(fake.settings()) as rpc, pytest.raises(BusError, match="is no identity"):
        rpc.call("a", "b", {}, ["1", identity], timeout=5)
    assert fake.connections == 0


def test_a_request_beyond_the_limit_is_refused_before_anything_is_sent() -> None:
    with broker(answering) as fake, BusRpc(fake.settings()) as rpc:
        with pytest.raises(MarshalError, match="more than 4000000") as error:
            rpc.call_each("a", "b", {"1": {}, "2": {"content": b"x" * 4_000_000}}, timeout=5)
        assert error.value.node == "2"
        with pytest.raises(MarshalError):
            rpc.call("a", "b", {"x": 1.5}, ["1"], timeout=5)
        with BusRpc(fake.settings(base64=True)) as other, pytest.raises(MarshalError, match="a request of 42"):
            other.call("a", "b", {"content": b"x" * 3_200_000}, ["1"], timeout=5)
    assert fake.connections == 0


def pong(peer: Peer, heard: Any, *names: str) -> None:
    for name in names:
        peer.answer(heard, sender=name, body=dumps("pong"))


def test_discovery_finds_who_answers() -> None:
    heard = []
    clock = Hasty()

    def ping(peer: Peer) -> None:
        peer.welcome()
        for one in peer.requests():
            heard.append(one)
            pong(peer, one, "10", "2", "master", "2")
            peer.answer(one, sender="9", body=dumps("something"))
            peer.answer(one, sender="8", psk="wrong", body=dumps("pong"))
            if len(heard) == 1:
                clock.forward(58)

    with broker(ping) as fake, BusRpc(fake.settings(), clock) as rpc:
        assert rpc.discover(timeout=60) == ["2", "10", "master"]
        start = time.monotonic()
        assert rpc.discover(timeout=60, expected=["2", "10"]) == ["2", "10"]
        assert time.monotonic() - start < 50
    assert heard[0].headers["destination"] == "/exchange/mcollective_broadcast/discovery"
    assert heard[0].request.agent == "discovery"
    assert (rpc.counts.duplicates, rpc.counts.forged) >= (1, 1)


def test_discovery_survives_a_lost_connection() -> None:
    def lose(peer: Peer) -> None:
        peer.welcome()
        peer.read()

    def ping(peer: Peer) -> None:
        peer.welcome()
        for one in peer.requests():
            pong(peer, one, "1")

    with broker(lose, ping) as fake, BusRpc(fake.settings()) as rpc:
        assert rpc.discover(timeout=60, expected=["1"]) == ["1"]
    with broker(lose) as fake, BusRpc(fake.settings(losses=1)) as rpc, pytest.raises(BrokerLostError):
        rpc.discover(timeout=0.3)
