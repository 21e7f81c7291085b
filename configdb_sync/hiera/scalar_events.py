"""What one scalar event of libyaml means: quoted, plain or tagged, by the rules of Psych's visitor."""

from __future__ import annotations

from yaml.events import ScalarEvent

from configdb_sync.hiera.scalars import Scalar, resolve, to_float
from configdb_sync.hiera.special import MERGE, ScalarError, Special

_CORE = "tag:yaml.org,2002:"
_STRINGS = frozenset({_CORE + "str", "!str"})
_FLOATS = frozenset({_CORE + "float", "!float"})
_SYMBOLS = frozenset({"!ruby/sym", "!ruby/symbol"})
# Psych reads these by what the scalar looks like, whatever the tag says.
_BY_CONTENT = frozenset({"!", *(_CORE + name for name in ("int", "bool", "null", "timestamp", "merge", "value"))})

MAPPING_TAGS = frozenset({None, "!", _CORE + "map"})
SEQUENCE_TAGS = frozenset({None, "!", _CORE + "seq"})

_LONGEST_KNOWN = 64
_MOST_KNOWN = 20_000


class TagError(ScalarError):
    """A tag that stands for more than JSON can carry."""


class PlainScalars:
    """Remembers what plain scalars mean: the same few thousand come again in every file. Safe to share by threads."""

    def __init__(self) -> None:
        self.known: dict[str, Scalar] = {}

    def resolve(self, text: str) -> Scalar:
        """Return what Ruby reads for a plain scalar; raises ``ScalarError`` as ``scalars.resolve`` does."""
        # None is a value, too; and another thread may empty the dictionary at any time.
        value = self.known.get(text, MERGE)
        if value is not MERGE:
            return value
        value = resolve(text)
        # Specials stay out, so that whoever finds a scalar in ``known`` knows that JSON has it.
        if len(text) <= _LONGEST_KNOWN and not isinstance(value, Special):
            if len(self.known) >= _MOST_KNOWN:
                self.known.clear()
            self.known[text] = value
        return value


def scalar_of(event: ScalarEvent, plain: PlainScalars) -> Scalar:
    """Return the value of one scalar event; raises ``ScalarError`` (``TagError`` for its tag)."""
    text: str = event.value
    tag: str | None = event.tag
    if tag in _STRINGS:
        return without_nul(text)
    if event.implicit[1]:
        # Quoted it is a merge key all the same; only the tag of strings makes it a string.
        return MERGE if text == MERGE.text else without_nul(text)
    if tag is None or tag in _BY_CONTENT:
        return without_nul_in(plain.resolve(text))
    if tag in _SYMBOLS:
        return without_nul_in(Special("symbol", ":" + text))
    if tag in _FLOATS:
        return to_float(text)
    raise TagError(tag)


def without_nul(text: str) -> str:
    """Return ``text``; ``ScalarError`` if it holds NUL, which no database and no XML carries."""
    if "\0" in text:
        raise ScalarError("holds the character NUL")
    return text


def without_nul_in(value: Scalar) -> Scalar:
    """Return ``value``; ``ScalarError`` if it is text that holds NUL."""
    if isinstance(value, str):
        without_nul(value)
    elif isinstance(value, Special):
        without_nul(value.text)
    return value


def key_value(value: object) -> str | Special:
    """Return a mapping's key as it is held: a string, or a ``Special`` for integers, Symbols, dates and times.

    Raises ``ScalarError`` for keys that JSON can't carry: true, false, null, floats and collections.
    """
    if isinstance(value, str | Special):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Special("integer", str(value))
    raise ScalarError("has a key that is neither a string nor an integer, Symbol, date or time")
