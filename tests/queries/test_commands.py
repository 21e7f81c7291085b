"""U24, U26: lookup, find and compare from the command line, from ConfigDB and from files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from configdb_sync.exits import Exit
from tests.hiera_backend.real import nodes_of
from tests.support import fixtures
from tests.support.product import Product

GLOBALS = {"debug": False, "nova": {"debug": False, "workers": 4}, "list": [1], "db_password": "s3cret"}
ASTUTE = {"debug": True, "nova": {"debug": True, "more": 1}, "list": [2], "roles": ["compute"]}


def write(top: Path, node: str, files: dict[str, object]) -> None:
    """Write a node's files."""
    for name, content in files.items():
        path = top / f"node-{node}/etc/hiera" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content))


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    """Three nodes of environment 5; the third differs in one key."""
    top = tmp_path / "trees"
    for node in ("1", "2", "3"):
        own = {**GLOBALS, "nova": {"debug": node == "3", "workers": 4}}
        facts = {"uid": node, "deployment_id": 5, "fqdn": f"node-{node}.example.com"}
        write(top, node, {"astute.yaml": {**ASTUTE, **facts}, "globals.yaml": own, "plugins/ldap.yaml": {"l": 1}})
    return top


@pytest.fixture
def filled(product: Product, trees: Path) -> Product:
    done = product("sync", "--env", 5, "--from", trees)
    assert done.code == Exit.OK, done.err
    return product


def test_a_key_is_read_from_the_data_source_that_puppet_asks_first(filled: Product, trees: Path) -> None:
    for more in ((), ("--from", trees)):
        assert filled("lookup", "debug", "--env", 5, "--node", 1, *more).out == "false\n"
        assert filled("lookup", "roles.0", "--env", 5, "--node", 1, *more).out == "compute\n"
        found = filled("lookup", "nova", "--env", 5, "--node", 1, "--merge", "deep", "--format", "json", *more)
        assert found.json == {"debug": False, "workers": 4, "more": 1}
        assert filled("lookup", "list", "--env", 5, "--node", 1, "--merge", "unique", "-f", "json", *more).json == [
            1,
            2,
        ]


def test_an_explanation_shows_all_that_have_the_key(filled: Product) -> None:
    place = ("--env", 5, "--level", "nodes=1", "--key", "debug", "--type", "bool", "--value", "true")
    assert filled("override", "--data-source", "globals", *place).code == Exit.OK
    assert filled("override", "--data-source", "astute", *place).code == Exit.OK
    found = filled("lookup", "debug", "--env", 5, "--node", "node-1.example.com", "--explain", "--format", "json").json
    assert (found["value"], found["data_source"]) == (True, "globals")
    assert [
        (one["data_source"], one["level"], one["kind"], one["value"], one["outcome"]) for one in found["layers"]
    ] == [
        ("globals", "/nodes/1/", "overrides", True, "wins"),
        ("globals", "/nodes/1/", "values", False, "covered"),
        ("astute", "/nodes/1/", "overrides", True, "hidden"),
        ("astute", "/nodes/1/", "values", True, "hidden"),
    ]
    text = filled("lookup", "debug", "--env", 5, "--node", 1, "--explain").out.splitlines()
    assert text[0] == "debug on node 1: true"
    assert text[1].split() == ["wins", "globals", "/nodes/1/", "overrides:", "true"]


def test_a_node_is_named_as_fuel_prints_it(filled: Product) -> None:
    """U25: by its ID, its FQDN, or its name."""
    for name in ("3", "node-3", "NODE-3.example.com"):
        assert filled("lookup", "nova.debug", "--env", 5, "--node", name).out == "true\n"
    place = ("--env", 5, "--level", "nodes=node-3", "--key", "nova.workers", "--type", "int", "--value", "9")
    assert filled("override", *place).code == Exit.OK
    assert filled("lookup", "nova.workers", "--env", 5, "--node", 3).out == "9\n"


