"""Why an override is there and until when: the options of ``override``, and how ``overrides`` shows it (U27)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from configdb_sync.clock import SystemClock
from configdb_sync.configdb.edits import KeyPath
from configdb_sync.errors import SettingsError
from configdb_sync.jsonvalues import Json, value_digest
from configdb_sync.overrides.notes import Note, parse_duration, parse_end

if TYPE_CHECKING:
    from configdb_sync.configdb.model import DocumentAddress

_SHOWN = 60


@dataclass(frozen=True)
class OverrideReason:
    """Why an override is made: ``text`` is for the history, ``reason`` stays with the key; and its end."""

    text: str | None
    reason: str | None
    until: datetime | None

    def refuse_end(self, option: str, way_out: str) -> None:
        """Raise ``SettingsError`` if there is an end, which does not go with an option."""
        if self.until is not None:
            raise SettingsError(f"--until and --for do not go with {option}", way_out=way_out)

    def notes(self, place: DocumentAddress, path: KeyPath | None, value: Json, author: str) -> list[Note]:
        """Return the notes of an override: that of its key, or of each top-level key if ``path`` is None."""
        values: dict[KeyPath, Json] = {path: value} if path is not None else {}
        if path is None and isinstance(value, dict):
            values = {(key,): one for key, one in value.items()}
        now = SystemClock().now().replace(microsecond=0)
        where = (place.level_text, place.data_source)
        return [
            Note(*where, key, value_digest(one), author, now, reason=self.reason, until=self.until)
            for key, one in values.items()
        ]


def reason_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command with ``--comment`` the options of an ``OverrideReason``, which it gets as ``about``."""

    @functools.wraps(function)
    def wrapped(
        *args: Any, comment: str | None, reason: str | None, until: str | None, duration: str | None, **kwargs: Any
    ) -> Any:
        end = parse_end(until, duration, SystemClock().now())
        about = OverrideReason(comment or reason, _storable(reason or comment), end)
        return function(*args, about=about, **kwargs)

    for option in (
        click.option("--for", "duration", metavar="DURATION", help="Like --until, from now on: 30m, 8h, 7d, 2w."),
        click.option("--until", metavar="TIME", help="When the override ends: 2026-12-31 or 2026-12-31T18:00."),
        click.option("--reason", metavar="TEXT", help="Why the key is overridden; `overrides` shows it."),
    ):
        wrapped = option(wrapped)
    return wrapped


def _storable(text: str | None) -> str | None:
    """Return a text without bytes that aren't UTF-8 and without NUL, which no database stores."""
    return None if text is None else text.encode("utf-8", "replace").decode().replace("\0", "?")


def ending_before(expiring: str) -> datetime:
    """Return the time until which overrides end that ``--expiring`` asks for. Raises ``SettingsError``."""
    return SystemClock().now() + parse_duration(expiring, "--expiring")
