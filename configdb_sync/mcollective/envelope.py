"""MCollective's messages, between bytes and values: the signed envelope, and the RPC bodies in it.

An envelope is a Hash with a body in it, which is a dump of its own. Its hash is the MD5 of the body's bytes and the
pre-shared key. It is compared in constant time before the body is read; whatever else the envelope holds isn't signed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from configdb_sync.errors import ProductError
from configdb_sync.mcollective.marshal import (
    US_ASCII,
    UTF_8,
    MarshalError,
    MarshalLimits,
    Ruby,
    String,
    Symbol,
    Value,
    dumps,
    keyed,
    kind,
    loads,
    plain,
    text,
)

IDENTITY = re.compile(r"[\w.-]{1,200}", flags=re.ASCII)
CALLER = re.compile(r"\w+=[\w.-]+", flags=re.ASCII)
FUEL_TTL = 4294957
"""Seconds that a request may be old: Fuel's value, in effect unlimited (B11)."""

PING, PONG = String(b"ping", UTF_8), String(b"pong", UTF_8)

_ENVELOPE = MarshalLimits(depth=8, values=2000)
_NAME = 200
_SETTING = "plugin.rabbitmq.base64"
_MARSHAL_IN_BASE64 = b"BAh"


class UnreadableMessageError(ProductError):
    """A message that isn't what the protocol says: cut, too big, of other types."""


class ForgedError(UnreadableMessageError):
    """A message whose hash isn't made with our pre-shared key."""


@dataclass(frozen=True)
class Signer:
    """The sender, and the key that signs its messages."""

    identity: str
    psk: bytes = field(repr=False)
    caller: str = "uid=0"
    collective: str = "mcollective"
    ttl: int = FUEL_TTL

    def hash(self, body: bytes) -> bytes:
        """Return the hash that belongs to a body."""
        digest = hashlib.md5(body, usedforsecurity=False)
        digest.update(self.psk)
        return digest.hexdigest().encode("ascii")


@dataclass(frozen=True)
class Envelope:
    """A message that carries the right hash. All but ``body`` is a claim, checked for its form alone.

    ``sender``: identity. ``agent``: of the request, or the one that replies. ``sent``: seconds since 1970, ``ttl``:
    seconds (both 0 where the message has none). ``filters``: by kind (``agent``, ``identity``), for requests.
    """

    sender: str
    request_id: str
    agent: str
    body: bytes = field(repr=False)
    sent: int = 0
    ttl: int = 0
    filters: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class RpcReply:
    """What a node's agent answered: MCollective's status code, its text for people, the outputs."""

    code: int
    text: str
    data: Mapping[str, Value] = field(repr=False)


def request(signer: Signer, *, body: bytes, agent: str, request_id: str, now: int, only: Sequence[str] = ()) -> bytes:
    """Return a request with ``body`` to an agent; ``only`` names the nodes that are to act on it (none: all)."""
    filters = {"fact": [], "cf_class": [], "agent": [agent], "identity": list(only), "compound": []}
    return sealed(
        signer,
        {
            "body": body,
            "senderid": signer.identity,
            "requestid": request_id,
            "filter": filters if agent != "discovery" else filters | {"agent": []},
            "collective": signer.collective,
            "agent": agent,
            "callerid": signer.caller,
            "ttl": signer.ttl,
            "msgtime": now,
        },
    )


def read_reply(raw: bytes, signer: Signer) -> Envelope:
    """Return a reply. Raises ``ForgedError`` for a wrong hash, ``UnreadableMessageError`` for what isn't one."""
    return opened(raw, signer, "senderagent")


def rpc_request(agent: str, action: str, caller: str, data: Mapping[str, Value]) -> bytes:
    """Return the body of an RPC request. Raises ``MarshalError`` for data that can't be sent."""
    inputs = {Symbol(name): value for name, value in data.items()}
    inputs[Symbol("process_results")] = True
    return dumps({Symbol("agent"): agent, Symbol("action"): action, Symbol("caller"): caller, Symbol("data"): inputs})


