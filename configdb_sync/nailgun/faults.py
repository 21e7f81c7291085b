"""Finer meanings of what Nailgun, or the way to it, answered; kinds and exit codes are those of ``errors``."""

from __future__ import annotations

from configdb_sync.errors import NailgunError


class NailgunAwayError(NailgunError):
    """Nailgun can't be reached, its certificate can't be verified, or it keeps failing."""


class NailgunAnswerError(NailgunError):
    """An answer that isn't Nailgun's: another type, cut, too large, or one that leads elsewhere."""
