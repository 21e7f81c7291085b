"""U24: a lookup answers as Puppet's Hiera 5 does, on made-up layers and on the real environments."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from configdb_sync.hiera.documents import Reader
from configdb_sync.hiera.hierarchy import Hierarchy
from configdb_sync.hiera.lookup import HieraLookupError, Layer, Merge, lookup, parse_key
from configdb_sync.jsonvalues import canonical
from tests.hiera_backend.backend import HERE, MODULES, require, run_ruby
from tests.hiera_backend.real import RealNode, nodes_of
from tests.support import fixtures

MERGES = tuple(Merge)
TEXTS = ("a", "b", "", "%{fqdn}", "x-%{::fqdn}-%{none}", "%{nested.a.1}", "%{literal('%')}{x}", "%{lookup('t')}")
SCOPE = {"fqdn": "node-1.example.com", "empty": "", "nested": {"a": ["x", "y"]}}


def ours(documents: Sequence[Mapping[str, Any]], key: str, merge: Merge) -> dict[str, Any]:
    """Return the answer in the oracle's form; what an error says is our own."""
    return ours_of([Layer(str(place), document) for place, document in enumerate(documents)], key, merge)


def ours_of(layers: Sequence[Layer], key: str, merge: Merge) -> dict[str, Any]:
    """Return the answer from layers."""
    try:
        answer = lookup(parse_key(key), layers, merge, SCOPE)
    except HieraLookupError:
        return {"raised": ""}
    return {"value": answer.value} if answer.found else {}


def puppets(
    work: Path, cases: Sequence[tuple[Sequence[Mapping[str, Any]], Sequence[str]]]
) -> list[list[dict[str, Any]]]:
    """Return Puppet's answers for each case (documents, keys): by merge, then key."""
    environments = work / "environments"
    asked = []
    for place, (documents, keys) in enumerate(cases):
        folder = environments / f"case{place}"
        (folder / "data").mkdir(parents=True)
        for number, document in enumerate(documents):
            (folder / "data" / f"{number}.yaml").write_text(json.dumps(document))
        paths = [*(f"{number}.yaml" for number in range(len(documents))), "absent.yaml"]
        entry = {"name": "files", "data_hash": "yaml_data", "datadir": "data", "paths": paths}
        (folder / "hiera.yaml").write_text(yaml.safe_dump({"version": 5, "hierarchy": [entry]}))
        asked.append({"one": f"case{place}", "facts": SCOPE, "keys": keys, "merges": [merge.value for merge in MERGES]})
    whole = {"environments": str(environments), "modules": str(MODULES), "work": str(work), "cases": asked}
    found: list[list[dict[str, Any]]] = run_ruby(HERE / "lookups5.rb", {**whole, "answers": True})
    return [[{"raised": ""} if "raised" in one else one for one in case] for case in found]


def compare(work: Path, cases: Sequence[tuple[Sequence[Mapping[str, Any]], Sequence[str]]]) -> int:
    """Compare all answers; return how many there were."""
    count = 0
    for (documents, keys), found in zip(cases, puppets(work, cases), strict=True):
        asked = [(merge, key) for merge in MERGES for key in keys]
        for (merge, key), theirs in zip(asked, found, strict=True):
            mine = ours(documents, key, merge)
            assert canonical(mine) == canonical(theirs), (merge, key, documents)
            count += 1
    return count


def value(draw: random.Random, depth: int = 0) -> Any:
    """Return a value as settings have them: small, so that merges meet."""
    kind = draw.randrange(12 if depth < 3 else 8)
    if kind < 8:
        return draw.choice([None, True, False, 0, 1, 1.0, *TEXTS])
    if kind < 10:
        return [value(draw, depth + 1) for _ in range(draw.randrange(4))]
    return {draw.choice("abc"): value(draw, depth + 1) for _ in range(draw.randrange(4))}


def test_any_layers_are_looked_up_as_puppet_does(tmp_path: Path) -> None:
    require("ruby", "puppet")
    cases = []
    keys = ["k", "k.a", "k.a.b", "k.1", "k.a.0", "l", '"l.m"', "missing", "k.b.c", "t"]
    for seed in range(80):
        draw = random.Random(seed)
        documents = [
            {key: value(draw) for key in ("k", "l", "l.m") if draw.random() < 0.7} | {"t": draw.choice(TEXTS[:4])}
            for _ in range(draw.randrange(1, 5))
        ]
        cases.append((documents, keys))
    assert compare(tmp_path, cases) == len(cases) * len(keys) * len(MERGES)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[RealNode, list[Layer]]]:
    """The nodes of the real environments with their layers in Hiera's order."""
    top = tmp_path_factory.mktemp("real")
    reader = Reader()
    found = []
    for number in (37, 13, 16, 7):
        for node in nodes_of(number, fixtures.copy_environment(number, top / f"env-{number}")):
            paths = Hierarchy(tuple(node.levels("%{::fqdn}"))).paths({"fqdn": node.facts["fqdn"]})
            files = [node.hiera / f"{path}.yaml" for path in paths]
            layers = [Layer(file.stem, reader.read(file.read_bytes()).values) for file in files if file.is_file()]
            found.append((node, layers))
    return found


def test_every_key_of_the_real_environments_is_answered_as_puppet_does(
    real: list[tuple[RealNode, list[Layer]]], tmp_path: Path
) -> None:
    require("ruby", "puppet")
    environments = tmp_path / "environments"
    merges = [merge.value for merge in MERGES]
    cases = [
        node.hiera5(tmp_path / f"{node.environment}-{node.uid}", environments, merges, url="http://none")
        for node, _ in real
    ]
    whole = {"environments": str(environments), "modules": str(MODULES), "work": str(tmp_path / "puppet")}
    found = run_ruby(HERE / "lookups5.rb", {**whole, "cases": cases, "answers": True})
    count = 0
    for (node, layers), theirs in zip(real, found, strict=True):
        asked = [(merge, key) for merge in MERGES for key in node.keys]
        for (merge, key), answer in zip(asked, theirs, strict=True):
            expected = {"raised": ""} if "raised" in answer else answer
            assert canonical(ours_of(layers, key, merge)) == canonical(expected), (node.uid, merge, key)
            count += 1
    assert count > 5000


def test_every_key_of_the_real_environments_is_answered_as_hiera_3_does(
    real: list[tuple[RealNode, list[Layer]]], tmp_path: Path
) -> None:
    """``hiera_hash`` with Fuel's ``merge_behavior: deeper`` is the merge behaviour ``deep``."""
    require("ruby", "hiera")
    cases = [node.hiera3(tmp_path / f"{node.environment}-{node.uid}", url="http://none") for node, _ in real]
    found = run_ruby(HERE / "lookups3.rb", {"answers": cases})
    merges = {"priority": Merge.FIRST, "hash": Merge.DEEP, "array": Merge.UNIQUE}
    count = 0
    for (node, layers), theirs in zip(real, found, strict=True):
        for key, kind, answer in theirs:
            if kind != "array" and answer != "raised":
                mine = ours_of(layers, key, merges[kind])["value"]
                assert canonical(mine) == canonical(answer), (node.uid, kind, key)
                count += 1
    assert count > 2000
