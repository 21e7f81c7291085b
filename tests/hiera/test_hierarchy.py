"""U24: the levels of a node's hiera.yaml are those that Hiera reads."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from configdb_sync.errors import DocumentError
from configdb_sync.hiera.hierarchy import parse
from tests.hiera_backend.backend import require, run_ruby

FUEL = """---
:backends:
  - yaml
:hierarchy:
  - plugins/ldap
  - override/node/%{::fqdn}
  - override/class/%{calling_class}
  - override/module/%{calling_module}
  - override/plugins%{disable_globals_yaml}
  - class/%{calling_class}
  - nodes%{disable_globals_yaml}
  - globals%{disable_globals_yaml}
  - astute
:yaml:
  :datadir: /etc/hiera
:merge_behavior: deeper
"""


def test_fuels_own_file() -> None:
    hierarchy = parse(FUEL.encode())
    expected = ["plugins/ldap", "override/node/node-1.x", "override/plugins", "nodes", "globals", "astute"]
    assert hierarchy.paths({"fqdn": "node-1.x"}) == expected
    assert hierarchy.notes == ()
    asked = hierarchy.paths({"fqdn": "n", "calling_class": "nova", "calling_module": "nova"})
    assert asked[2:4] == ["override/class/nova", "override/module/nova"]


def test_any_hierarchy_is_followed_as_hiera_3_does(tmp_path: Path) -> None:
    require("ruby", "hiera")
    pieces = ["a", "b/c", "%{fqdn}", "%{::fqdn}", "%{none}", "%{}", "/", "x%{none}", "%{facts.os}", ""]
    scope: dict[str, Any] = {"fqdn": "node-1.x", "facts": {"os": "debian"}}
    # Hiera's own scope answers for ::name too, as Puppet's does.
    asked, expected = [], []
    for seed in range(300):
        draw = random.Random(seed)
        levels = ["".join(draw.choices(pieces, k=draw.randrange(1, 4))) for _ in range(draw.randrange(1, 6))]
        whole: dict[str, Any] = {":backends": ["yaml"], ":hierarchy": levels, ":yaml": {":datadir": "/etc/hiera"}}
        if draw.random() < 0.1:
            whole[":hierarchy"] = levels[0]
        path = tmp_path / f"{seed}.yaml"
        path.write_text(yaml.safe_dump(whole))
        asked.append({"config": str(path), "scope": scope | {"::fqdn": "node-1.x"}})
        expected.append(parse(path.read_bytes()).paths(scope))
    found = run_ruby(Path(__file__).with_name("hierarchies.rb"), asked)
    assert expected == [list(dict.fromkeys(one)) for one in found]


def test_version_5() -> None:
    text = """
version: 5
defaults: {datadir: /etc/hiera, data_hash: yaml_data}
hierarchy:
  - {name: node, path: "override/node/%{facts.fqdn}.yaml"}
  - {name: rest, paths: [globals.yaml, astute.yaml]}
  - {name: own, data_hash: "configdb::data", uris: [nodes, "plugins/x"]}
  - {name: other, datadir: /srv, path: x.yaml}
  - {name: secrets, lookup_key: eyaml_lookup_key, path: y.eyaml}
  - {name: many, glob: "z/*.yaml"}
"""
    hierarchy = parse(text.encode())
    expected = ["override/node/n", "globals", "astute", "nodes", "plugins/x"]
    assert hierarchy.paths({"facts": {"fqdn": "n"}}) == expected
    assert len(hierarchy.notes) == 3
    assert all(name in " ".join(hierarchy.notes) for name in ("other", "secrets", "many"))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("[]", "mapping"),
        (":hierarchy: {}", "no list"),
        (":backends: [json]\n:hierarchy: [a]", "yaml is not among"),
        (":hierarchy: [a]\n:yaml:\n  :datadir: /srv/data", "/srv/data"),
        ("version: 5\nhierarchy: [a]", "entry 1"),
        ("version: 5\nhierarchy: [{name: a, path: a.yaml, datadir: data}]", "no files of /etc/hiera"),
        (":hierarchy: []", "no files of /etc/hiera"),
        ("a: [", "line"),
    ],
)
def test_what_is_no_hiera_yaml_is_refused(text: str, part: str) -> None:
    with pytest.raises(DocumentError, match=part):
        parse(text.encode())
