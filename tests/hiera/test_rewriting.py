"""Only what must change is written, and all of it can be taken back to the byte (U10, U18; Writing safely 2 and 4)."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from configdb_sync.errors import DocumentError
from configdb_sync.hiera.documents import Reader, created
from configdb_sync.hiera.dumper import Style, block
from configdb_sync.hiera.file_text import FileText
from configdb_sync.hiera.rewriting import WHOLE, KeptText, Rewrite, either
from configdb_sync.jsonvalues import same
from tests.hiera.ruby_oracle import outcome
from tests.hiera.yaml_generation import document

FILE = b"""# The settings of node 7
---
a: 1  # one
# about b
b:
    x: [1, 2]   # kept as it is
    list:
      - p
      - q

# about c
c: "text"
# the end
"""


def texts(result: Rewrite) -> dict[str, str]:
    """Return the texts that a rewriting kept."""
    return {key: kept.text for key, kept in result.kept.items()}


def written(
    raw: bytes, changes: Mapping[str, Any], kept: Mapping[str, KeptText] | None = None, **options: Any
) -> Rewrite:
    """Return the file with some keys changed (``...``: taken out); it must hold them and go back to the byte."""
    reader = Reader()
    document = reader.read(raw)
    target = {key: value for key, value in {**document.values, **changes}.items() if value is not ...}
    result = document.rewritten(target, kept, **options)
    again = reader.read(result.raw)
    assert same(dict(again.values), target)
    assert again.rewritten(target, result.kept) == result
    if kept is None:
        assert again.rewritten(document.values, result.kept) == Rewrite(raw, {})
    return result


def test_an_unchanged_target_is_the_file_itself() -> None:
    document = Reader().read(FILE)
    assert document.rewritten(dict(document.values)) == Rewrite(FILE, {})
    backwards = dict(reversed(list(document.values.items())))
    assert document.rewritten(backwards) == Rewrite(FILE, {})


def test_every_other_byte_stays() -> None:
    result = written(FILE, {"a": {"new": [1, {"deep": "x"}]}})
    block = b'a:\n    new:\n      - 1\n      - deep: "x"\n'
    assert (result.raw, texts(result)) == (FILE.replace(b"a: 1  # one\n", block), {"a": "a: 1  # one"})
    result = written(FILE, {"c": None})
    assert (result.raw, texts(result)) == (FILE.replace(b'c: "text"', b"c: null"), {"c": 'c: "text"'})


def test_comments_between_keys_stay_and_those_within_come_back() -> None:
    result = written(FILE, {"b": {"x": [3]}})
    assert b"# about b\nb:\n    x:\n      - 3\n\n# about c\n" in result.raw
    assert texts(result) == {"b": "b:\n    x: [1, 2]   # kept as it is\n    list:\n      - p\n      - q"}


def test_new_keys_go_to_the_end_and_away_again() -> None:
    result = written(FILE, {"new": 1, "other": {"x": 2}})
    assert (result.raw, texts(result)) == (FILE + b"new: 1\nother:\n    x: 2\n", {"new": "", "other": ""})
    less = Reader().read(result.raw).rewritten({**Reader().read(FILE).values, "other": {"x": 2}}, result.kept)
    assert (less.raw, texts(less)) == (FILE + b"other:\n    x: 2\n", {"other": ""})


@pytest.mark.parametrize(
    "raw",
    [
        b"a: 1",
        b"a: 1\nb: 2",
        b"a: 1\r\nb: 2",
        b"a: 1\nb: 2\n# no end",
        b"\xef\xbb\xbfa: 1\n",
        b"--- \n  a: 1\n  b: x",
        b"",
        b"# c",
        b"a: 1\n...\n",
        b"a: 1\n# x\n...\n# y\n",
        b"---\n",
        b"---",
        b"a: |\n  x\n",
        b"a: |+\n  x\n\n\nb: 1",
        b"a: |\n  x",
        b"a: 'x\n  y'",
    ],
)
def test_goes_back_to_the_byte_from_any_end_of_a_file(raw: bytes) -> None:
    written(raw, {"n": 1})
    written(raw, {"n": 1, "m": {"x": [1]}})
    written(raw, {"a": {"x": 1}})
    written(raw, {"a": {"x": 1}, "n": 1})
    one = written(raw, {"a": [1], "n": 1})
    values = Reader().read(raw).values
    two = Reader().read(one.raw).rewritten({**values, "n": 1}, one.kept)
    assert same(dict(Reader().read(two.raw).values), {**values, "n": 1})
    assert Reader().read(two.raw).rewritten(values, two.kept) == Rewrite(raw, {})


@pytest.mark.parametrize("end", [b"", b"  ", b"\n", b"\n\n    \n", b"\n\n    "])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_what_follows_a_block_scalar_does_not_change_where_its_key_ends(end: bytes, newline: bytes) -> None:
    """A write may be lost, and the node may add keys: a kept text must fit whatever blank lines there are by then."""
    raw = (b"a: |+\n  x\n" + end).replace(b"\n", newline)
    reader = Reader()
    one = written(raw, {"a": ["p"]})
    more = newline + b"fresh: 1" + newline
    target = {**reader.read(raw + more).values, "a": ["p"]}
    lost = reader.read(one.raw + more).rewritten({**target, "fresh": 2}, one.kept)
    back = reader.read(one.raw + more).rewritten(reader.read(raw + more).values, either(one.kept, lost.kept))
    assert back == Rewrite(raw + more, {})


def test_a_line_end_that_the_file_lacks_at_its_end_stays_lacking() -> None:
    assert written(b"a: 1\nb: 2", {"b": 3}).raw == b"a: 1\nb: 3"
    assert written(b"a: 1", {"b": 3}).raw == b"a: 1\nb: 3"
    assert written(b"a: 1\r\nb: 2", {"c": [1]}).raw == b"a: 1\r\nb: 2\r\nc:\r\n- 1"


def test_indentation_is_the_file_s_own() -> None:
    raw = b"--- \n  a: \n    b: 1\n  c: \n    - x\n"
    assert written(raw, {"a": {"b": [2]}}).raw == b"--- \n  a:\n    b:\n      - 2\n  c: \n    - x\n"


def test_users_of_an_anchor_in_a_changed_key_are_written_out_and_come_back() -> None:
    raw = b"a: &x\n  k: 1\nb:\n  <<: *x\n  l: 2\nc: &y [*x]\nd: *y\ne: &x 5\nf: *x\n"
    result = written(raw, {"a": 7})
    assert result.raw == (b"a: 7\nb:\n  k: 1\n  l: 2\nc:\n- k: 1\nd:\n- k: 1\ne: &x 5\nf: *x\n")
    assert texts(result) == {"a": "a: &x\n  k: 1", "b": "b:\n  <<: *x\n  l: 2", "c": "c: &y [*x]", "d": "d: *y"}
    assert written(raw, {"e": 6}).kept.keys() == {"e", "f"}
    assert written(raw, {"f": 6}).raw == raw.replace(b"f: *x", b"f: 6")


@pytest.mark.parametrize(
    "raw",
    [
        b"{a: 1, b: 2}\n",
        b"? a\n: 1\nb: 2\n",
        b"a: 1\nb: 2\na: 3\n",
        b"--- {}\n",
        b"b: &b {a: 1}\n<<: *b\n",
        b"a: 1\rb: 2\r",
        b"a: 1\nb: \xe2\x80\xa8\nc: d\xc2\x85e: f\n",
        b"a: 1 \x85\n".decode("latin-1").encode(),
    ],
)
def test_a_file_whose_keys_cannot_be_told_apart_is_kept_whole(raw: bytes) -> None:
    result = written(raw, {"a": [1]})
    assert texts(result) in ({"": raw.decode()}, {"a": ""})
    again = Reader().read(result.raw)
    two = again.rewritten({**again.values, "c": 2}, result.kept)
    assert texts(two) == {**texts(result), **({} if "" in result.kept else {"c": ""})}
    assert Reader().read(two.raw).rewritten(Reader().read(raw).values, two.kept) == Rewrite(raw, {})


def test_a_key_that_is_taken_out_keeps_its_place_by_the_whole_text() -> None:
    result = written(FILE, {"b": ..., "c": "x"})
    assert result.raw == b'# The settings of node 7\n---\na: 1  # one\n# about b\n\n# about c\nc: "x"\n# the end\n'
    assert texts(result) == {"": FILE.decode()}
    emptied = written(b"a: 1\n", {"a": ...})
    assert (emptied.raw, texts(emptied)) == (b"--- {}\n", {"": "a: 1\n"})


def test_an_empty_key_is_never_taken_for_the_whole_file() -> None:
    result = written(b'"": 1\na: 2\n', {"": 3})
    assert texts(result) == {"": '"": 1\na: 2\n'}
    assert texts(written(b"a: 2\n", {"": 3})) == {"": "a: 2\n"}
    assert texts(written(b'"": 1\na: 2\n', {"a": 3})) == {"a": "a: 2"}


def test_a_second_override_keeps_the_node_s_own_text() -> None:
    one = written(FILE, {"a": 2})
    two = Reader().read(one.raw).rewritten({**Reader().read(one.raw).values, "a": 3, "c": 1}, one.kept)
    assert texts(two) == {"a": "a: 1  # one", "c": 'c: "text"'}
    assert two.raw == FILE.replace(b"a: 1  # one", b"a: 3").replace(b'c: "text"', b"c: 1")
    target = {**Reader().read(two.raw).values, "a": 1}
    three = Reader().read(two.raw).rewritten(target, two.kept)
    assert (three.raw, texts(three)) == (FILE.replace(b'c: "text"', b"c: 1"), {"c": 'c: "text"'})


def test_what_the_node_wrote_anew_is_its_own_to_the_byte() -> None:
    one = written(FILE, {"a": 2, "c": 3, "new": 4})
    anew = one.raw.replace(b"a: 2", b"a: {z: 5} # anew").replace(b"new: 4", b"new: 4 # mine")
    document = Reader().read(anew)
    own = {**document.values, "c": "text"}
    two = document.rewritten({**own, "a": 6, "c": 4}, one.kept)
    assert texts(two) == {"a": "a: {z: 5} # anew", "c": 'c: "text"'}
    three = Reader().read(two.raw).rewritten(own, two.kept)
    assert three == Rewrite(anew.replace(b"c: 3", b'c: "text"'), {})


def test_a_file_that_the_node_wrote_anew_is_its_own_to_the_byte() -> None:
    for first in (b"{a: 1, b: 2}\n", FILE):
        one = written(first, {"a": ...} if first is FILE else {"a": 3})
        assert texts(one) == {"": first.decode()}
        for anew in (b"a: 1 # anew\nb: 2\n", b"{a: 1, b: 2, c: 3}\n", one.raw + b"# anew\n"):
            document = Reader().read(anew)
            two = document.rewritten({**document.values, "b": 5}, one.kept)
            assert Reader().read(two.raw).rewritten(document.values, two.kept) == Rewrite(anew, {})


def test_kept_texts_of_before_and_after_a_write_fit_either() -> None:
    """A record of an unconfirmed write holds the kept texts of both states; the file may be in either."""
    values = Reader().read(FILE).values
    changes: list[dict[str, Any]] = [{}, {"a": 2}, {"c": 4}, {"b": ...}, {"a": 2, "new": 1}]
    for one in changes:
        first = written(FILE, one)
        for two in changes:
            target = {key: value for key, value in {**values, **two}.items() if value is not ...}
            second = Reader().read(first.raw).rewritten(target, first.kept)
            for raw in (first.raw, second.raw):
                back = Reader().read(raw).rewritten(values, either(first.kept, second.kept))
                assert back == Rewrite(FILE, {}), (one, two)


@pytest.mark.parametrize(
    "kept", [{"a": "]["}, {"a": "zzz: 1"}, {"": "]["}, {"": "- 1"}, {"q": "q: 1"}, {"a": "\ud800"}, {"a": "a: *gone"}]
)
def test_kept_texts_that_do_not_fit_cost_no_value(kept: dict[str, str]) -> None:
    document = Reader().read(FILE)
    target = {**document.values, "b": 1}
    shown = tuple(hashlib.sha256(text).hexdigest() for text in (FILE, b"a: 1  # one"))
    result = document.rewritten(target, {key: KeptText(text, shown) for key, text in kept.items()})
    assert same(dict(Reader().read(result.raw).values), target)


def test_types_come_from_the_node_s_own_text_while_an_override_hides_it() -> None:
    raw = b"s: :sym\nt: 2016-01-01\nm:\n  1: :a\n:k: 1\n"
    one = written(raw, {"s": "plain", "m": {"1": "x"}, ":k": 2})
    assert one.raw == b's: "plain"\nt: 2016-01-01\nm:\n  1: "x"\n:k: 2\n'
    reader = Reader()
    two = reader.read(one.raw).rewritten({"s": ":other", "t": "x", "m": {"1": ":b", "2": ":c"}, ":k": 3}, one.kept)
    assert two.raw == b's: :other\nt: "x"\nm:\n  1: :b\n  2: ":c"\n:k: 3\n'


def test_types_come_from_marks_where_the_node_has_no_such_key() -> None:
    marks = Reader().read(b"s:\n- :a\n:k: 2016-01-01\n").type_marks()
    result = written(b"a: 1\n", {"s": [":x", ":y"], ":k": "2017-01-01"}, marks=marks)
    assert result.raw == b"a: 1\ns:\n- :x\n- :y\n:k: 2017-01-01\n"
    assert created({"s": [":x", "z"], ":k": "none"}, marks) == b'---\ns:\n- :x\n- "z"\n:k: "none"\n'


def test_order_within_a_written_key_is_the_target_s() -> None:
    assert written(b"a: {x: 1, y: 2}\n", {"a": {"y": 2, "b": 0, "x": 3}}).raw == b"a:\n  y: 2\n  b: 0\n  x: 3\n"


def test_created_files_hold_at_least_an_empty_mapping() -> None:
    assert created({}) == b"--- {}\n"
    assert created({"a": {}, "b": [[], [[1]], {"x": [2]}]}) == b"---\na: {}\nb:\n- []\n- - - 1\n- x:\n  - 2\n"


def test_very_long_keys_are_written_so_that_they_are_read() -> None:
    values = {"k" * 2000: {"é" * 1200: [{"x" * 1030: "y"}]}, "a": 1}
    assert Reader().read(created(values)).values == values
    assert Reader().read(created({"a": 1})).rewritten(values).kept[""].text == "---\na: 1\n"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("a\0", "NUL"),
        ("\ud83d", "surrogate"),
        (float("nan"), "number"),
        (float("inf"), "number"),
        pytest.param(10**4300, "digits", id="long integer"),
        ({1: 2}, "key"),
        ({"\udc00": 1}, "surrogate"),
        ((1,), "kind"),
        (b"x", "kind"),
    ],
)
def test_what_cannot_be_carried_is_refused_before_anything_is_written(value: Any, reason: str) -> None:
    with pytest.raises(DocumentError, match=reason):
        Reader().read(FILE).rewritten({"a": [value]})
    with pytest.raises(DocumentError, match=reason):
        created({"a": {"b": value}})


def test_depth_is_bounded_as_in_reading() -> None:
    deep: Any = 1
    for _ in range(199):
        deep = [deep]
    assert Reader().read(created({"a": deep})).values == {"a": deep}
    with pytest.raises(DocumentError, match="200 levels"):
        created({"a": [deep]})


def _life_of_a_file(seed: int, steps: int) -> None:
    """Overrides come and go, the node writes anew, writes get lost: at last the file is the node's own to the byte."""
    draw = random.Random(seed)
    reader = Reader()
    own = raw = _readable(draw, reader)
    overrides: dict[str, Any] = {}
    kept: dict[str, KeptText] = {}
    for _ in range(steps):
        action = draw.random()
        if action < 0.5:
            key = draw.choice([*reader.read(own).values, "new", "other", "a"])
            overrides[key] = draw.choice((1, "x", {"y": [1]}, None, ["p"]))
        elif action < 0.8 and overrides:
            del overrides[draw.choice(list(overrides))]
        elif action < 0.87:
            own = raw = _readable(draw, reader, kept)
        else:
            own, raw = _edited(draw, reader, own, raw, kept)
        target = {**reader.read(own).values, **overrides}
        result = reader.read(raw).rewritten(target, kept)
        assert same(dict(reader.read(result.raw).values), target), (seed, own)
        lost = draw.random() < 0.1
        kept = either(kept, result.kept) if lost or draw.random() < 0.1 else dict(result.kept)
        raw = raw if lost else result.raw
    back = reader.read(raw).rewritten(reader.read(own).values, kept)
    assert back.raw == own, (seed, own)


