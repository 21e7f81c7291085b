"""Ruby's Marshal format 4.8: the part of it that MCollective's messages use.

``nil``, ``true``, ``false`` and Integer are None, bool and int; Array is list, Hash is dict. Text is never decoded:
the reader of a String judges whether its bytes are what its encoding says.

Reading is strict: any other type is a ``MarshalError``, as are bytes missing, left over or not in their place. Input
may be hostile: depth, number of values (links count for what they lead to) and lengths are checked before anything is
made of them. Writing gives the bytes that Ruby itself writes, except that an object used twice is written twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from configdb_sync.errors import ProductError

Ruby: TypeAlias = Any
"""None, bool, int, String, Symbol, list of Ruby, or dict with String, Symbol or int keys. The writer also takes str
(a UTF-8 String), bytes (a binary String) and tuples."""

Value: TypeAlias = Any
"""Inputs and outputs of actions: None, bool, int, bytes, Symbol, list and dict of these; str as an input only."""

UTF_8 = "UTF-8"
US_ASCII = "US-ASCII"

_KINDS: Mapping[type, str] = {
    type(None): "nil",
    bool: "a boolean",
    int: "an Integer",
    list: "an Array",
    dict: "a Hash",
}


class MarshalError(ProductError):
    """Bytes that aren't the subset of Ruby's Marshal format that is read here, or a value that it can't carry."""


@dataclass(frozen=True)
class String:
    """A Ruby String: its bytes, and the name of its encoding (None for binary)."""

    content: bytes
    encoding: str | None = None


@dataclass(frozen=True)
class Symbol:
    """A Ruby Symbol."""

    name: str


def plain(value: Ruby) -> Value:
    """Return a value as actions give it: Strings become their bytes, at every depth."""
    if isinstance(value, String):
        return value.content
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    return value


def keyed(value: Ruby) -> dict[str, Ruby]:
    """Return a Hash whose keys are Symbols (or Strings in UTF-8) by their names. Raises ``MarshalError``."""
    if not isinstance(value, dict):
        raise MarshalError(f"expected a Hash, found {kind(value)}")
    found: dict[str, Ruby] = {}
    for key, item in value.items():
        name = key.name if isinstance(key, Symbol) else text(key)
        if name in found:
            raise MarshalError("a Hash has a key twice")
        found[name] = item
    return found


def text(value: Ruby, longest: int = 4096) -> str:
    """Return a String's text, bytes that aren't UTF-8 escaped. Raises ``MarshalError`` for anything else."""
    if not isinstance(value, String):
        raise MarshalError(f"expected a String, found {kind(value)}")
    if len(value.content) > longest:
        raise MarshalError(f"a String of {len(value.content)} bytes, more than {longest}")
    return value.content.decode("utf-8", errors="backslashreplace")


def kind(value: Ruby) -> str:
    """Return the Ruby name of a value's type, for errors."""
    return _KINDS.get(type(value), f"a {type(value).__name__}")


VERSION = b"\x04\x08"
_IVARS = 2
_LARGEST_INTEGER = 1024
_TRUTH = {"0": None, "T": True, "F": False}


@dataclass(frozen=True)
class MarshalLimits:
    """How much is read: levels of nesting, number of values, bytes."""

    depth: int = 64
    values: int = 100_000
    size: int = 64 << 20


DEFAULT = MarshalLimits()


def loads(raw: bytes, limits: MarshalLimits = DEFAULT) -> Ruby:
    """Return the value of a whole Marshal dump. Raises ``MarshalError`` for everything else, whatever it is."""
    if len(raw) > limits.size:
        raise MarshalError(f"{len(raw)} bytes of Marshal data, more than {limits.size}")
    if raw[:2] != VERSION:
        raise MarshalError(f"{len(raw)} bytes that don't begin as Marshal 4.8 does")
    reader = _MarshalReader(raw, limits)
    value = reader.value(0)
    if reader.left:
        raise MarshalError(f"{reader.left} bytes are left over after the value")
    return value


@dataclass
class _LinkedObject:
    """An object that links may lead to; ``weight`` is how many values it stands for, 0 while it is being read."""

    value: Ruby = None
    weight: int = 0


