"""Messages against those that Ruby wrote, and against forgers (U8)."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configdb_sync.mcollective import envelope, marshal
from configdb_sync.mcollective.envelope import ForgedError, Signer, UnreadableMessageError
from configdb_sync.mcollective.marshal import MarshalError, Ruby, String, Symbol, dumps, keyed
from tests.mcollective.strategies import values
from tests.mcollective.test_marshal import _mutated, mutations
from tests.mcollective.vectors import (
    PING_BODY,
    PING_HASH,
    PSK,
    REPLY,
    REPLY_BODY,
    REPLY_HASH,
    REQUEST,
    REQUEST_BODY,
    REQUEST_HASH,
    REQUEST_ID,
)
from tests.support import node_messages

MASTER, NODE = Signer("master", PSK), Signer("1", PSK)
AGENT = "execute_shell_command"


def test_a_request_is_byte_for_byte_what_ruby_sends() -> None:
    body = envelope.rpc_request(AGENT, "execute", "uid=0", {"cmd": "cat /etc/hiera/x.yaml"})
    assert body == REQUEST_BODY
    assert MASTER.hash(body).decode() == REQUEST_HASH
    assert envelope.request(MASTER, body=body, agent=AGENT, request_id=REQUEST_ID, now=1480000000) == REQUEST


def test_a_reply_is_byte_for_byte_what_ruby_sends() -> None:
    body = node_messages.rpc_reply(0, "OK", {"stdout": "a: 1\n", "stderr": "", "exit_code": 0})
    assert body == REPLY_BODY
    assert NODE.hash(body).decode() == REPLY_HASH
    assert node_messages.reply(NODE, body=body, agent=AGENT, request_id=REQUEST_ID, now=1480000001) == REPLY


def test_the_ping_is_what_ruby_sends() -> None:
    assert envelope.ping() == PING_BODY
    assert MASTER.hash(PING_BODY).decode() == PING_HASH
    assert envelope.is_pong(dumps("pong"))
    assert not envelope.is_pong(dumps("ping"))
    assert not envelope.is_pong(b"")


def test_rubys_messages_are_read() -> None:
    asked = node_messages.read_request(REQUEST, MASTER)
    assert (asked.sender, asked.request_id, asked.agent) == ("master", REQUEST_ID, AGENT)
    assert (asked.sent, asked.ttl) == (1480000000, 4294957)
    assert asked.filters == {"fact": [], "cf_class": [], "agent": [AGENT], "identity": [], "compound": []}
    request = node_messages.read_rpc_request(asked.body)
    assert (request.agent, request.action, request.process_results) == (AGENT, "execute", True)
    assert request.data == {"cmd": b"cat /etc/hiera/x.yaml"}
    answered = envelope.read_reply(REPLY, MASTER)
    assert (answered.sender, answered.request_id, answered.agent) == ("1", REQUEST_ID, AGENT)
    reply = envelope.read_rpc_reply(answered.body)
    assert (reply.code, reply.text) == (0, "OK")
    assert reply.data == {"stdout": b"a: 1\n", "stderr": b"", "exit_code": 0}


def test_bytes_stay_bytes() -> None:
    every = bytes(range(256))
    for content, sent in ((every, every), (every, String(every, "UTF-8")), (b"abc", String(b"abc", "US-ASCII"))):
        reply = envelope.read_rpc_reply(node_messages.rpc_reply(0, "OK", {"stdout": sent}))
        assert reply.data == {"stdout": content}


def test_the_body_is_not_read_before_its_hash_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []

    def spy(raw: bytes, limits: marshal.MarshalLimits = marshal.DEFAULT) -> Ruby:
        read.append(raw)
        return marshal.loads(raw, limits)

    monkeypatch.setattr(envelope, "loads", spy)
    with pytest.raises(ForgedError, match="pre-shared key"):
        envelope.read_reply(REPLY, replace(MASTER, psk=b"other"))
    assert read == [REPLY]


def _changed(**fields: Ruby) -> bytes:
    """Return the reply with other fields, still with the right hash for its body."""
    found = keyed(marshal.loads(REPLY)) | fields
    return dumps({Symbol(name): value for name, value in found.items() if value is not ...})


@pytest.mark.parametrize(
    "raw",
    [
        _changed(body=...),
        _changed(hash=...),
        _changed(hash=1),
        _changed(body=Symbol("a")),
        _changed(senderid=...),
        _changed(senderid=String(b"../../etc")),
        _changed(senderid=String(b"")),
        _changed(senderid=String(b"1" * 300)),
        _changed(senderid=String("\uff11".encode(), "UTF-8")),
        _changed(requestid=None),
        _changed(requestid=[]),
        _changed(senderagent=7),
        _changed(msgtime="now"),
        _changed(filter=[1]),
        _changed(filter={String(b"agent"): 1}),
        dumps([1]),
        dumps(None),
        b"\x04\x08{",
        b"",
    ],
)
def test_what_is_no_reply_is_a_typed_error_that_shows_sizes_alone(raw: bytes) -> None:
    with pytest.raises(UnreadableMessageError) as error:
        envelope.read_reply(raw, MASTER)
    assert f"{len(raw)} bytes" in str(error.value)
    assert "etc" not in str(error.value)


@pytest.mark.parametrize(
    "body",
    [
        dumps(None),
        dumps({Symbol("statuscode"): "0", Symbol("statusmsg"): "OK", Symbol("data"): {}}),
        dumps({Symbol("statuscode"): True, Symbol("statusmsg"): "OK", Symbol("data"): {}}),
        dumps({Symbol("statuscode"): 0, Symbol("statusmsg"): "OK", Symbol("data"): [1]}),
        dumps({Symbol("statuscode"): 0, Symbol("statusmsg"): "OK", Symbol("data"): {1: 1}}),
        b"\x04\x08{",
    ],
)
def test_what_is_no_rpc_reply_is_a_typed_error(body: bytes) -> None:
    with pytest.raises(UnreadableMessageError, match="unreadable reply"):
        envelope.read_rpc_reply(body)


def test_a_nodes_text_is_made_fit_for_a_line() -> None:
    body = node_messages.rpc_reply(5, "", {})
    noisy = dumps({**marshal.loads(body), Symbol("statusmsg"): String(b"Is a\n\x1b[31mdirectory\xff " + b"x" * 1000)})
    text = envelope.read_rpc_reply(noisy).text
    assert text.startswith("Is a \\x1b[31mdirectory\\xff xxx")
    assert text.endswith("...")
    assert len(text) < 320


def test_keys_and_bodies_have_no_repr() -> None:
    assert "unset" not in repr(MASTER)
    assert "cat" not in repr(node_messages.read_request(REQUEST, MASTER))
    assert "cat" not in repr(node_messages.read_rpc_request(REQUEST_BODY))


@given(raw=st.sampled_from([REQUEST, REPLY]), changes=mutations)
@settings(max_examples=200, deadline=None)
def test_damaged_messages_are_read_or_a_typed_error(raw: bytes, changes: list[tuple[str, int, int]]) -> None:
    for read in (node_messages.read_request, envelope.read_reply):
        with contextlib.suppress(UnreadableMessageError):
            read(_mutated(raw, changes), MASTER)


@given(value=values())
@settings(max_examples=150, deadline=None)
def test_any_body_is_read_or_a_typed_error(value: Ruby) -> None:
    for read in (envelope.read_rpc_reply, node_messages.read_rpc_request):
        with contextlib.suppress(UnreadableMessageError):
            read(dumps(value))


inputs = st.dictionaries(
    st.text(max_size=6), st.one_of(st.none(), st.booleans(), st.integers(), st.binary(max_size=20))
)


@given(data=inputs)
@settings(deadline=None)
def test_what_is_asked_is_what_arrives(data: dict[str, Ruby]) -> None:
    data.pop("process_results", None)
    body = envelope.rpc_request("a", "b", "uid=0", data)
    raw = envelope.request(MASTER, body=body, agent="a", request_id="r", now=5, only=["1"])
    found = node_messages.read_request(raw, NODE)
    assert found.filters["identity"] == ["1"]
    assert node_messages.read_rpc_request(found.body).data == data
    assert envelope.read_rpc_reply(node_messages.rpc_reply(0, "", data)).data == data


def test_what_cannot_be_sent_is_a_typed_error() -> None:
    with pytest.raises(MarshalError):
        envelope.rpc_request("a", "b", "uid=0", {"x": 1.5})
