"""U15, U19: JSON gets its types back in Ruby as in the product, from the node's own file."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from configdb_sync.errors import DocumentError
from configdb_sync.hiera.documents import Reader
from configdb_sync.hiera.marks import typed
from tests.hiera import ruby_oracle
from tests.hiera.yaml_generation import document
from tests.hiera_backend.backend import Driver, told

ODD = """\
:symbol: 1
7: seven
date: 2016-01-31
time: 2016-01-31 10:00:00.5 +02:00
utc: 2016-01-31T10:00:00Z
here: 2016-01-31 10:00:00
names:
- :a
- :b
mixed:
- :a
- plain
- 1: :x
deep:
  a:
    :k: [2016-01-01]
text: ':not a symbol'
old: 1500-02-29
"""


def test_every_type_comes_back(ruby: Driver) -> None:
    found = Reader().read(ODD.encode())
    answer = ruby.ok("form", yaml=ODD, json=json.dumps(found.values))
    assert answer["typed"] == answer["file"]


def test_generated_files_come_back_type_for_type(ruby: Driver) -> None:
    reader = Reader()
    compared = special = 0
    for seed in range(1200):
        text = document(random.Random(seed))
        try:
            found = reader.read(text.encode())
        except DocumentError:
            continue
        if not found.values:
            continue
        answer = ruby("form", yaml=text, json=json.dumps(found.values))
        if "error" in answer:
            # What YAML has beyond data, such as a tag of Ruby's: the values stay as JSON has them.
            continue
        answer = answer["ok"]
        compared += 1
        special += bool(found.type_marks())
        assert _sorted(answer["typed"]) == _sorted(answer["file"]), text
    assert compared > 200
    assert special > 20


def _sorted(value: Any) -> Any:
    """Without the order of keys: Ruby keeps the place of a key's first, the product that of its last mention."""
    if isinstance(value, dict):
        pairs = {name: [_sorted(item) for item in items] for name, items in value.items() if isinstance(items, list)}
        if "h" in pairs:
            pairs["h"] = sorted(pairs["h"], key=json.dumps)
        return {**value, **pairs}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


TEXTS = [
    *(":x", ":", "x", "", "07", "7", "-0", "0", "-7", "+7", "1_0", "2016-01-31", "2016-1-31", "2016-02-30"),
    *("2016-02-29", "1900-02-29", "1582-10-10", "2016-01-31T10:00:00", "2016-01-31T10:00:00Z"),
    *("2016-01-31T10:00:00.50Z", "2016-01-31T10:00:00.5+02:00", "2016-02-30T10:00:00", "2016-01-31T24:00:00"),
    *("2016-01-31T10:00:60", "2016-01-31 10:00:00", "2016-01-31T10:00:00+24:00", "2016-01-31T10:00:00+2:00"),
    *("0000-01-01T00:00:00", "2016-01-31\n", "2016-01-31T10:00:00Z\nx: y", ":a\nb", "!ruby/object:Object {}"),
]


@pytest.mark.parametrize("kind", ["symbol", "integer", "date", "time", "other"])
def test_a_text_gets_its_type_where_the_product_gives_it(ruby: Driver, kind: str) -> None:
    for text in TEXTS:
        ours = ruby.ok("typed", json=json.dumps({text: 1}), marks={"keys": kind})
        assert ours == told(typed({text: 1}, {"keys": kind})), text
        ours = ruby.ok("typed", json=json.dumps([text]), marks={"each": kind})
        if kind != "integer":  # a kind of keys alone
            assert ours == told(typed([text], {"each": kind})), text


@pytest.mark.parametrize(
    "marks",
    [5, [], {"keys": 5}, {"values": []}, {"values": {"a": 7}}, {"items": 5}, {"each": 5}, {"each": {"each": "symbol"}}],
)
def test_marks_that_do_not_fit_are_passed_over(ruby: Driver, marks: Any) -> None:
    for value in ({"a": ":x"}, [":x", [":y"]], ":x", None, 5):
        assert ruby.ok("typed", json=json.dumps(value), marks=marks) == told(typed(value, marks))


def test_the_drivers_words_are_the_oracles() -> None:
    assert told({"a": [1, 1.0, None, "x"]}) == ruby_oracle.told({"a": [1, 1.0, None, "x"]})


def test_names_are_the_products(ruby: Driver) -> None:
    """U7: the same files for the same data sources as ``layouts`` has them, whatever the node is called."""
    from configdb_sync.hiera.data_source_config import DEFAULT
    from configdb_sync.hiera.data_sources import map_node

    facts = {"fqdn": "node-1.domain.tld", "hostname": "node-1"}
    for layout, sources in DEFAULT.items():
        members = ["plugins/ldap.yaml", "class/nova.yaml", "override/class/x::y.yaml", "override/module/z.yaml"]
        mapped = map_node(sources, facts, [*layout.base_files, *members])
        paths = {name: path.removesuffix(".yaml") for name, path in mapped.sources.items()}
        assert ruby.ok("names", paths=list(paths.values())) == list(paths)
    more = {"site": "site/%{datacentre}", "override/role": "override/role"}
    found = ruby.ok("names", paths=["site/prague", "site/a/b", "override/role", "override/other"], more=more)
    assert found == ["site", "site/a/b", "override/role", "override/hostname"]