class _MarshalReader:
    def __init__(self, raw: bytes, limits: MarshalLimits) -> None:
        self._raw = raw
        self._place = 2
        self._limits = limits
        self._count = 0
        self._objects: list[_LinkedObject] = []
        self._symbols: list[Symbol | None] = []

    @property
    def left(self) -> int:
        return len(self._raw) - self._place

    def value(self, depth: int) -> Ruby:
        self._add(1)
        if depth > self._limits.depth:
            raise MarshalError(f"nested more than {self._limits.depth} levels deep")
        value: Ruby
        match mark := chr(self._byte()):
            case "0" | "T" | "F":
                value = _TRUTH[mark]
            case "i":
                value = self._long()
            case ":":
                value = self._symbol()
            case ";":
                value = self._symbol_link()
            case "I":
                value = self._with_encoding(depth)
            case "@":
                value = self._link()
            case '"' | "l" | "[" | "{":
                entry = self._enter()
                before = self._count
                value = entry.value = self._compound(mark, depth)
                entry.weight = 1 + self._count - before
            case _:
                raise MarshalError(f"type 0x{ord(mark):02x} at byte {self._place - 1} is not supported")
        return value

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
            # To Ruby the same characters are the same key, whatever their encoding.
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
        name = self.value(depth + 1)
        if not isinstance(name, Symbol):
            raise MarshalError(f"{kind(name)} names an instance variable")
        value = plain(self.value(depth + 1))
        if name.name == "E" and isinstance(value, bool):
            return UTF_8 if value else US_ASCII
        if name.name == "encoding" and isinstance(value, bytes) and value.isascii() and 0 < len(value) <= 40:
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

    def _enter(self) -> _LinkedObject:
        entry = _LinkedObject()
        self._objects.append(entry)
        return entry

    def _add(self, count: int) -> None:
        self._count += count
        if self._count > self._limits.values:
            raise MarshalError(f"more than {self._limits.values} values")

    def _take(self, count: int) -> bytes:
        if not 0 <= count <= self.left:
            raise MarshalError(f"{count} bytes expected at byte {self._place}, {self.left} left")
        self._place += count
        return self._raw[self._place - count : self._place]

    def _byte(self) -> int:
        return self._take(1)[0]

    def _bytes(self) -> bytes:
        return self._take(self._long())

    def _size(self, least: int) -> int:
        """Return the number of entries of a collection, each of which takes at least ``least`` bytes."""
        count = self._long()
        if not 0 <= count * least <= self.left:
            raise MarshalError(f"{count} entries in {self.left} bytes")
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


MAX_DEPTH = 64
_FIXNUM = 1 << 30


def dumps(value: Ruby) -> bytes:
    """Return the dump of a value (see ``Ruby``; bool keys are refused).

    Raises ``MarshalError`` for other types, for text that isn't Unicode and for nesting beyond ``MAX_DEPTH``.
    """
    writer = _MarshalWriter()
    writer.value(value, 0)
    return VERSION + b"".join(writer.pieces)


class _MarshalWriter:
    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self._symbols: dict[str, int] = {}

    def value(self, value: Ruby, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise MarshalError(f"nested more than {MAX_DEPTH} levels deep")
        match value:
            case None:
                self._put(b"0")
            case bool():
                self._put(b"T" if value else b"F")
            case int():
                self._integer(value)
            case str():
                self._string(String(_encoded(value), UTF_8))
            case bytes():
                self._string(String(value))
            case String():
                self._string(value)
            case Symbol():
                self._symbol(value)
            case list() | tuple():
                self._put(b"[" + _long(len(value)))
                for item in value:
                    self.value(item, depth + 1)
            case Mapping():
                self._hash(value, depth)
            case _:
                raise MarshalError(f"a {type(value).__name__} can't be sent")

    def _put(self, piece: bytes) -> None:
        self.pieces.append(piece)

    def _hash(self, value: Mapping[Ruby, Ruby], depth: int) -> None:
        self._put(b"{" + _long(len(value)))
        for key, item in value.items():
            if isinstance(key, bool) or not isinstance(key, (str, bytes, String, Symbol, int)):
                raise MarshalError(f"a {type(key).__name__} can't be the key of a Hash")
            self.value(key, depth + 1)
            self.value(item, depth + 1)

    def _integer(self, value: int) -> None:
        if -_FIXNUM <= value < _FIXNUM:
            self._put(b"i" + _long(value))
            return
        words = (abs(value).bit_length() + 15) // 16
        self._put((b"l-" if value < 0 else b"l+") + _long(words) + abs(value).to_bytes(words * 2, "little"))

    def _string(self, value: String) -> None:
        if value.encoding is not None:
            self._put(b"I")
        self._put(b'"' + _sized(value.content))
        if value.encoding is not None:
            self._encoding(value.encoding)

    def _encoding(self, name: str) -> None:
        self._put(_long(1))
        if name in {UTF_8, US_ASCII}:
            self._symbol(Symbol("E"))
            self._put(b"T" if name == UTF_8 else b"F")
        else:
            self._symbol(Symbol("encoding"))
            self._put(b'"' + _sized(_encoded(name)))

    def _symbol(self, symbol: Symbol) -> None:
        known = self._symbols.get(symbol.name)
        if known is not None:
            self._put(b";" + _long(known))
            return
        self._symbols[symbol.name] = len(self._symbols)
        self._put((b":" if symbol.name.isascii() else b"I:") + _sized(_encoded(symbol.name)))
        if not symbol.name.isascii():
            self._encoding(UTF_8)


def _encoded(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise MarshalError("text with a lone surrogate can't be sent; give bytes") from None


def _sized(content: bytes) -> bytes:
    return _long(len(content)) + content


def _long(value: int) -> bytes:
    """Return an integer of at most 31 bits in Marshal's own form."""
    if value == 0:
        return b"\0"
    if 0 < value < 123:
        return bytes([value + 5])
    if -124 < value < 0:
        return (value - 5).to_bytes(1, signed=True)
    for size in range(1, 5):
        if -(1 << 8 * size) <= value < 1 << 8 * size:
            return (size if value > 0 else -size).to_bytes(1, signed=True) + (value & ((1 << 8 * size) - 1)).to_bytes(
                size, "little"
            )
    raise MarshalError(f"a length of {value}")