def _readable(draw: random.Random, reader: Reader, kept: Mapping[str, KeptText] | None = None) -> bytes:
    """Return a file, none in which a key with a kept text stands just as we would write it: that is taken for ours."""
    while True:
        raw = document(draw).encode()
        found = outcome(reader, raw)
        if isinstance(found, DocumentError):
            continue
        layout = reader.file_text(raw)
        places = {place.key: place.text for place in layout.places} if layout is not None else {}
        if not any(one.covered_by(places[key]) for key, one in (kept or {}).items() if key in places):
            return raw


def _edited(
    draw: random.Random, reader: Reader, own: bytes, raw: bytes, kept: Mapping[str, KeptText]
) -> tuple[bytes, bytes]:
    """Return the node's own file and the present one after the node edited both around what we replaced."""
    before = reader.file_text(own), reader.file_text(raw)
    if WHOLE in kept or None in before:
        return own, raw
    action = draw.choice((_restyled, _commented, _reordered, _appended))
    seed = draw.random()
    after = [action(random.Random(seed), layout, kept) for layout in before if layout is not None]
    texts = [layout.text().encode() for layout in after if layout is not None]
    if len(texts) < 2:
        return own, raw
    read = [found.values for text in texts if not isinstance(found := outcome(reader, text), DocumentError)]
    changed = {key: value for key, value in reader.read(raw).values.items() if key in kept}
    fits = len(read) > 1 and same(dict(read[1]), {**read[0], **changed})
    return (texts[0], texts[1]) if fits else (own, raw)