def read_rpc_reply(body: bytes) -> RpcReply:
    """Return the RPC reply in a body; its text is made fit for one line. Raises ``UnreadableMessageError``."""
    try:
        fields = keyed(loads(body))
        code = fields.get("statuscode")
        if isinstance(code, bool) or not isinstance(code, int):
            raise MarshalError(f"the status code is {kind(code)}")
        message = fields.get("statusmsg")
        shown = printable(message.content) if isinstance(message, String) else ""
        data = {name: plain(value) for name, value in keyed(fields.get("data", {})).items()}
    except MarshalError as error:
        raise UnreadableMessageError(f"unreadable reply: body of {len(body)} bytes: {error.what}") from None
    return RpcReply(code, shown, data)


def ping() -> bytes:
    """Return the body of a discovery request."""
    return dumps(PING)


def is_pong(body: bytes) -> bool:
    """Tell whether a body answers ``ping``."""
    try:
        return bool(plain(loads(body, _ENVELOPE)) == PONG.content)
    except MarshalError:
        return False


def encode(raw: bytes, *, wrapped: bool) -> bytes:
    """Return a message as it is sent: in base64 if ``wrapped`` (B13)."""
    return base64.b64encode(raw) if wrapped else raw


def decode(raw: bytes, *, wrapped: bool) -> bytes:
    """Undo ``encode``. Raises ``UnreadableMessageError`` that names the setting."""
    if not wrapped:
        if raw.startswith(_MARSHAL_IN_BASE64):
            raise UnreadableMessageError(f"a message of {len(raw)} bytes in base64, and {_SETTING} is not set here")
        return raw
    try:
        # Ruby breaks the lines.
        return base64.b64decode(raw.translate(None, b"\r\n"), validate=True)
    except binascii.Error:
        raise UnreadableMessageError(
            f"a message of {len(raw)} bytes that is not in base64, and {_SETTING} is set here"
        ) from None


def printable(content: bytes | str, longest: int = 300) -> str:
    """Return a peer's text fit for one line: control characters escaped, cut at ``longest`` characters."""
    line = content.decode("utf-8", errors="backslashreplace") if isinstance(content, bytes) else content
    line = " ".join(line.split())
    line = "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in line[: longest + 1])
    return line if len(line) <= longest else f"{line[:longest]}..."


def sealed(signer: Signer, fields: Mapping[str, Ruby]) -> bytes:
    """Return a message of these fields with its hash."""
    whole = {Symbol(name): value for name, value in fields.items()}
    whole[Symbol("hash")] = String(signer.hash(fields["body"]), US_ASCII)
    return dumps(whole)


def opened(raw: bytes, signer: Signer, agent: str) -> Envelope:
    """Return a message with the right hash; ``agent`` names the field with the agent. Raises as ``read_reply``."""
    try:
        fields = keyed(loads(raw, _ENVELOPE))
        body, digest = fields.get("body"), fields.get("hash")
        if not isinstance(body, String) or not isinstance(digest, String):
            raise MarshalError("body or hash is missing")
    except MarshalError as error:
        raise UnreadableMessageError(f"unreadable message of {len(raw)} bytes: {error.what}") from None
    if not hmac.compare_digest(signer.hash(body.content), digest.content):
        raise ForgedError(f"a message of {len(raw)} bytes whose hash isn't made with our pre-shared key")
    try:
        return Envelope(
            sender=_identity(fields.get("senderid")),
            request_id=text(fields.get("requestid"), _NAME),
            agent=text(fields.get(agent), _NAME),
            body=body.content,
            sent=_seconds(fields.get("msgtime")),
            ttl=_seconds(fields.get("ttl")),
            filters=_filters(fields.get("filter")),
        )
    except MarshalError as error:
        raise UnreadableMessageError(f"unreadable message of {len(raw)} bytes: {error.what}") from None


def _identity(value: Ruby) -> str:
    name = text(value, _NAME)
    if not IDENTITY.fullmatch(name):
        raise MarshalError("the sender is no identity")
    return name


def _seconds(value: Ruby) -> int:
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise MarshalError(f"a time is {kind(value)}")
    return value


def _filters(value: Ruby) -> dict[str, list[str]]:
    if value is None:
        return {}
    found = {}
    for name, items in keyed(value).items():
        if not isinstance(items, list):
            raise MarshalError(f"a filter is {kind(items)}")
        # Filters by fact are Hashes; nothing here makes or applies them.
        found[name] = [text(item) for item in items if isinstance(item, String)]
    return found
