"""Simulated nodes: a request for one of them goes in, its replies come out. No network, no clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from configdb_sync.mcollective import envelope
from configdb_sync.mcollective.envelope import Envelope, RpcRequest, Signer
from configdb_sync.mcollective.faults import UnreadableError
from configdb_sync.mcollective.marshal_writer import dumps
from configdb_sync.simulator import agents
from configdb_sync.simulator.agents import Answer
from configdb_sync.simulator.faults import Fault, Kind
from configdb_sync.simulator.tree import Tree

_DISCOVERY = "discovery"
_OTHER_KEY = b"-other"


@dataclass(frozen=True)
class Sending:
    """A reply of the node ``sender``, to be sent ``after`` so many seconds."""

    sender: str
    body: bytes = field(repr=False)
    after: float = 0.0


@dataclass
class SimulatedNodes:
    """Nodes by identity. ``faults``: what they do wrong. ``asked``: requests heard so far."""

    trees: Mapping[str, Tree]
    signer: Signer
    faults: Mapping[str, Fault] = field(default_factory=dict)
    asked: int = 0

    def answer(self, raw: bytes, identity: str | None, now: int) -> Iterator[Sending]:
        """Yield the replies to a message for ``identity`` (None: for all), at ``now`` (seconds since 1970).

        What a node wouldn't heed (wrong key, too old, not for it) gets none.
        """
        try:
            request = envelope.read_request(raw, self.signer)
        except UnreadableError:
            return
        if now - request.sent > request.ttl:
            return
        for name in [identity] if identity is not None else list(self.trees):
            if name in self.trees and _is_for(request, name):
                self.asked += 1
                yield from self._one(request, name, now)

    def _one(self, request: Envelope, identity: str, now: int) -> Iterator[Sending]:
        fault = self.faults.get(identity, _NONE)
        if fault.kind is Kind.SILENT:
            return
        if request.agent == _DISCOVERY:
            body: bytes | None = _PONG
        elif fault.kind is Kind.MUTE:
            return
        else:
            body = self._rpc(request, identity, fault)
        if body is None:
            return
        sending = Sending(identity, self._sealed(request, identity, body, now, fault), _after(fault))
        yield sending
        if fault.kind is Kind.DUPLICATE:
            yield sending

    def _sealed(self, request: Envelope, identity: str, body: bytes, now: int, fault: Fault) -> bytes:
        signer = replace(self.signer, identity=fault.name if fault.kind is Kind.FOREIGN else identity)
        if fault.kind is Kind.WRONG_HASH:
            signer = replace(signer, psk=signer.psk + _OTHER_KEY)
        request_id = "0" * 32 if fault.kind is Kind.WRONG_REQUEST else request.request_id
        return envelope.reply(signer, body=body, agent=request.agent, request_id=request_id, now=now)

    def _rpc(self, request: Envelope, identity: str, fault: Fault) -> bytes | None:
        try:
            asked = envelope.read_rpc_request(request.body)
        except UnreadableError:
            return None
        if not asked.process_results:
            return None
        found = _wrong(asked, fault)
        if found is None:
            data = _lossy(asked, fault)
            found = agents.ask(self.trees[identity], request.agent, asked.action, data)
        return None if found is None else envelope.rpc_reply(found.code, found.text, found.data)


_NONE = Fault(Kind.DELAY, 0.0)
_PONG = dumps(envelope.PONG)


def _is_for(request: Envelope, identity: str) -> bool:
    known = {"discovery", "execute_shell_command", "uploadfile"}
    wanted = request.filters.get("identity") or [identity]
    return identity in wanted and set(request.filters.get("agent") or ()) <= known


def _after(fault: Fault) -> float:
    return fault.number if fault.kind is Kind.DELAY else 0.0


def _wrong(asked: RpcRequest, fault: Fault) -> Answer | None:
    if fault.kind is Kind.CODE:
        return Answer(int(fault.number), f"simulated failure {fault.number:g}")
    if asked.agent != "execute_shell_command":
        return None
    printed: dict[Kind, Any] = {
        Kind.EXIT: "",
        Kind.BINARY: b"\xff\x00\x04\x08" * 100,
        Kind.OVERSIZE: "x" * int(fault.number) if fault.kind is Kind.OVERSIZE else "",
    }
    if fault.kind not in printed:
        return None
    code = int(fault.number) if fault.kind is Kind.EXIT else 0
    return Answer(0, data={"stdout": printed[fault.kind], "stderr": "", "exit_code": code})


def _lossy(asked: RpcRequest, fault: Fault) -> Mapping[str, Any]:
    content = asked.data.get("content")
    if fault.kind is Kind.PARTIAL and isinstance(content, bytes):
        return {**asked.data, "content": content[:-1] or b"?"}
    return asked.data