def _untouched(layout: FileText, kept: Mapping[str, KeptText]) -> list[int]:
    """Return the places that are the node's own, single, and tied to no other by an anchor."""
    return [
        index
        for index, place in enumerate(layout.places)
        if place.key not in kept and place.key and len(layout.indexes(place.key)) == 1
        if "&" not in place.text and "*" not in place.text
    ]


def _restyled(draw: random.Random, layout: FileText, kept: Mapping[str, KeptText]) -> FileText | None:
    indexes = _untouched(layout, kept)
    if not indexes:
        return None
    index = draw.choice(indexes)
    style = Style(draw.choice((1, 2, 3, 4)), draw.choice((0, 2)), layout.style.newline)
    text = block(str(layout.places[index].key), {"s": draw.randint(0, 9), "l": [1]}, style, layout.column)
    return layout.exchanged({index: text})


def _commented(draw: random.Random, layout: FileText, kept: Mapping[str, KeptText]) -> FileText | None:
    indexes = _untouched(layout, kept)
    if not indexes:
        return None
    index = draw.choice(indexes)
    places = list(layout.places)
    places[index] = replace(places[index], gap=f"{layout.style.newline}# by the node{places[index].gap}")
    return replace(layout, places=tuple(places))


def _reordered(draw: random.Random, layout: FileText, kept: Mapping[str, KeptText]) -> FileText | None:
    indexes = _untouched(layout, kept)
    if len(indexes) < 2:
        return None
    one, two = draw.sample(indexes, 2)
    places = list(layout.places)
    places[one], places[two] = (
        replace(places[one], text=places[two].text, key=places[two].key),
        replace(places[two], text=places[one].text, key=places[one].key),
    )
    return replace(layout, places=tuple(places))


def _appended(draw: random.Random, layout: FileText, _kept: Mapping[str, KeptText]) -> FileText | None:
    key = draw.choice(("fresh", "fresher"))
    if layout.indexes(key) or layout.tail:
        return None
    style = Style(draw.choice((2, 3)), 0, layout.style.newline)
    return layout.appended(key, block(key, {"s": draw.randint(0, 9)}, style, layout.column))


@pytest.mark.parametrize("seed", [*range(150), 3640])
def test_at_the_end_of_its_life_a_file_is_the_node_s_own(seed: int) -> None:
    _life_of_a_file(seed, 12)


@pytest.mark.long
@pytest.mark.parametrize("start", range(1000, 41_000, 2000))
def test_at_the_end_of_very_many_lives_a_file_is_the_node_s_own(start: int) -> None:
    for seed in range(start, start + 2000):
        _life_of_a_file(seed, 12)
