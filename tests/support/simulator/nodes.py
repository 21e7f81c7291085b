"""Simulated nodes: a request for one of them goes in, its replies come out. No network, no clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from configdb_sync.mcollective import envelope
from configdb_sync.mcollective.envelope import Envelope, Signer, UnreadableMessageError
from configdb_sync.mcollective.marshal import dumps
from tests.support import node_messages
from tests.support.simulator import agents
from tests.support.simulator.agents import AgentReply
from tests.support.simulator.faults import Fault, FaultKind
from tests.support.simulator.tree import Tree

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
    _raw: bytes = field(default=b"", repr=False)
    _opened: Envelope | None = field(default=None, repr=False)
    _told: dict[tuple[int, bytes], tuple[object, bytes]] = field(default_factory=dict, repr=False)
    _size: int = 0

    def answer(self, raw: bytes, identity: str | None, now: int) -> Iterator[Sending]:
        """Yield the replies to a message for ``identity`` (None: for all), at ``now`` (seconds since 1970).

        What a node wouldn't heed (wrong key, too old, not for it) gets none.
        """
        request = self._request(raw)
        if request is None or now - request.sent > request.ttl:
            return
        for name in [identity] if identity is not None else list(self.trees):
            if name in self.trees and _is_for(request, name):
                self.asked += 1
                yield from self._one(request, name, now)

    def _request(self, raw: bytes) -> Envelope | None:
        # A thousand nodes get one message a thousand times.
        if raw != self._raw:
            self._raw, self._opened = raw, None
            with suppress(UnreadableMessageError):
                self._opened = node_messages.read_request(raw, self.signer)
        return self._opened

    def _one(self, request: Envelope, identity: str, now: int) -> Iterator[Sending]:
        fault = self.faults.get(identity, _NONE)
        if fault.kind is FaultKind.SILENT:
            return
        if request.agent == _DISCOVERY:
            body: bytes | None = _PONG
        elif fault.kind is FaultKind.MUTE:
            return
        else:
            body = self._rpc(request, identity, fault)
        if body is None:
            return
        sending = Sending(identity, self._sealed(request, identity, body, now, fault), _after(fault))
        yield sending
        if fault.kind is FaultKind.DUPLICATE:
            yield sending

    def _sealed(self, request: Envelope, identity: str, body: bytes, now: int, fault: Fault) -> bytes:
        signer = replace(self.signer, identity=fault.name if fault.kind is FaultKind.FOREIGN else identity)
        if fault.kind is FaultKind.WRONG_HASH:
            signer = replace(signer, psk=signer.psk + _OTHER_KEY)
        request_id = "0" * 32 if fault.kind is FaultKind.WRONG_REQUEST else request.request_id
        return node_messages.reply(signer, body=body, agent=request.agent, request_id=request_id, now=now)

    def _rpc(self, request: Envelope, identity: str, fault: Fault) -> bytes | None:
        tree = self.trees[identity]
        key = (id(tree.base), request.body)
        if fault is _NONE and not tree.touched and key in self._told:
            return self._told[key][1]
        try:
            asked = node_messages.read_rpc_request(request.body)
        except UnreadableMessageError:
            return None
        if not asked.process_results:
            return None
        found = _wrong(asked, fault)
        if found is None:
            found = agents.ask(tree, request.agent, asked.action, _lossy(asked, fault))
        if found is None:
            return None
        body = node_messages.rpc_reply(found.code, found.text, found.data)
        if fault is _NONE and not tree.touched:
            self._remember(key, tree, body)
        return body

    def _remember(self, key: tuple[int, bytes], tree: Tree, body: bytes) -> None:
        """Keep what nodes with one base and no changes all say, some of it."""
        self._size += len(body)
        if self._size > _KEPT:
            self._told.clear()
            self._size = len(body)
        # The base is kept so that no other can have its id.
        self._told[key] = (tree.base, body)


_KEPT = 64 << 20
_NONE = Fault(FaultKind.DELAY, 0.0)
_PONG = dumps(envelope.PONG)


def _is_for(request: Envelope, identity: str) -> bool:
    known = {"discovery", "execute_shell_command", "uploadfile"}
    wanted = request.filters.get("identity") or [identity]
    return identity in wanted and set(request.filters.get("agent") or ()) <= known


def _after(fault: Fault) -> float:
    return fault.number if fault.kind is FaultKind.DELAY else 0.0


def _wrong(asked: node_messages.RpcRequest, fault: Fault) -> AgentReply | None:
    if fault.kind is FaultKind.CODE:
        return AgentReply(int(fault.number), f"simulated failure {fault.number:g}")
    if asked.agent != "execute_shell_command":
        return None
    printed: dict[FaultKind, Any] = {
        FaultKind.EXIT: "",
        FaultKind.BINARY: b"\xff\x00\x04\x08" * 100,
        FaultKind.OVERSIZE: "x" * int(fault.number) if fault.kind is FaultKind.OVERSIZE else "",
    }
    if fault.kind not in printed:
        return None
    code = int(fault.number) if fault.kind is FaultKind.EXIT else 0
    return AgentReply(0, data={"stdout": printed[fault.kind], "stderr": "", "exit_code": code})


def _lossy(asked: node_messages.RpcRequest, fault: Fault) -> Mapping[str, Any]:
    content = asked.data.get("content")
    if fault.kind is FaultKind.PARTIAL and isinstance(content, bytes):
        return {**asked.data, "content": content[:-1] or b"?"}
    return asked.data
