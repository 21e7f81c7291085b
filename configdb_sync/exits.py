"""Exit codes of ``configdb-sync`` and the table that maps errors to them (documented in ``docs/operations.md``)."""

from __future__ import annotations

from enum import IntEnum

from configdb_sync import errors


class Exit(IntEnum):
    """The exit codes of a command."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    PARTIAL = 3
    ENVIRONMENT = 4
    UNSAFE = 5
    ACCESS = 6
    CONFIGDB = 7
    NODES = 8
    BUSY = 9
    DRIFT = 10
    OUT_OF_TIME = 11
    CHANGED = 12


_TABLE: tuple[tuple[type[errors.ProductError], Exit], ...] = (
    (errors.SettingsError, Exit.USAGE),
    (errors.StateError, Exit.USAGE),
    (errors.UnknownNameError, Exit.USAGE),
    (errors.EnvironmentMismatchError, Exit.ENVIRONMENT),
    (errors.UnsafeError, Exit.UNSAFE),
    (errors.BusyError, Exit.BUSY),
    (errors.BusError, Exit.NODES),
    (errors.NailgunError, Exit.NODES),
    (errors.OutOfTimeError, Exit.OUT_OF_TIME),
    (errors.PlanChangedError, Exit.CHANGED),
    (errors.AccessError, Exit.ACCESS),
    (errors.ConfigDBError, Exit.CONFIGDB),
    (errors.ProductError, Exit.PARTIAL),
)


def exit_of(error: errors.ProductError) -> Exit:
    """Return the exit code of one error that ended a command."""
    return next(code for kind, code in _TABLE if isinstance(error, kind))
