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
"""Every step, in the order in which a run passes them; those from ``before-upload`` on once a document or node."""

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

KEYS_NAMES = frozenset({"database-marked", "rows-converted", "database-converted"})
"""Steps of encrypting a database; the middle one after each batch of rows."""

_ALL = NAMES | TENANT_NAMES | TAKEOVER_NAMES | KEYS_NAMES

_SIGNALS = {"KILL": signal.SIGKILL, "STOP": signal.SIGSTOP}


class Failpoint:
    """One step at which a signal is to be sent, and how often it has still to be passed until then."""

    def __init__(self, told: str) -> None:
        name, _, rest = told.partition(":")
        count, _, kind = rest.partition(":")
        if name not in _ALL or not (count or "1").isdigit() or (kind or "KILL") not in _SIGNALS:
            raise ValueError(f"{VARIABLE} is {told!r}; write NAME[:COUNT[:KILL|STOP]], NAME one of {sorted(_ALL)}")
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


_told = os.environ.get(VARIABLE)
_failpoint = Failpoint(_told) if _told else None


def here(name: str) -> None:
    """Take note that the step ``name`` (one of those above) is passed."""
    if _failpoint is not None:
        _failpoint.passed(name)
