"""Writes Ruby's Marshal format 4.8 as Ruby itself does, links between objects aside: each is written out."""

from __future__ import annotations

from collections.abc import Mapping

from configdb_sync.mcollective.faults import MarshalError
from configdb_sync.mcollective.marshal import VERSION
from configdb_sync.mcollective.values import US_ASCII, UTF_8, Ruby, String, Symbol

MAX_DEPTH = 64
_FIXNUM = 1 << 30


def dumps(value: Ruby) -> bytes:
    """Return the dump of a value (see ``values.Ruby``; bool keys are refused).

    Raises ``MarshalError`` for other types, for text that isn't Unicode and for nesting beyond ``MAX_DEPTH``.
    """
    writer = _Writer()
    writer.value(value, 0)
    return VERSION + b"".join(writer.pieces)


class _Writer:
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
