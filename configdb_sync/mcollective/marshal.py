"""Reads Ruby's Marshal format 4.8, strictly and no more of it than MCollective's messages use.

Nil, true, false, Integer, String, Symbol, Array, Hash, and links to what came before. Any other type is a
``MarshalError``, as are bytes missing, left over or not in their place. What is read may come from an enemy: depth,
number of values (links count for what they lead to) and lengths are bounded before anything is made of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from configdb_sync.mcollective.faults import MarshalError
from configdb_sync.mcollective.values import US_ASCII, UTF_8, Ruby, String, Symbol, kind, plain

VERSION = b"\x04\x08"
_IVARS = 2
_LARGEST_INTEGER = 1024
_TRUTH = {ord("0"): None, ord("T"): True, ord("F"): False}


@dataclass(frozen=True)
class Limits:
    """How much is read: levels of nesting, values in all, bytes in all."""

    depth: int = 64
    values: int = 100_000
    size: int = 64 << 20


DEFAULT = Limits()


def loads(raw: bytes, limits: Limits = DEFAULT) -> Ruby:
    """Return the value of a whole Marshal dump. Raises ``MarshalError`` for everything else, whatever it is."""
    if len(raw) > limits.size:
        raise MarshalError(f"{len(raw)} bytes of Marshal data, more than {limits.size}")
    if raw[:2] != VERSION:
        raise MarshalError(f"{len(raw)} bytes that don't begin as Marshal 4.8 does")
    reader = _Reader(raw, limits)
    value = reader.value(0)
    reader.end()
    return value


@dataclass
class _Entry:
    """An object that links may lead to; ``weight`` is how many values it stands for, 0 while it is being read."""

    value: Ruby = None
    weight: int = 0


class _Reader:
    def __init__(self, raw: bytes, limits: Limits) -> None:
        self._raw = raw
        self._place = 2
        self._limits = limits
        self._count = 0
        self._objects: list[_Entry] = []
        self._symbols: list[Symbol | None] = []
        self._simple: dict[str, Callable[[], Ruby]] = {
            "i": self._long,
            ":": self._symbol,
            ";": self._symbol_link,
            "@": self._link,
        }

    def end(self) -> None:
        left = len(self._raw) - self._place
        if left:
            raise MarshalError(f"{left} bytes are left over after the value")

    def value(self, depth: int) -> Ruby:
        self._add(1)
        if depth > self._limits.depth:
            raise MarshalError(f"nested more than {self._limits.depth} levels deep")
        mark = self._byte()
        if mark in _TRUTH:
            return _TRUTH[mark]
        letter = chr(mark)
        if letter in '"l[{':
            entry = self._enter()
            before = self._count
            entry.value = self._compound(letter, depth)
            entry.weight = 1 + self._count - before
            return entry.value
        if letter == "I":
            return self._with_encoding(depth)
        read = self._simple.get(letter)
        if read is None:
            raise MarshalError(f"type 0x{mark:02x} at byte {self._place - 1} is none of those that are spoken here")
        return read()

    def _compound(self, mark: str, depth: int) -> Ruby:
        if mark == '"':
            return String(self._bytes())
        if mark == "l":
            return self._bignum()
        if mark == "[":
            return [self.value(depth + 1) for _ in range(self._size(1))]
        return self._hash(depth)

    def _hash(self, depth: int) -> Ruby:
        found: dict[Ruby, Ruby] = {}
        seen: set[object] = set()
        for _ in range(self._size(2)):
            key = self.value(depth + 1)
            if isinstance(key, bool) or not isinstance(key, (String, Symbol, int)):
                raise MarshalError(f"{kind(key)} is the key of a Hash")
            # To Ruby the same characters are the same key, whatever encoding they are said to be in.
            same = key.content if isinstance(key, String) else key
            if same in seen:
                raise MarshalError("a Hash has a key twice")
            seen.add(same)
            found[key] = self.value(depth + 1)
        return found

    def _with_encoding(self, depth: int) -> Ruby:
        mark = chr(self._byte())
        if mark == ":":
            return self._symbol(encoded=True, depth=depth)
        if mark != '"':
            raise MarshalError(f"instance variables on type 0x{ord(mark):02x} at byte {self._place - 1}")
        entry = self._enter()
        content = self._bytes()
        entry.value = String(content, self._encoding(depth))
        entry.weight = 1
        return entry.value

    def _encoding(self, depth: int) -> str | None:
        count = self._long()
        if count not in range(_IVARS):
            raise MarshalError(f"{count} instance variables on a String")
        if not count:
            return None
        name = self._symbol_of(self.value(depth + 1))
        value = plain(self.value(depth + 1))
        if name == "E" and isinstance(value, bool):
            return UTF_8 if value else US_ASCII
        if name == "encoding" and isinstance(value, bytes) and value.isascii() and 0 < len(value) <= 40:
            return value.decode("ascii")
        raise MarshalError("an instance variable on a String that is not its encoding")

    def _symbol(self, *, encoded: bool = False, depth: int = 0) -> Symbol:
        place = len(self._symbols)
        self._symbols.append(None)
        content = self._bytes()
        encoding = self._encoding(depth) if encoded else None
        if encoding not in {None, UTF_8, US_ASCII}:
            raise MarshalError("a Symbol in an encoding other than UTF-8")
        try:
            symbol = Symbol(content.decode("utf-8" if encoding == UTF_8 else "ascii"))
        except UnicodeDecodeError:
            raise MarshalError(f"a Symbol of {len(content)} bytes that are not text") from None
        self._symbols[place] = symbol
        return symbol

    @staticmethod
    def _symbol_of(value: Ruby) -> str:
        if not isinstance(value, Symbol):
            raise MarshalError(f"{kind(value)} names an instance variable")
        return value.name

    def _symbol_link(self) -> Symbol:
        place = self._long()
        if not 0 <= place < len(self._symbols):
            raise MarshalError(f"a link to symbol {place} of {len(self._symbols)}")
        symbol = self._symbols[place]
        if symbol is None:
            raise MarshalError("a symbol that holds itself")
        return symbol

    def _link(self) -> Ruby:
        place = self._long()
        if not 0 <= place < len(self._objects):
            raise MarshalError(f"a link to object {place} of {len(self._objects)}")
        entry = self._objects[place]
        if not entry.weight:
            raise MarshalError("an object that holds itself")
        self._add(entry.weight)
        return entry.value

    def _enter(self) -> _Entry:
        entry = _Entry()
        self._objects.append(entry)
        return entry

    def _add(self, count: int) -> None:
        self._count += count
        if self._count > self._limits.values:
            raise MarshalError(f"more than {self._limits.values} values")

    def _take(self, count: int) -> bytes:
        left = len(self._raw) - self._place
        if not 0 <= count <= left:
            raise MarshalError(f"{count} bytes are due at byte {self._place} and {left} are left")
        self._place += count
        return self._raw[self._place - count : self._place]

    def _byte(self) -> int:
        return self._take(1)[0]

    def _bytes(self) -> bytes:
        return self._take(self._long())

    def _size(self, least: int) -> int:
        """Return the number of entries of a collection, each of which takes at least ``least`` bytes."""
        count = self._long()
        left = len(self._raw) - self._place
        if not 0 <= count * least <= left:
            raise MarshalError(f"{count} entries in {left} bytes")
        return count

    def _long(self) -> int:
        first = int.from_bytes(self._take(1), signed=True)
        if first == 0:
            return 0
        if abs(first) > 4:
            return first - 5 if first > 0 else first + 5
        value = int.from_bytes(self._take(abs(first)), "little")
        return value if first > 0 else value - (1 << 8 * -first)

    def _bignum(self) -> int:
        sign = chr(self._byte())
        if sign not in "+-":
            raise MarshalError("an Integer without a sign")
        words = self._long()
        if not 0 <= words * 2 <= _LARGEST_INTEGER:
            raise MarshalError(f"an Integer of {words * 2} bytes, more than {_LARGEST_INTEGER}")
        value = int.from_bytes(self._take(words * 2), "little")
        return -value if sign == "-" else value
