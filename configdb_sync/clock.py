"""Clock, sleep and new identities: all other code takes time and chance as parameters."""

from __future__ import annotations

import os
import random
import secrets
import time
import uuid
from datetime import UTC, datetime
from typing import Protocol

_FIXED, _VERSION_4 = 0xF << 76 | 0b11 << 62, 4 << 76 | 0b10 << 62
"""The bits of a UUID that say how it was made (RFC 9562, 5.4)."""

# Not the generator of the module: code that seeds that one would get identities twice, and confuse two commits.
_draws = random.Random()  # noqa: S311  # an identity, no secret
os.register_at_fork(after_in_child=_draws.seed)


class Clock(Protocol):
    """Where times come from."""

    def now(self) -> datetime:
        """Return the time, with its zone."""

    def monotonic(self) -> float:
        """Return seconds that never go back."""

    def sleep(self, seconds: float) -> None:
        """Return after so many seconds."""


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the machine's monotonic seconds."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Let the machine sleep."""
        time.sleep(seconds)


def new_run_id() -> str:
    """Return a fresh identity for a run."""
    return f"req-{uuid.uuid4()}"


def new_call_id() -> str:
    """Return a fresh identity for a request to a service, of the same form: never the same twice, but no secret."""
    # Reading the system's random source takes as long as finding the tenant in the database.
    digits = f"{_draws.getrandbits(128) & ~_FIXED | _VERSION_4:032x}"
    return f"req-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def new_request_id() -> str:
    """Return a fresh identity for a message on the bus: 32 hexadecimal digits, not to be guessed."""
    return secrets.token_hex(16)
