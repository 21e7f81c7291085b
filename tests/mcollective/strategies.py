"""Generated Ruby values."""

from __future__ import annotations

from hypothesis import strategies as st

from configdb_sync.mcollective.marshal import Ruby, String, Symbol

names = st.one_of(st.sampled_from(["cmd", "stdout", "é", "日本", "E", "encoding", ""]), st.text(max_size=8)).map(Symbol)
_ENCODINGS = (None, None, "UTF-8", "UTF-8", "US-ASCII", "ISO-8859-1")


@st.composite
def strings(draw: st.DrawFn) -> String:
    if draw(st.booleans()):
        return String(draw(st.text(max_size=12)).encode(), "UTF-8")
    return String(draw(st.binary(max_size=12)), draw(st.sampled_from(_ENCODINGS)))


@st.composite
def integers(draw: st.DrawFn) -> int:
    if draw(st.booleans()):
        return draw(st.integers(-70000, 70000))
    power: int = 2 ** draw(st.integers(0, 200))
    return draw(st.sampled_from([1, -1])) * (power + draw(st.integers(-2, 2)))


@st.composite
def values(draw: st.DrawFn, depth: int = 4) -> Ruby:
    kind = draw(st.integers(0, 4 if depth == 0 else 7))
    if kind == 0:
        return draw(st.sampled_from([None, True, False]))
    if kind == 1:
        return draw(integers())
    if kind in {2, 3}:
        return draw(strings())
    if kind == 4:
        return draw(names)
    count = draw(st.integers(0, 4))
    if kind == 5:
        return [draw(values(depth - 1)) for _ in range(count)]
    found: dict[object, tuple[Ruby, Ruby]] = {}
    for _ in range(count):
        key = draw(st.one_of(names, strings(), integers()))
        # To Ruby equal characters are one key.
        found[key.content if isinstance(key, String) else key] = (key, draw(values(depth - 1)))
    return dict(found.values())
