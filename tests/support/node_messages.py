"""A node's side of MCollective's messages: reads requests and writes replies, for what stands in for nodes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from configdb_sync.mcollective.envelope import Envelope, Signer, UnreadableMessageError, opened, sealed
from configdb_sync.mcollective.marshal import (
    MarshalError,
    Ruby,
    String,
    Symbol,
    Value,
    dumps,
    keyed,
    loads,
    plain,
    text,
)

__all__ = ["RpcRequest", "read_request", "read_rpc_request", "reply", "rpc_reply"]

_NAME = 200


@dataclass(frozen=True)
class RpcRequest:
    """What a node is asked to do."""

    agent: str
    action: Ruby
    data: Mapping[str, Value] = field(repr=False)
    process_results: bool = True


def read_request(raw: bytes, signer: Signer) -> Envelope:
    """Return a request. Raises ``ForgedError`` for a wrong hash, ``UnreadableMessageError`` for what isn't one."""
    return opened(raw, signer, "agent")


def read_rpc_request(body: bytes) -> RpcRequest:
    """Return the RPC request in a body. Raises ``UnreadableMessageError``."""
    try:
        fields = keyed(loads(body))
        data = {name: plain(value) for name, value in keyed(fields.get("data")).items()}
        action = fields.get("action")
        return RpcRequest(
            text(fields.get("agent"), _NAME),
            action.content.decode("utf-8", "replace") if isinstance(action, String) else action,
            data,
            data.pop("process_results", True) is not False,
        )
    except MarshalError as error:
        raise UnreadableMessageError(f"a request whose body of {len(body)} bytes can't be read: {error.what}") from None


def reply(signer: Signer, *, body: bytes, agent: str, request_id: str, now: int) -> bytes:
    """Return a node's reply with ``body`` to a request."""
    return sealed(
        signer,
        {"senderid": signer.identity, "requestid": request_id, "senderagent": agent, "msgtime": now, "body": body},
    )


def rpc_reply(code: int, message: str, data: Mapping[str, Value]) -> bytes:
    """Return the body of an RPC reply."""
    outputs = {Symbol(name): value for name, value in data.items()}
    return dumps({Symbol("statuscode"): code, Symbol("statusmsg"): message, Symbol("data"): outputs})
