"""What a plain scalar means to Ruby: the rules of Psych 4's scalar scanner, checked against Ruby itself.

Where PyYAML reads otherwise (``1,000``, ``1:30``, ``:name``, ``2016-1-1``, ``=``), Ruby's reading holds (U11).
"""

from __future__ import annotations

import math
import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, TypeAlias, TypeVar

Kind: TypeAlias = Literal["symbol", "integer", "date", "time", "merge"]


@dataclass(frozen=True, slots=True)
class Special:
    """A Symbol, date or time anywhere, or an integer as a mapping's key.

    ``text`` is its JSON form: ``:name``, ``7``, ``2016-01-31``, ``2016-01-31T10:00:00.5Z`` (``Z`` is UTC, ``+02:00``
    a fixed offset, nothing the node's own zone). Equal specials are equal keys for Ruby.
    """

    kind: Kind
    text: str

    def __str__(self) -> str:
        return self.text


class ScalarError(ValueError):
    """A scalar that Ruby can't read, or that JSON can't carry; the text says why, without the scalar."""


MERGE = Special("merge", "<<")
"""``<<`` until its place decides whether it is a merge key or the string ``<<``."""


Number = TypeVar("Number", int, float)
Scalar: TypeAlias = bool | int | float | str | Special | None

MAX_DIGITS = 4300
"""Longest integer that Python converts from and to text by default; Ruby and JSON have no limit."""

_MAX_FLOAT_TEXT = 60  # Beyond, Ruby drops digits in ways of its own.
_TOO_LARGE = 10**MAX_DIGITS

_BASE60 = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9]){1,2}")
_BASE60_FLOAT = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9]){1,2}\.[0-9_]*")
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_,]*)?\.[0-9]*(?:[eE][-+][0-9]+)?")
_INTEGER = re.compile(
    r"[-+]?(?:(?P<two>0b[01_,]+)|(?P<eight>0[0-7_,]+)|(?P<ten>0|[1-9](?:[,_]?[0-9])*)|(?P<sixteen>0x[0-9a-fA-F_,]+))"
)
_SYMBOL_QUOTED = re.compile(r""":(["'])(.*)\1""")
_LEADING_INTEGER = re.compile(r"[-+]?[0-9]+(?:_[0-9]+)*")
_LEADING_FLOAT = re.compile(r"[-+]?[0-9]+(?:_[0-9]+)*(?:\.[0-9]+(?:_[0-9]+)*)?")
_TEXT_FLOAT = re.compile(r"[-+]?[0-9]+(?:_[0-9]+)*[eE][-+]?[0-9]+")
_FRACTION_DOT = re.compile(r"[,_]|\.(?=[eE]|$)")

# Ruby folds case by Unicode's rules and takes ^ and $ at each line of a scalar that spans several.
_NOT_A_WORD = re.compile(r"^[^ytonf~]", re.MULTILINE | re.IGNORECASE)
_NULL = re.compile(r"^null$", re.MULTILINE | re.IGNORECASE)
_TRUE = re.compile(r"^(?:yes|true|on)$", re.MULTILINE | re.IGNORECASE)
_FALSE = re.compile(r"^(?:no|false|off|oﬀ)$", re.MULTILINE | re.IGNORECASE)
_LONGEST_WORD = 5


def resolve(text: str) -> Scalar:
    """Return what Ruby reads for a plain scalar.

    Raises ``ScalarError`` for NaN, infinities, numbers too long to convert and what Ruby itself stumbles over.
    """
    if not text:
        return None
    if text[0] in "0123456789+-.:" and "\n" not in text:
        return _numeric(text)
    if text == "<<":
        return MERGE
    return _word(text) if len(text) <= _LONGEST_WORD else text


def to_float(text: str) -> float:
    """Return what Ruby reads for a scalar tagged ``!!float``; ``ScalarError`` if it isn't one."""
    value = resolve(text)
    if isinstance(value, str) and _TEXT_FLOAT.fullmatch(value):
        return _finite(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ScalarError("is tagged a float and isn't one")
    try:
        return float(value)
    except OverflowError as error:
        raise ScalarError("is a number that JSON can't carry") from error


def check_integer(value: int) -> int:
    """Return ``value``; ``ScalarError`` if it has more than ``MAX_DIGITS`` digits."""
    if not -_TOO_LARGE < value < _TOO_LARGE:
        raise ScalarError(f"is an integer of more than {MAX_DIGITS} digits")
    return value


def _word(text: str) -> Scalar:
    if _NOT_A_WORD.search(text):
        return text
    if text == "~" or _NULL.search(text):
        return None
    if _TRUE.search(text):
        return True
    return False if _FALSE.search(text) else text


def _numeric(text: str) -> Scalar:
    if text[0] == ":":
        return _symbol(text)
    if TIME.fullmatch(text):
        return time_of(text) or text
    if DATE.fullmatch(text):
        return date_of(text) or text
    return _number(text)


def _number(text: str) -> Scalar:
    if _BASE60.fullmatch(text):
        return check_integer(_base60(_bounded(text), int, _LEADING_INTEGER))
    if _BASE60_FLOAT.fullmatch(text):
        return _base60(_short(text), float, _LEADING_FLOAT)
    if text in {".", "+.", "-."}:
        return text
    if _FLOAT.fullmatch(text):
        return _finite(_FRACTION_DOT.sub("", text))
    if text.lower() in {".inf", "+.inf", "-.inf", ".nan"}:
        raise ScalarError("is a number that JSON can't carry (infinity or NaN)")
    found = _INTEGER.fullmatch(text)
    return _integer(text, found.lastgroup or "ten") if found else text


def _symbol(text: str) -> Scalar:
    if len(text) == 1:
        return text
    quoted = _SYMBOL_QUOTED.match(text)
    if quoted:
        return Special("symbol", ":" + quoted[2].removeprefix(":"))
    return Special("symbol", text)


def _bounded(text: str) -> str:
    if len(text.lstrip("+-")) > MAX_DIGITS:
        raise ScalarError(f"is an integer of more than {MAX_DIGITS} digits")
    return text


def _integer(text: str, base: str) -> int:
    digits = _bounded(text.replace(",", "").replace("_", ""))
    try:
        return check_integer(int(digits, {"two": 2, "eight": 8, "ten": 10, "sixteen": 16}[base]))
    except ScalarError:
        raise
    except ValueError as error:
        raise ScalarError("is a number without digits, which Ruby can't read") from error


def _short(text: str) -> str:
    if len(text) > _MAX_FLOAT_TEXT:
        raise ScalarError("is a number with more digits than a float holds")
    return text


def _finite(text: str) -> float:
    _short(text)
    try:
        value = float(text)
    except ValueError as error:
        raise ScalarError("is a number without digits, which Ruby can't read") from error
    if not math.isfinite(value):
        raise ScalarError("is a number that JSON can't carry (infinity or NaN)")
    return value


def _base60(text: str, kind: Callable[[str | int], Number], leading: re.Pattern[str]) -> Number:
    total = kind(0)
    for place, part in enumerate(text.split(":")):
        found = leading.match(part)
        total += kind(found[0].replace("_", "")) * 60 ** abs(place - 2) if found else kind(0)
    return total


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
