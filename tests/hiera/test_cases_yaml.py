"""Every class of fault that people met with YAML between Ruby and Python (cases Y), each as Ruby has it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from configdb_sync.errors import DocumentError
from configdb_sync.hiera.documents import Reader, created
from configdb_sync.hiera.errors import UnreadableDocumentError
from configdb_sync.jsonvalues import dumps, same
from tests.hiera.ruby_oracle import RubyOracle, told


def read(text: str) -> dict[str, Any]:
    return dict(Reader().read(text.encode()).values)


def refused(text: str | bytes) -> UnreadableDocumentError:
    with pytest.raises(UnreadableDocumentError) as caught:
        Reader().read(text.encode() if isinstance(text, str) else text)
    return caught.value


def as_ruby(ruby: RubyOracle, values: dict[str, Any]) -> bool:
    return bool(ruby.read_one(created(values)) == told(values))


def test_y01_a_mac_address_of_digits_is_a_string_both_ways(ruby: RubyOracle) -> None:
    found = read("mac: 52:54:00:12:34:56\n")
    assert found == {"mac": "52:54:00:12:34:56"}
    assert as_ruby(ruby, found)


def test_y02_base_60_is_what_psych_gives() -> None:
    text = "a: 1:30\nb: 49100:22\nc: 1:30.5\nd: 10:10:10:10:10:10:10:10\n"
    assert same(read(text), {"a": 5400, "b": 176761320, "c": 5430.0, "d": "10:10:10:10:10:10:10:10"})


def test_y03_commas_go_from_digits_and_such_a_string_is_quoted(ruby: RubyOracle) -> None:
    assert same(read("ports: 6800,8080\n"), {"ports": 68008080})
    assert created({"a": "1,000"}) == b'---\na: "1,000"\n'
    assert as_ruby(ruby, {"a": "1,000"})


def test_y04_symbols_stay_symbols_and_strings_with_a_colon_strings(ruby: RubyOracle) -> None:
    raw = b":merge_behavior: :deeper\n:hierarchy:\n  - :a\nplain: x\n"
    document = Reader().read(raw)
    assert document.values == {":merge_behavior": ":deeper", ":hierarchy": [":a"], "plain": "x"}
    assert document.type_marks() == {
        ":merge_behavior": {"key": "symbol", "value": "symbol"},
        ":hierarchy": {"key": "symbol", "value": {"each": "symbol"}},
    }
    target = {**document.values, ":merge_behavior": ":native", ":hierarchy": [":a", ":b c"], "plain": ":99"}
    answer = ruby.read_one(document.rewritten(target).raw)
    assert answer["h"] == [
        [{"y": "merge_behavior"}, {"y": "native"}],
        [{"y": "hierarchy"}, {"a": [{"y": "a"}, {"y": "b c"}]}],
        [{"s": "plain"}, {"s": ":99"}],
    ]


def test_y05_a_symbol_s_tag_is_read_and_every_other_refused_by_name_and_line() -> None:
    document = Reader().read(b"a: !ruby/sym b\nb: !ruby/symbol 'c d'\n")
    assert document.values == {"a": ":b", "b": ":c d"}
    for tag, value in (
        ("!ruby/object:OpenStruct", "{x: 1}"),
        ("!ruby/hash:Mash", "{x: 1}"),
        ("!foo", "bar"),
        ("tag:yaml.org,2002:binary", "aGVsbG8="),
        ("tag:yaml.org,2002:set", "{a, b}"),
        ("tag:yaml.org,2002:omap", "[a: 1]"),
        ("tag:yaml.org,2002:python/tuple", "[1]"),
    ):
        error = refused(f"a: 1\nc: 2\nd: !<{tag}> {value}\n")
        assert (error.line, tag in error.what, "key d" in error.what) == (3, True, True)


def test_y05_core_tags_mean_what_psych_makes_of_them(ruby: RubyOracle) -> None:
    text = (
        b"a: !!str 1\nb: !!int '5'\nc: !!float 1\nd: ! \"12\"\ne: !!bool 'yes'\nf: !!null x\ng: !!map {a: !!seq [1]}\n"
    )
    document = Reader().read(text)
    expected = {"a": "1", "b": 5, "c": 1.0, "d": 12, "e": True, "f": "x", "g": {"a": [1]}}
    assert same(dict(document.values), expected)
    assert ruby.read_one(text) == told(expected)


def test_y06_a_bare_equals_sign_is_a_string(ruby: RubyOracle) -> None:
    assert read("op: =\n=: 1\n") == {"op": "=", "=": 1}
    assert as_ruby(ruby, {"op": "=", "=": 1})


def test_y07_types_follow_psych_and_unchanged_text_stays() -> None:
    raw = b"mode: 0644\nid: 0899\nstrategy: off\nn: y\nk: 1\n"
    document = Reader().read(raw)
    assert same(dict(document.values), {"mode": 420, "id": "0899", "strategy": False, "n": "y", "k": 1})
    assert document.rewritten({**document.values, "k": 2}).raw == raw.replace(b"k: 1", b"k: 2")


def test_y09_a_repeated_key_is_reported_with_both_lines(ruby: RubyOracle) -> None:
    text = "a: 1\n" + "".join(f"k{number}: x\n" for number in range(299)) + "a: 2\n"
    document = Reader().read(text.encode())
    assert document.values["a"] == 2
    assert document.warnings == ("key a stands twice, in lines 1 and 301; the last one counts",)
    assert ruby.read_one(text.encode()) == told(dict(document.values))
    assert next(iter(document.values)) == "a"


def test_y09_repeats_below_are_reported_too_and_merge_keys_are_none() -> None:
    text = "b: &b {x: 1}\nc:\n  d: 1\n  e:\n    - f: 1\n      f: 2\n  d: 3\ng:\n  <<: *b\n  x: 2\n"
    assert Reader().read(text.encode()).warnings == (
        "key c.e.0.f stands twice, in lines 5 and 6; the last one counts",
        "key c.d stands twice, in lines 3 and 7; the last one counts",
    )


def test_y12_strings_come_back_as_the_same_strings(ruby: RubyOracle) -> None:
    odd = ["0,", ":1", "2016-3-1", "1:2:3.5", "😀", "a\x85b", "\u2028", "trailing ", "w" * 200, "word " * 200, "\n", ""]
    assert as_ruby(ruby, {"list": odd, **{text: text for text in odd}})


def test_y14_keys_that_json_has_one_of_are_refused() -> None:
    error = refused('a: 1\nvlans: {1: a, "1": b}\n')
    assert (error.line, "line 2" in error.what, "1" in error.what) == (2, True, True)
    error = refused('a: 1\nvlans:\n  1: a\n\n  "1": b\n')
    assert (error.line, "stands in line 3" in error.what) == (5, True)
    assert refused("1: a\n'1': b\n").line == 2
    assert refused(":a: 1\n':a': 2\n").line == 2


@pytest.mark.parametrize("key", ["true", "~", "1.5", "? [1, 2]\n ", "? {a: 1}\n ", "on"])
def test_y14_keys_that_json_cannot_carry_are_refused(key: str) -> None:
    error = refused(f"a: 1\nb:\n  c: 2\n  {key}: x\n")
    assert (error.line, "key b" in error.what) == (4, True)


def test_y14_integer_keys_get_their_type_back(ruby: RubyOracle) -> None:
    raw = b"vlans: {1: a, 2: {x: 1}}\nmixed: {1: a, b: c}\n5: top\n"
    document = Reader().read(raw)
    assert document.values == {"vlans": {"1": "a", "2": {"x": 1}}, "mixed": {"1": "a", "b": "c"}, "5": "top"}
    target = {"vlans": {"3": "new", "1": "b", "07": "s"}, "mixed": {"1": 0, "7": 1}, "5": "other"}
    assert ruby.read_one(document.rewritten(target).raw)["h"] == [
        [{"s": "vlans"}, {"h": [[{"i": "3"}, {"s": "new"}], [{"i": "1"}, {"s": "b"}], [{"s": "07"}, {"s": "s"}]]}],
        [{"s": "mixed"}, {"h": [[{"i": "1"}, {"i": "0"}], [{"s": "7"}, {"i": "1"}]]}],
        [{"i": "5"}, {"s": "other"}],
    ]


@pytest.mark.parametrize(
    "text", ["", "# x", "# x\n", "\n\n", "---", "--- ", "---\n# x\n", "---\n...\n", "\ufeff", "\ufeff# x\n"]
)
def test_y17_a_file_without_data_reads_as_no_keys_and_keeps_its_comments(text: str) -> None:
    document = Reader().read(text.encode())
    assert (document.values, document.json_bytes(), document.warnings) == ({}, b"{}", ())
    result = document.rewritten({"b": 1})
    assert read(result.raw.decode().removeprefix("\ufeff")) == {"b": 1}
    assert ("# x" in text) == ("# x" in result.raw.decode())
    assert Reader().read(result.raw).rewritten({}, result.kept).raw == text.encode()


def test_y17_several_documents_are_refused() -> None:
    error = refused("a: 1\n---\nb: 2\n")
    assert (error.line, "second document" in error.what) == (2, True)


@pytest.mark.parametrize(
    ("text", "kind"), [("- a\n", "a list"), ("a\n", "a single value"), ("--- ~\n", "a single value"), ("12", "single")]
)
def test_u19_a_document_that_is_no_mapping_is_refused(text: str, kind: str) -> None:
    assert kind in refused("# c\n" + text).what
    assert refused("# c\n" + text).line == 2


@pytest.mark.parametrize("path", ["../astute.yaml", "fuel/cluster/16/astute.yaml", "/etc/astute.yaml", "astute.yaml"])
def test_a_flattened_link_is_hinted_at(path: str) -> None:
    assert "symbolic link" in str(refused(path))
    assert "symbolic link" not in str(refused("a b"))
    assert "symbolic link" not in str(refused(path + "\n"))


def test_y18_numbers_that_json_lacks_are_refused_with_the_key() -> None:
    error = refused("a:\n  b:\n    - 1\n    - ratio: .nan\n")
    assert (error.line, "key a.b.1.ratio" in error.what) == (4, True)
    assert refused("a: -.inf\n").line == 1


def test_y19_tabs_line_ends_and_encodings(ruby: RubyOracle) -> None:
    assert read("a:\t1\n") == {"a": 1}
    crlf = b"a: 1\r\nb:\r\n  c: x\r\n"
    document = Reader().read(crlf)
    assert document.values == {"a": 1, "b": {"c": "x"}}
    assert document.rewritten(document.values).raw == crlf
    assert document.rewritten({**document.values, "a": {"x": 1}}).raw == b"a:\r\n  x: 1\r\nb:\r\n  c: x\r\n"
    assert read("a: 1\rb: 2\r") == {"a": 1, "b": 2}
    error = refused("a: 1\nb: ü\n".encode("latin-1"))
    assert (error.line, "offset 8" in error.what) == (2, True)
    assert "error" in ruby.read(["b: ü\n".encode("latin-1")])[0]
    assert refused("a: 1\n".encode("utf-16")).line == 1


def test_y20_no_error_holds_a_value() -> None:
    secret = "CANARY-7f3"
    for text in (
        f"password: !foo {secret}\n",
        f"password: [{secret}\n",
        f'password: "{secret}\\q"\n',
        f"password: '{secret}\n",
        f"{secret}\n",
        f"password: {secret}\n b: {secret}\n",
        f"a: &x {secret}\nb: *{secret}\n",
        f'a: "{secret}\\0"\n',
        f"a: {secret}\n---\n{secret}\n",
        f"a: |\n   {secret}\n  {secret}\n",
        f"a: {secret}: b\n",
    ):
        error = refused(text)
        assert secret not in f"{error!s} {error!r} {error.__cause__} {error.__context__}", text


def test_t06_nul_is_refused() -> None:
    error = refused('a: 1\nb:\n  - "x\\0y"\n')
    assert (error.line, "NUL" in error.what, "key b.0" in error.what) == (3, True, True)
    assert refused("a: x\0y\n").line == 1
    assert refused('"a\\0": 1\n').line == 1
    with pytest.raises(DocumentError, match="NUL"):
        created({"a": ["x\0"]})


def test_dates_and_times_travel_as_iso_text_and_come_back(ruby: RubyOracle) -> None:
    raw = b"d: 2016-1-1\nt: 2016-01-01 10:00:00 +2\nl: [2016-01-01T10:00:00Z]\n2016-02-03: x\n"
    document = Reader().read(raw)
    assert document.values == {
        "d": "2016-01-01",
        "t": "2016-01-01T10:00:00+02:00",
        "l": ["2016-01-01T10:00:00Z"],
        "2016-02-03": "x",
    }
    target = {
        "d": "2017-01-01",
        "t": "2016-01-01",
        "l": ["2017-01-01T10:00:00.5Z", "2017-1-1T1:00:00Z"],
        "2016-02-03": 1,
    }
    assert ruby.read_one(document.rewritten(target).raw)["h"] == [
        [{"s": "d"}, {"d": "2017-01-01"}],
        [{"s": "t"}, {"s": "2016-01-01"}],
        [{"s": "l"}, {"a": [{"t": ["2966529601/2", 0, True]}, {"s": "2017-1-1T1:00:00Z"}]}],
        [{"d": "2016-02-03"}, {"i": "1"}],
    ]


def test_merge_keys_in_ruby_s_order(ruby: RubyOracle) -> None:
    text = (
        "b: &b {x: 1, y: 2}\nc: &c {x: 3, z: 4}\na: {x: 9, <<: *b}\nd: {<<: *b, x: 9}\ne: {<<: [*b, *c], w: 0}\n"
        "f: {<<: 5}\ng: {'<<': {q: 1}}\nh: {!!str <<: {q: 1}}\ni: [<<]\nj: <<\nk: {<<: [1]}\nl: &l [*b]\nm: {<<: *l}\n"
    )
    found = read(text)
    assert ruby.read_one(text.encode()) == told(found)
    assert found["a"] == {"x": 1, "y": 2}
    assert list(found["e"].items()) == [("x", 1), ("z", 4), ("y", 2), ("w", 0)]
    assert as_ruby(ruby, found)


def test_large_integers_are_carried_as_far_as_python_writes_them(ruby: RubyOracle) -> None:
    big = int("9" * 4300)
    assert read(f"a: {big}\n") == {"a": big}
    assert as_ruby(ruby, {"a": big, "b": -big})
    assert refused("a: " + "9" * 4301).line == 1
    with pytest.raises(DocumentError, match="digits"):
        created({"a": 10**4300})


def test_json_form_is_the_values_in_file_order() -> None:
    document = Reader().read(b"b: 1\na: {z: [1.0, ~], y: \xc3\xa9}\n")
    assert document.json_bytes() == b'{"b":1,"a":{"z":[1.0,null],"y":"\\u00e9"}}' == dumps(document.values).encode()
    assert json.loads(document.json_bytes()) == document.values
