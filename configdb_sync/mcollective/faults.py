"""What goes wrong on the bus, one class a meaning. Texts hold sizes and names, never contents, passwords or keys."""

from __future__ import annotations

from dataclasses import dataclass

from configdb_sync.errors import BusError, ProductError


class MarshalError(ProductError):
    """Bytes that aren't the subset of Ruby's Marshal format that this room speaks, or a value that it can't carry."""


class UnreadableError(ProductError):
    """A message that isn't what the protocol says: cut, too big, of other types."""


class ForgedError(UnreadableError):
    """A message whose hash isn't made with our pre-shared key."""


class EncodedError(UnreadableError):
    """A message in base64 where none is set, or the other way round (``plugin.rabbitmq.base64``)."""


class UnreachableError(BusError):
    """No broker of the pool could be connected to within the limits."""


class IncompatibleError(UnreachableError):
    """The broker and we don't agree on TLS or on the version of STOMP; trying again would not help."""


class LoginRefusedError(BusError):
    """The broker refused the login or the virtual host; trying again would not help."""


@dataclass(eq=False)
class LostError(BusError):
    """A connection that was up broke, or the broker ended it.

    ``text``: the broker's words, if it gave any; ``lasting``: by them it would do so again.
    """

    text: str | None = None
    lasting: bool = False
