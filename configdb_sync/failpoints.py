"""Named steps at which a test may end this process as a power cut would, or freeze it (U18).

``CONFIGDB_SYNC_FAILPOINT=NAME[:COUNT[:SIGNAL]]``: the COUNT-th time (default 1) that any thread passes the step NAME,
the process sends itself SIGNAL (``KILL``, the default, or ``STOP``). Without the variable a step costs nothing.
"""

from __future__ import annotations

import os
import signal
import threading

VARIABLE = "CONFIGDB_SYNC_FAILPOINT"

NAMES = frozenset(
    {
        "run-begun",
        "environment-made",
        "before-upload",
        "after-upload",
        "before-record",
        "after-record",
        "before-write",
        "after-write",
        "after-confirm",
        "node-done",
        "run-done",
    }
)
"""The steps of a run in their order; those from ``before-upload`` on are passed once for each document or node."""

TENANT_NAMES = frozenset(
    {
        "tenant-marked",
        "tenant-purged",
        "tenant-moved",
        "component-made",
        "component-attached",
        "definition-moved",
        "definition-deleted",
        "outbox-done",
    }
)
"""Steps of the tenants' transitions: the registry's transaction, then what follows in ConfigDB."""

TAKEOVER_NAMES = frozenset({"override-copied", "override-confirmed", "override-moved", "override-replaced"})
"""Steps of moving an override out of a folder's document; the last one where it stays in the same document."""

NOTES_NAMES = frozenset({"override-noted", "override-changed"})
"""Steps of a change of overrides with their notes: before it, and before the notes that it replaced go."""

KEYS_NAMES = frozenset({"database-marked", "rows-converted", "database-converted"})
"""Steps of encrypting a database; the middle one after each batch of rows."""

_ALL = NAMES | TENANT_NAMES | TAKEOVER_NAMES | NOTES_NAMES | KEYS_NAMES

_SIGNALS = {"KILL": signal.SIGKILL, "STOP": signal.SIGSTOP}


class Failpoint:
    """The step at which to send a signal, and how often it must still be passed before that."""

    def __init__(self, text: str) -> None:
        name, _, rest = text.partition(":")
        count, _, kind = rest.partition(":")
        if name not in _ALL or not (count or "1").isdigit() or (kind or "KILL") not in _SIGNALS:
            raise ValueError(f"{VARIABLE} is {text!r}; write NAME[:COUNT[:KILL|STOP]], NAME one of {sorted(_ALL)}")
        self._name = name
        self._left = int(count or "1")
        self._signal = _SIGNALS[kind or "KILL"]
        self._lock = threading.Lock()

    def passed(self, name: str) -> None:
        """Send the signal if this is the step and the time."""
        if name != self._name:
            return
        with self._lock:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), self._signal)


_text = os.environ.get(VARIABLE)
_failpoint = Failpoint(_text) if _text else None


def here(name: str) -> None:
    """Mark that the process passes the step ``name`` (one of those above)."""
    if _failpoint is not None:
        _failpoint.passed(name)
