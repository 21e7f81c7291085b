"""A broker on a real socket that does what a test tells it, for what a real one can't be made to do."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from configdb_sync.mcollective.bus_settings import Bounds, BusSettings, Host
from configdb_sync.mcollective.envelope import Envelope, Signer
from configdb_sync.mcollective.marshal import dumps
from tests.support import node_messages

PSK = "CANARY-psk-1d0c"
PASSWORD = "CANARY-password-77ab"
USER = "mcollective"
LIMIT = 60


@dataclass(frozen=True)
class Heard:
    """A frame that the broker got."""

    command: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def identity(self) -> str:
        """Which node it is for."""
        return self.headers["destination"].rsplit("/", 1)[1]

    @property
    def ping(self) -> bool:
        """Whether all nodes are asked whether they are there."""
        return self.identity == "discovery"

    @property
    def request(self) -> Envelope:
        """The request in it."""
        return node_messages.read_request(self.body, Signer("node", PSK.encode()))


@dataclass
class Peer:
    """One connection, seen from the broker."""

    sock: socket.socket
    number: int
    _rest: bytes = b""

    def read(self) -> Heard | None:
        """Return the next frame, None at the end."""
        self._rest = self._rest.lstrip(b"\n")
        while b"\n\n" not in self._rest:
            if not self._more():
                return None
            self._rest = self._rest.lstrip(b"\n")
        head, _, self._rest = self._rest.partition(b"\n\n")
        command, *lines = head.decode().split("\n")
        headers = dict(line.split(":", 1) for line in lines)
        size = int(headers.get("content-length", 0))
        while len(self._rest) <= size:
            if not self._more():
                return None
        body, self._rest = self._rest[:size], self._rest[size + 1 :]
        return Heard(command, {name: value.replace("\\c", ":") for name, value in headers.items()}, body)

    def _more(self) -> bool:
        chunk = self.sock.recv(1 << 16)
        self._rest += chunk
        return bool(chunk)

    def send(self, command: str, headers: Mapping[str, str], body: bytes = b"") -> None:
        """Send a frame as RabbitMQ does."""
        lines = [command, *(f"{name}:{value}" for name, value in headers.items()), f"content-length:{len(body)}"]
        self.raw("\n".join(lines).encode() + b"\n\n" + body + b"\0\n")

    def raw(self, content: bytes) -> None:
        """Send bytes."""
        self.sock.sendall(content)

    def welcome(self, beat: str = "0,0") -> Heard:
        """Let the client in."""
        heard = self.read()
        assert heard is not None
        assert heard.command == "CONNECT"
        self.send("CONNECTED", {"version": "1.1", "heart-beat": beat})
        return heard

    def requests(self) -> Iterator[Heard]:
        """Yield what is sent until the client says goodbye."""
        while (heard := self.read()) is not None and heard.command != "DISCONNECT":
            assert heard.command == "SEND"
            yield heard

    def calls(self, *there: str) -> Iterator[Heard]:
        """Yield what is sent to single nodes; these nodes answer when it is asked who is there."""
        for heard in self.requests():
            if heard.ping:
                for name in there:
                    self.answer(heard, sender=name, body=dumps("pong"))
            else:
                yield heard

    def message(self, heard: Heard, body: bytes, sender: str | None = None) -> None:
        """Send a message to where replies to a request go."""
        place = heard.headers["reply-to"]
        headers = {"subscription": place, "destination": "/queue/amq.gen-x", "message-id": "1"}
        self.send("MESSAGE", headers | {"mc_sender": sender or heard.identity}, body)

    def answer(self, heard: Heard, sender: str | None = None, **facts: Any) -> None:
        """Answer as the node that was asked, or as another."""
        self.message(heard, reply(heard, sender or heard.identity, **facts), sender)


def reply(
    heard: Heard,
    sender: str,
    *,
    code: int = 0,
    text: str = "OK",
    data: Mapping[str, Any] | None = None,
    request_id: str | None = None,
    psk: str = PSK,
    body: bytes | None = None,
) -> bytes:
    """Return a node's reply to a request."""
    asked = heard.request
    content = node_messages.rpc_reply(code, text, {"n": 1} if data is None else data) if body is None else body
    signer = Signer(sender, psk.encode())
    return node_messages.reply(
        signer, body=content, agent=asked.agent, request_id=request_id or asked.request_id, now=0
    )


Script = Callable[[Peer], None]


@dataclass
class Fake:
    """The broker. ``scripts``: what each connection meets, the last one also all later ones."""

    scripts: tuple[Script, ...]
    port: int = 0
    connections: int = 0
    ended: int = 0
    mistakes: list[BaseException] = field(default_factory=list)
    _peers: list[Peer] = field(default_factory=list)

    def settings(self, **changes: Any) -> BusSettings:
        """Return settings for it; ``changes``: of ``Bounds``, or of the settings themselves."""
        bounds = {name: changes.pop(name) for name in list(changes) if name in Bounds.__dataclass_fields__}
        return settings(self.port, bounds=Bounds(**{"connect": 30, "attempts": 1} | bounds), **changes)

    def _serve(self, listener: socket.socket) -> None:
        threads = []
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                break
            sock.settimeout(LIMIT)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            peer = Peer(sock, self.connections)
            script = self.scripts[min(self.connections, len(self.scripts) - 1)]
            self.connections += 1
            self._peers.append(peer)
            threads.append(threading.Thread(target=self._run, args=(script, peer)))
            threads[-1].start()
        for thread in threads:
            thread.join(LIMIT)

    def _run(self, script: Script, peer: Peer) -> None:
        try:
            script(peer)
        except OSError:
            pass
        except BaseException as error:
            self.mistakes.append(error)
        finally:
            peer.sock.close()
            self.ended += 1


def settings(*ports: int, **changes: Any) -> BusSettings:
    """Return settings for brokers on these ports of loopback."""
    hosts = tuple(Host("127.0.0.1", port, USER, PASSWORD) for port in ports)
    return replace(BusSettings(hosts, Signer("master", PSK.encode())), **changes)


@contextlib.contextmanager
def broker(*scripts: Script) -> Iterator[Fake]:
    """Yield a broker; its scripts must not have failed at the end."""
    fake = Fake(scripts)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        fake.port = listener.getsockname()[1]
        thread = threading.Thread(target=fake._serve, args=(listener,))
        thread.start()
        try:
            yield fake
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for peer in fake._peers:
                with contextlib.suppress(OSError):
                    peer.sock.shutdown(socket.SHUT_RDWR)
            thread.join(LIMIT)
    for mistake in fake.mistakes:
        raise mistake


def answering(peer: Peer) -> None:
    """Let the client in and answer everything well."""
    peer.welcome()
    for heard in peer.calls("1", "2", "3", "4"):
        peer.answer(heard)
