"""Dates and times as Ruby reads them from plain scalars, and the ISO text as which they travel (U19)."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import datetime, timedelta

from configdb_sync.hiera.special import ScalarError, Special

DATE = re.compile(r"[0-9]{4}-(?:1[012]|0[0-9]|[0-9])-(?:[12][0-9]|3[01]|0[0-9]|[0-9])")
TIME = re.compile(
    r"-?[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?"
    r"(?:[ \t]*(?:Z|[-+][0-9]{1,2}:?(?:[0-9]{2})?))?"
)
_FIELDS = re.compile(
    r"(?P<year>-?[0-9]{4})-(?P<month>[0-9]+)-(?P<day>[0-9]+)[Tt \t]+"
    r"(?P<hour>[0-9]+):(?P<minute>[0-9]+):(?P<second>[0-9]+)"
    r"(?:\.(?P<fraction>[0-9]*))?[ \t]*(?P<zone>.*)"
)
_ZONE = re.compile(r"([-+][0-9]{1,2}):?([0-9]{1,2})?")
_REFORM = (1582, 10, 5), (1582, 10, 15)
_MONTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_PARTS = ("year", "month", "day", "hour", "minute", "second")
_DAY_SECONDS = 86400


def date_of(text: str) -> Special | None:
    """Return the date for a text of the form ``DATE``, or None where the calendar has no such day.

    Ruby's calendar is the Julian one before October 1582, so 1500-02-29 is a day and 1582-10-10 is not.
    """
    year, month, day = (int(part) for part in text.split("-"))
    if not 1 <= month <= len(_MONTHS) or day < 1:
        return None
    if _REFORM[0] <= (year, month, day) < _REFORM[1]:
        return None
    julian = (year, month, day) < _REFORM[0]
    leap = year % 4 == 0 and (julian or year % 100 != 0 or year % 400 == 0)
    if day > _MONTHS[month - 1] + (leap and month == 2):
        return None
    return Special("date", f"{year:04}-{month:02}-{day:02}")


def time_of(text: str) -> Special | None:
    """Return the time for a text of the form ``TIME``, or None where Ruby takes it for a string.

    Ruby lets the 31st of a short month, hour 24 and second 60 run over into what follows. Raises ``ScalarError`` for
    such a 31st with an offset, and for a time outside of the years 1 to 9999, which has no such ISO text.
    """
    found = _FIELDS.fullmatch(text)
    if found is None:
        return None
    offset = _offset(found["zone"])
    parts = [int(found[name]) for name in _PARTS]
    moment = _moment(*parts)
    if offset is None or moment is None:
        return None
    if offset not in {"", "Z"} and parts[2] > monthrange(parts[0], parts[1])[1]:
        # Ruby's sum of such a day and an offset is weeks off.
        raise ScalarError("is a day that its month doesn't have")
    fraction = (found["fraction"] or "").rstrip("0")
    return Special("time", moment.isoformat() + (f".{fraction}" if fraction else "") + offset)


def _offset(zone: str) -> str | None:
    if zone in {"", "Z"}:
        return zone
    found = _ZONE.fullmatch(zone)
    if found is None:
        return None
    seconds = int(found[1]) * 3600
    minutes = int(found[2] or 0) * 60
    seconds += -minutes if seconds < 0 else minutes
    if abs(seconds) >= _DAY_SECONDS:
        return None
    sign = "-" if seconds < 0 else "+"
    return f"{sign}{abs(seconds) // 3600:02}:{abs(seconds) // 60 % 60:02}"


def _moment(*parts: int) -> datetime | None:
    year, month, day, hour, minute, second = parts
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour <= 24 and minute <= 59 and second <= 60):
        return None
    if hour == 24 and (minute or second):
        return None
    try:
        first = datetime(year, month, 1)  # noqa: DTZ001 - fields only; the zone is a text of its own
        return first + timedelta(days=day - 1, hours=hour, minutes=minute, seconds=second)
    except (ValueError, OverflowError):
        raise ScalarError("is a time outside of the years 1 to 9999") from None
