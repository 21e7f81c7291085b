"""What a message that came is worth to a call: whose answer it is, or what to count it as."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from configdb_sync.mcollective.envelope import Envelope, Signer, read_reply
from configdb_sync.mcollective.faults import EncodedError, ForgedError, UnreadableError
from configdb_sync.mcollective.link import Message

_SETTING = "plugin.rabbitmq.base64"
_MARSHAL_IN_BASE64 = b"BAh"


def encode(raw: bytes, *, wrapped: bool) -> bytes:
    """Return a message as it goes over the wire (B13)."""
    return base64.b64encode(raw) if wrapped else raw


def decode(raw: bytes, *, wrapped: bool) -> bytes:
    """Return a message as it was before the wire. Raises ``EncodedError`` that names the setting."""
    if not wrapped:
        if raw.startswith(_MARSHAL_IN_BASE64):
            raise EncodedError(f"a message of {len(raw)} bytes in base64, and {_SETTING} is not set here")
        return raw
    try:
        # Ruby breaks the lines.
        return base64.b64decode(raw.translate(None, b"\r\n"), validate=True)
    except binascii.Error:
        raise EncodedError(f"a message of {len(raw)} bytes that is not in base64, and {_SETTING} is set here") from None


@dataclass
class Receiver:
    """Sorts the messages of one call.

    ``count`` is told the name of a field of ``Counts``. ``ping_id``: of requests that only ask who is there, answers
    to which are all returned. ``notes``: by identity, what came in its name and doesn't count.
    """

    signer: Signer
    wrapped: bool
    asked: Collection[str]
    count: Callable[[str], None]
    request_id: str = ""
    ping_id: str = ""
    answered: set[str] = field(default_factory=set)
    notes: dict[str, str] = field(default_factory=dict)

    def take(self, message: Message) -> Envelope | None:
        """Return the reply in a message if it is the first of a node that was asked; else count it, and return None."""
        try:
            if message.body is None:
                raise UnreadableError(f"a message of {message.size} bytes, which is beyond the limit")
            found = read_reply(decode(message.body, wrapped=self.wrapped), self.signer)
        except ForgedError as error:
            self.count("forged")
            self._note(message, error)
            return None
        except UnreadableError as error:
            self.count("unreadable")
            self._note(message, error)
            return None
        if found.request_id == self.ping_id:
            return found
        if found.request_id != self.request_id:
            self.count("late")
        elif self.asked and found.sender not in self.asked:
            self.count("strangers")
        elif found.sender in self.answered:
            self.count("duplicates")
        else:
            self.answered.add(found.sender)
            return found
        return None

    def _note(self, message: Message, error: UnreadableError) -> None:
        # Who sent it is but a claim: it may explain why a node is missing, no more.
        if message.sender in self.asked:
            self.notes[message.sender] = error.what
