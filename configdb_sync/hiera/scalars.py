"""What a plain scalar means to Ruby: the rules of Psych 4's scalar scanner, checked against Ruby itself.

Where PyYAML reads otherwise (``1,000``, ``1:30``, ``:name``, ``2016-1-1``, ``=``), Ruby's reading holds (U11).
"""

from __future__ import annotations

import math
import re
from typing import TypeAlias

from configdb_sync.hiera.special import MERGE, ScalarError, Special
from configdb_sync.hiera.timestamps import DATE, TIME, date_of, time_of

Scalar: TypeAlias = bool | int | float | str | Special | None

MAX_DIGITS = 4300
"""Longest integer that Python converts from and to text by default; Ruby and JSON know no bound."""

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
        return _base60(text)
    if _BASE60_FLOAT.fullmatch(text):
        return _base60_float(text)
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


def _finite(text: str) -> float:
    if len(text) > _MAX_FLOAT_TEXT:
        raise ScalarError("is a number with more digits than a float holds")
    try:
        value = float(text)
    except ValueError as error:
        raise ScalarError("is a number without digits, which Ruby can't read") from error
    if not math.isfinite(value):
        raise ScalarError("is a number that JSON can't carry (infinity or NaN)")
    return value


def _base60(text: str) -> int:
    total = 0
    for place, part in enumerate(_bounded(text).split(":")):
        found = _LEADING_INTEGER.match(part)
        total += int(found[0].replace("_", "")) * 60 ** abs(place - 2) if found else 0
    return check_integer(total)


def _base60_float(text: str) -> float:
    if len(text) > _MAX_FLOAT_TEXT:
        raise ScalarError("is a number with more digits than a float holds")
    total: float = 0
    for place, part in enumerate(text.split(":")):
        found = _LEADING_FLOAT.match(part)
        total += float(found[0].replace("_", "")) * 60 ** abs(place - 2) if found else 0.0
    return float(total)
