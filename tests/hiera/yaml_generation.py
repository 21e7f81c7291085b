"""Odd YAML from a seed: plain scalars near every rule, JSON values, documents in every style, and what spoils them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

WORDS = (
    "yes",
    "No",
    "ON",
    "off",
    "true",
    "False",
    "null",
    "~",
    "y",
    "n",
    "NULL",
    "Off",
    "ye\u017f",
    "o\ufb00",
    "tRue",
    "nULl",
)
NUMBERS = (
    "0",
    "1",
    "12",
    "007",
    "0644",
    "0899",
    "0o7",
    "0b101",
    "0b",
    "0x1F",
    "0x",
    "0xg",
    "-5",
    "+5",
    "1_000",
    "1__0",
    "1_",
    "1,000",
    "10,20",
    "0,",
    "0_",
    "1,",
    ",1",
    "1,_2",
    "0b1,0_1",
    "-0x_f",
    "0b_",
    "1e3",
    "1.5e+3",
    "1.5e3",
    "1.e+5",
    ".5",
    "+.5",
    "-.5",
    "5.",
    ".",
    "-.",
    ".e+1",
    "1_0.5",
    "1,0.5",
    "0.1_5",
    "-0.0",
    ".inf",
    "-.INF",
    "+.inf",
    ".NaN",
    "1:30",
    "1:2",
    "0:0",
    "12:00",
    "-1:30",
    "1:99",
    "1:2:3",
    "1:2:3:4",
    "1:30.5",
    "1__0:30.5_5",
    "1:30.",
    "1:2:3.5",
    "10:10:10:10:10:10:10:10",
    "52:54:00:12:34:56",
    "49100:22",
    "6800,8080",
    "99999999999999999999",
    "1e400",
)
TIMES = (
    "2016-01-01",
    "2016-1-1",
    "2016-13-45",
    "2016-02-30",
    "1582-10-10",
    "1500-02-29",
    "0000-01-01",
    "2016-00-01",
    "2016-01-01 10:00:00",
    "2016-01-01T10:00:00Z",
    "2001-12-14t21:59:43.10-05:00",
    "2016-02-31 10:00:00 +1",
    "2016-01-01 24:00:00Z",
    "2016-01-01 23:59:60Z",
    "2016-01-01 10:00:00 +053",
    "2016-01-01 10:00:00 -00:30",
    "2016-01-01 24:00:01",
    "2016-01-01 10:00:00.",
    "2016-1-1 1:00:00.120",
    "-0001-01-01 00:00:00",
    "2016-01-01 1:0:0",
)
SIGNS = (":", ":a", "::a", ":'a'", ':"a b"', ':"a"b', ":99", "=", "<<", "-", "--", "->", "a:b", "a#b", "@a", "`a", "%a")
LETTERS = "0123456789,_.:+-eExbTtZ ~ayn<=\"'"
STRINGS = ("", " ", "a", "a b", " a", "a ", "\n", "a\n", "\ta", "\\", '"', "'", "#", "# a", "a #b", ": ", "a: b", "- a")
ODD_TEXT = "\x07\x1b\x7f\x85\xa0\u2028\u2029\ufeff\ufffe😀éжß漢\u0301\u200b"


def plain_scalar(draw: random.Random) -> str:
    """Return a text that may stand as a plain scalar, likely near a rule."""
    kind = draw.randrange(6)
    if kind == 0:
        return draw.choice(WORDS)
    if kind == 1:
        return draw.choice(NUMBERS + TIMES + SIGNS)
    if kind == 2:
        return _mutated(draw, draw.choice(NUMBERS + TIMES + SIGNS + WORDS))
    if kind == 3:
        return _timestamp(draw)
    if kind == 4:
        return _float(draw)
    return "".join(draw.choice(LETTERS) for _ in range(draw.randint(1, 12)))


def _timestamp(draw: random.Random) -> str:
    number = draw.randint
    text = f"{number(0, 2500):04}-{number(0, 13)}-{number(0, 32)}"
    if draw.random() < 0.3:
        text = f"{number(1, 2500):04}-{number(1, 12):02}-{number(1, 31):02}"
    if draw.random() < 0.3:
        return text
    text += draw.choice("Tt  ") + f"{number(0, 25)}:{number(0, 60):02}:{number(0, 61):02}"
    text += draw.choice(("", "", ".5", ".123456789012", ".", ".500"))
    return text + draw.choice(("", "", "Z", " Z", "+01:00", "-05", " +530", "-9:45", "+1:", " -0030", "+0530"))


def _float(draw: random.Random) -> str:
    digits = "".join(draw.choice("0123456789") for _ in range(draw.randint(0, 25)))
    text = f"{draw.choice(('', '-', '+'))}{draw.randint(0, 99999)}.{digits}"
    return text + draw.choice(("", "", f"e+{draw.randint(0, 320)}", f"e-{draw.randint(0, 330)}", "e5"))


def _mutated(draw: random.Random, text: str) -> str:
    letters = list(text)
    for _ in range(draw.randint(1, 3)):
        place = draw.randint(0, len(letters))
        if letters and draw.random() < 0.4:
            del letters[min(place, len(letters) - 1)]
        else:
            letters.insert(place, draw.choice(LETTERS))
    return "".join(letters)


def text(draw: random.Random) -> str:
    """Return a string of any kind: what the rules would take for something else, control characters, long ones."""
    kind = draw.randrange(6)
    if kind == 0:
        return draw.choice(STRINGS)
    if kind <= 2:
        return plain_scalar(draw)
    if kind == 3:
        return "".join(draw.choice(ODD_TEXT + "ab \n\t\r") for _ in range(draw.randint(1, 10)))
    if kind == 4:
        return draw.choice(("w" * 200, "words " * 40, "line\n" * 20, "/dev/vda", "10.20.0.2", "fa:16:3e:00:00:00"))
    return "".join(chr(_code_point(draw)) for _ in range(draw.randint(1, 8)))


def _code_point(draw: random.Random) -> int:
    while True:
        code = draw.choice((draw.randint(1, 0x7F), draw.randint(1, 0x2FF), draw.randint(1, 0x10FFFF)))
        if not 0xD800 <= code <= 0xDFFF:
            return code


def json_value(draw: random.Random, depth: int = 3) -> Any:
    """Return any JSON value."""
    kind = draw.randrange(9 if depth else 7)
    makers: tuple[Callable[[], Any], ...] = (
        lambda: text(draw),
        lambda: text(draw),
        lambda: plain_scalar(draw),
        lambda: draw.choice((None, True, False)),
        lambda: draw.choice((0, 1, -1, 2**63, -(2**64), draw.randint(-(10**6), 10**6), 10**40)),
        lambda: draw.choice((0.0, -0.0, 1.5, 1e16, 1e-7, 1.7e308, 5e-324, draw.random(), draw.uniform(-1e20, 1e20))),
        lambda: draw.choice(({}, [])),
        lambda: {text(draw): json_value(draw, depth - 1) for _ in range(draw.randint(1, 4))},
        lambda: [json_value(draw, depth - 1) for _ in range(draw.randint(1, 4))],
    )
    return makers[kind]()


def json_document(draw: random.Random) -> dict[str, Any]:
    """Return a JSON object as a data source may hold."""
    return {text(draw): json_value(draw) for _ in range(draw.randint(0, 5))}


class _Draw(random.Random):
    """``oddness``: how likely a key or a value is of a kind that often spoils the document."""

    oddness = 0.1


def document(seed: random.Random) -> str:
    """Return a text near YAML: a document in one of its many styles, often spoiled."""
    draw = _Draw(seed.getrandbits(64))
    draw.oddness = draw.choice((0.02, 0.02, 0.1, 0.4))
    column = draw.choice((0, 0, 0, 0, 2, 1))
    lines = _header(draw)
    for _ in range(draw.randint(1, 5)):
        lines += _pair(draw, column, 3)
    source = "\n".join(lines) + draw.choice(("\n", "\n", "\n", "", "\n\n", "\n...\n", "\n# end", "\n  # end\n"))
    if draw.random() < 0.05:
        source = source.replace("\n", "\r\n")
    for _ in range(draw.choice((0, 0, 0, 0, 1, 2))):
        source = _spoiled(draw, source)
    return source


def _header(draw: _Draw) -> list[str]:
    if draw.random() > draw.oddness * 2:
        return draw.choice(([], [], ["---"], ["# c", "---", ""]))
    return draw.choice(
        (
            ["---"],
            ["--- "],
            ["# c", "---"],
            ["---", "# c", ""],
            ["%YAML 1.1", "---"],
            ["--- # c"],
            ["--- !!map"],
            ["--- &root"],
            ["", "# c"],
            ["\ufeff---"],
            ["---", "---"],
            ["   # c"],
        )
    )


def _key(draw: _Draw) -> str:
    simple = ("a", "b", "c", "node-1", "a.b", "k_1", "x/y", "0", "1", "12", "on", "A", "d", "e", "f")
    odd = (
        '"q"',
        "'s'",
        ":sym",
        "<<",
        '"<<"',
        "=",
        "&k a",
        "*x",
        "!t k",
        "!!str 1",
        "? a",
        "é",
        "a b",
        "~",
        "1.5",
        "[a]",
        "{a: 1}",
    )
    return draw.choice(odd if draw.random() < draw.oddness else simple)


def _scalar(draw: _Draw, column: int) -> str:
    inner = " " * (column + draw.choice((0, 1, 2)))
    odd = (
        '"a"',
        "'b'",
        '"a\\nb"',
        '"\\u263a\\x41"',
        "''",
        '"\\0"',
        "&x 1",
        "&y 'z'",
        "*x",
        "*y",
        "!ruby/sym s",
        "!foo a",
        "!!str 1",
        "!!int '5'",
        "!!float 1",
        "! 12",
        "!!binary aGk=",
        "[a, b]",
        "{a: 1, b: [c]}",
        "[]",
        "{}",
        "[a: 1]",
        f'"a\n{inner}b: 1"',
        f"'a\n\n{inner}b'",
        f"a\n{inner} b",
        f"[a,\n{inner}b: 1]",
        f"{{a: 1,\n{inner}b: 2}}",
        f"|\n{inner} x\n{inner} y",
        f">-\n{inner} x\n\n{inner} y",
        f"|+\n{inner} x\n",
        f"|2\n{inner}   x",
        "|",
        ">",
        "1 # c",
        '"a" # c',
        "a#b",
        "a:b",
        "- a",
        "a: b",
        "@a",
        "%a",
        "",
        "",
        "\ta",
        "a\t",
    )
    tame = (
        "a",
        "b c",
        '"d"',
        "'e'",
        "1",
        "true",
        "1:30",
        ":s",
        "2016-1-1",
        "10,20",
        "0.5",
        "[a, b]",
        "{a: 1}",
        "[]",
        "{}",
    )
    kind = draw.random()
    if kind < draw.oddness:
        return draw.choice((plain_scalar(draw), *odd))
    return draw.choice(odd[:16] + odd[24:] + ("&z 1", "*z") if kind > 0.8 else tame)


def _pair(draw: _Draw, column: int, depth: int) -> list[str]:
    lead = " " * column
    key = _key(draw)
    kind = draw.random()
    between = [] if draw.random() < 0.9 else [draw.choice(("", "# c", lead + "# c", "   # c", "\t"))]
    if depth and kind < 0.3:
        inner = column + draw.choice((1, 2, 2, 2, 4))
        children = [line for _ in range(draw.randint(1, 4)) for line in _pair(draw, inner, depth - 1)]
        anchor = draw.choice(("", "", "", "", " &x", " &y", " !!map", " # c"))
        return [f"{lead}{key}:{anchor}", *between, *children]
    if depth and kind < 0.5:
        inner = column + draw.choice((0, 0, 2))
        items = [line for _ in range(draw.randint(1, 4)) for line in _item(draw, inner, depth - 1)]
        return [f"{lead}{key}:{draw.choice(('', '', '', ' &x'))}", *between, *items]
    return [*between, *f"{lead}{key}: {_scalar(draw, column)}".split("\n")]


def _item(draw: _Draw, column: int, depth: int) -> list[str]:
    lead = " " * column
    if depth and draw.random() < 0.4:
        lines = [line for _ in range(draw.randint(1, 3)) for line in _pair(draw, column + 2, depth - 1)]
        lines[0] = lead + "- " + lines[0][column + 2 :]
        return lines
    return f"{lead}- {_scalar(draw, column)}".split("\n")


def _spoiled(draw: _Draw, source: str) -> str:
    place = draw.randint(0, len(source))
    kind = draw.randrange(4)
    if kind == 0:
        return source[:place] + source[place + draw.randint(1, 3) :]
    if kind == 1:
        lines = source.split("\n")
        line = draw.randrange(len(lines))
        return "\n".join([*lines[:line], draw.choice(lines), *lines[line:]])
    if kind == 2:
        lines = source.split("\n")
        del lines[draw.randrange(len(lines))]
        return "\n".join(lines)
    piece = draw.choice(
        ('"', "'", "[", "{", "}", "]", ":", "\n", "\n\n", "- ", "? ", "#", "|", "&x ", "*x", "\r", "\t", "%")
    )
    return source[:place] + piece + source[place:]
