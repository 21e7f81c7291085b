"""What nodes may be made to do wrong: each kind was seen, or is what an enemy would do."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from configdb_sync.errors import SettingsError


class FaultKind(StrEnum):
    """A way to go wrong. Those with a number or a name take it behind a colon (``delay:2.5``)."""

    SILENT = "silent"
    """Answers nothing, not even who it is."""
    MUTE = "mute"
    """Says who it is, and answers nothing else."""
    DELAY = "delay"
    """Answers after so many seconds."""
    DUPLICATE = "duplicate"
    """Answers everything twice."""
    WRONG_HASH = "wrong-hash"
    """Signs with another key."""
    WRONG_REQUEST = "wrong-request"
    """Answers to another request."""
    FOREIGN = "foreign"
    """Answers in the name of the node given."""
    CODE = "code"
    """Replies with the status code given (1, 4 or 5)."""
    EXIT = "exit"
    """Its commands end with the code given (42: not started) and print nothing."""
    PARTIAL = "partial"
    """Loses the last byte of every upload."""
    BINARY = "binary"
    """Its commands print bytes that mean nothing."""
    OVERSIZE = "oversize"
    """Its commands print so many bytes."""


_NUMBERS = {
    FaultKind.DELAY: (0.0, 86400.0),
    FaultKind.CODE: (1.0, 5.0),
    FaultKind.EXIT: (0.0, 255.0),
    FaultKind.OVERSIZE: (0.0, 1e8),
}


@dataclass(frozen=True)
class Fault:
    """One thing that a node does wrong."""

    kind: FaultKind
    number: float = 0.0
    name: str = ""


def parse(words: Iterable[str]) -> dict[str, Fault]:
    """Return faults by identity from words like ``7=silent`` and ``8,9=delay:2.5``. Raises ``SettingsError``."""
    found: dict[str, Fault] = {}
    for word in words:
        identities, equals, text = word.partition("=")
        if not equals or not identities:
            raise SettingsError(f"{word!r} is no fault of a node", way_out="write NODE=KIND, as in 7=silent")
        found |= dict.fromkeys(identities.split(","), one(text))
    return found


def one(text: str) -> Fault:
    """Return the fault that a text like ``delay:2.5`` names. Raises ``SettingsError``."""
    word, _, value = text.partition(":")
    try:
        kind = FaultKind(word)
    except ValueError:
        known = ", ".join(FaultKind)
        raise SettingsError(f"{text!r} is no kind of fault", way_out=f"there are: {known}") from None
    if kind in _NUMBERS:
        low, high = _NUMBERS[kind]
        try:
            number = float(value)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise SettingsError(f"{text!r}: {kind} takes a number", way_out=f"give one from {low:g} to {high:g}")
        return Fault(kind, number)
    if (kind is FaultKind.FOREIGN) != bool(value):
        raise SettingsError(f"{text!r} is no kind of fault", way_out="only foreign takes a name: foreign:8")
    return Fault(kind, name=value)