def test_an_explanation_masks_secrets(filled: Product) -> None:
    done = filled("lookup", "db_password", "--env", 5, "--node", 1, "--explain")
    assert "masked" in done.out
    assert "s3cret" not in done.out + filled("find", "*pass*", "--env", 5).out
    assert "s3cret" not in filled("compare", "--env", 5, "--key", "db_password").out


def test_what_is_not_there_is_named(filled: Product, trees: Path) -> None:
    done = filled("lookup", "none", "--env", 5, "--node", 1)
    assert (done.code, done.out) == (Exit.USAGE, "")
    assert "no key none" in done.err
    for more in ((), ("--from", trees)):
        done = filled("lookup", "debug", "--env", 5, "--node", "nodee", *more)
        assert done.code == Exit.USAGE
        assert "there is no node 'nodee'" in done.err
        assert "--new-node" not in done.err
    assert filled("lookup", "a..b", "--env", 5, "--node", 1).code == Exit.USAGE
    assert "it has environments: 5)" in filled("lookup", "debug", "--env", 6, "--node", 1).err
    assert "no key in environment 5 matches none" in filled("find", "none", "--env", 5).err
    assert "'five' is not a valid whole number" in filled("find", "none", "--env", "five").err


def test_the_nodes_own_hiera_yaml_orders_the_data_sources(filled: Product, tmp_path: Path) -> None:
    path = tmp_path / "hiera.yaml"
    whole = {":backends": ["yaml"], ":hierarchy": ["astute", "globals"], ":yaml": {":datadir": "/etc/hiera"}}
    path.write_text(yaml.safe_dump(whole))
    assert filled("lookup", "debug", "--env", 5, "--node", 1, "--hiera-yaml", path).out == "true\n"
    path.write_text("[]")
    done = filled("lookup", "debug", "--env", 5, "--node", 1, "--hiera-yaml", path)
    assert done.code == Exit.USAGE
    assert str(path) in done.err


def test_find_shows_where_which_value_and_how_many(filled: Product, tmp_path: Path) -> None:
    found = filled("find", "nova.debug", "--env", 5, "--format", "json").json["keys"]
    assert [(one["data_source"], one["value"], one["nodes"]) for one in found] == [
        ("globals", True, ["3"]),
        ("globals", False, ["1", "2"]),
        ("astute", True, ["1", "2", "3"]),
    ]
    assert "globals  nova.debug = true  (1 node: 3)" in filled("find", "nova.debug", "--env", 5).out
    assert filled("find", "*", "--env", 5, "--value", "s3cret").out
    secret = tmp_path / "secret"
    secret.write_text("s3cret\n")
    assert filled("find", "*", "--env", 5, "--value-file", secret).out.count("db_password") == 1
    # What a secret is made of is no pattern.
    assert filled("find", "roles.*", "--env", 5, "--value", "comp*").out
    assert not filled("find", "roles.*", "--env", 5, "--value-file", "-", stdin="comp*").out
    both = filled("find", "*", "--env", 5, "--value-file", secret, "--value", "x")
    assert (both.code, "exclude each other" in both.err) == (Exit.USAGE, True)
    assert not filled("find", "*", "--env", 5, "--value", "s3c*").out
    assert "s3c" not in filled("find", "*", "--env", 5, "--value", "s3c*").err
    assert filled("find", "nova.debug", "--env", 5, "--node", "1", "--format", "json").json["keys"][0]["nodes"] == ["1"]


def test_compare_shows_the_odd_one_out_first(filled: Product) -> None:
    done = filled("compare", "--env", 5, "--key", "nova.debug", "--exit-code")
    assert done.code == Exit.DRIFT
    assert done.out.splitlines()[:3] == ["globals  nova.debug", "  true  (1 node: 3)", "  false  (2 nodes: 1, 2)"]
    assert filled("compare", "--env", 5, "--key", "nova.workers", "--exit-code").code == Exit.OK
    found = filled("compare", "--env", 5, "--node", "1,3", "--format", "json").json["differences"]
    keys = {tuple(one["key"]) for one in found}
    assert keys == {("nova", "debug"), ("uid",), ("fqdn",)}
    assert filled("compare", "--env", 5, "--key", "nope").code == Exit.USAGE
    done = filled("compare", "--env", 5, "--node", 1)
    assert (done.code, "name several: --node 1,2" in done.err) == (Exit.USAGE, True)


