"""Which of a node's files may be written (the setting ``writable``). Pure: the caller follows links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from configdb_sync.errors import NodeFileError, SettingsError
from configdb_sync.nodes.node_files import is_plain, shown
from configdb_sync.setting_values import ENV, ROLE
from configdb_sync.setting_values import places as checked_places
from configdb_sync.settings import DEFAULT_WRITABLE

BASE = "/etc/astute.yaml"
"""Fuel's link that may lead to a file named after a role."""


@dataclass(frozen=True)
class Writable:
    """``places``: absolute paths at or below which files may be written. ``linked``: files that may be written only
    where ``BASE`` leads to them, as the texts before and after a role. ``setting``: both, as they are shown."""

    places: tuple[str, ...]
    linked: tuple[tuple[str, str], ...] = ()
    setting: tuple[str, ...] = ()

    def allows(self, target: str) -> bool:
        """Tell whether a file may be written, whatever links to it; ``target`` is where links lead."""
        return any(target == place or target.startswith(f"{place}/") for place in self.places)

    def allows_linked(self, target: str) -> bool:
        """Tell whether a file may be written if ``BASE`` leads to it."""
        return any(
            len(target) > len(before) + len(after)
            and target.startswith(before)
            and target.endswith(after)
            and "/" not in target[len(before) : len(target) - len(after)]
            and is_plain(target)
            for before, after in self.linked
        )

    def check(self, target: str) -> None:
        """Raise ``NodeFileError`` for a file that may not be written, links to it aside."""
        if not self.allows(target):
            raise self.refusal(target)

    def refusal(self, target: str) -> NodeFileError:
        """Return the error for a file that may not be written."""
        return NodeFileError(
            f"leads to {shown(target)}, which may not be written",
            way_out=f"the setting writable allows {', '.join(self.setting)}",
        )


def writable_files(setting: Sequence[str] = DEFAULT_WRITABLE, env: int | None = None) -> Writable:
    """Return the places that a setting allows on nodes; those that name the environment don't count without ``env``.

    Raises ``SettingsError`` for what the setting can't hold.
    """
    try:
        setting = checked_places(list(setting))
    except ValueError as error:
        raise SettingsError("writable is not valid", way_out=str(error)) from None
    known = [place.replace(ENV, str(env)) for place in setting if env is not None or ENV not in place]
    halves = [place.partition(ROLE) for place in known]
    return Writable(
        places=tuple(before for before, role, _ in halves if not role),
        linked=tuple((before, after) for before, role, after in halves if role),
        setting=tuple(known),
    )