def test_environments_are_compared_by_their_values(filled: Product, tmp_path: Path) -> None:
    facts = {"uid": "9", "deployment_id": 6, "fqdn": "node-9.example.com"}
    write(tmp_path / "six", "9", {"astute.yaml": {**ASTUTE, **facts}, "globals.yaml": {**GLOBALS, "debug": True}})
    assert filled("sync", "--env", 6, "--from", tmp_path / "six").code == Exit.OK
    done = filled("compare", "--env", "5,6", "--key", "debug")
    assert done.code == Exit.OK
    assert done.out.splitlines() == [
        "globals  debug",
        "  environment 5: false  (3 nodes: 1, 2, 3)",
        "  environment 6: true  (1 node: 9)",
    ]
    assert filled("compare", "--env", "5,6,7").code == Exit.USAGE


def test_a_real_environment_is_answered_alike_from_configdb_and_from_files(product: Product, tmp_path: Path) -> None:
    top = fixtures.copy_environment(16, tmp_path / "env-16")
    assert product("sync", "--env", 16, "--from", top).code == Exit.OK
    for node in nodes_of(16, top):
        for key in node.keys[::25]:
            quoted = json.dumps(key) if "." in key else key
            ask = ("lookup", quoted, "--env", 16, "--node", node.uid, "--merge", "deep", "--format", "json")
            assert product(*ask).out == product(*ask, "--from", top).out


def test_an_override_goes_to_the_data_source_that_puppet_reads(filled: Product, trees: Path) -> None:
    """U25."""
    ask = ("override", "--env", 5, "--level", "nodes=1", "--type", "bool", "--value", "true")
    done = filled(*ask, "--key", "debug")
    assert done.code == Exit.OK, done.err
    assert "Puppet reads debug from globals." in done.err
    assert filled("lookup", "debug", "--env", 5, "--node", 1).out == "true\n"
    assert filled("sync", "--env", 5, "--from", trees).code == Exit.OK
    assert filled("lookup", "debug", "--env", 5, "--node", 1, "--from", trees).out == "true\n"
    done = filled(*ask, "--key", "debgu")
    assert done.code == Exit.USAGE
    assert "did you mean debug" in done.err
    assert filled(*ask).code == Exit.USAGE
    done = filled("override", "--env", 5, "--level", "nodes=9", "--type", "bool", "--value", "true", "--key", "debug")
    assert "there is no node '9'" in done.err


def test_an_override_that_another_data_source_hides_says_so(filled: Product) -> None:
    """U25."""
    ask = ("override", "--env", 5, "--level", "nodes=1", "--data-source", "astute", "--type", "bool", "--value", "true")
    done = filled(*ask, "--key", "debug")
    assert "no effect on node 1: Puppet reads debug from globals" in done.err
    done = filled(*ask, "--key", "nova.more", "--change-type")
    assert "only lookups that merge mappings" in done.err
    done = filled(*ask, "--key", "roles", "--change-type")
    assert done.code == Exit.OK
    assert "Note" not in done.err


def test_an_override_of_all_nodes_is_asked_of_all(filled: Product) -> None:
    """U25."""
    done = filled("override", "--env", 5, "--key", "nova.workers", "--type", "int", "--value", "8")
    assert "Puppet reads nova.workers from globals." in done.err


def test_what_nodes_have_in_common_is_asked_once(filled: Product) -> None:
    """U26: finding something on many nodes takes as long as they differ."""
    filled.requests.clear()
    found = filled("find", "ldap", "--env", 5, "--parallel", 1, "--format", "json")
    assert found.code == Exit.OK
    kinds = [request.path.rpartition("/")[2] for request in filled.requests if "/nodes/" in request.path]
    assert kinds.count("etags") == 3
    # astute on each node, globals on two that are equal and one that isn't, ldap once; the records once, too.
    assert kinds.count("values?effective") == 3 + 2 + 1
    assert kinds.count("values") == 1
