"""U16, U25: several nodes, roles and keys in one call, all of them checked first; and what a change would give."""

from __future__ import annotations

from pathlib import Path

import pytest

from configdb_sync.exits import Exit
from tests.support.product import MEANT, Product, Result
from tests.support.trees import make_node

ENV = ("--env", 5)
GLOBALS = (*ENV, "-r", "globals")

REFUSED: list[tuple[tuple[str, ...], str]] = [
    (("--node", "1", "--node", "9", "--set", "use_syslog=false"), "there is no node '9'"),
    (("--node", "node-9", "--set", "use_syslog=false"), "the name 'node-9' doesn't identify a node"),
    (
        ("--role", "compte", "--set", "use_syslog=false"),
        "no node of environment 5 has the role 'compte' (did you mean compute",
    ),
    (("--role", "mongo", "--set", "use_syslog=false"), "roles there: ceph-osd, compute, controller"),
    (("--node", "1,2", "--set", "use_syslog=false", "--set", "use_sylog=false"), "did you mean use_syslog"),
    (("--node", "1,2", "--set", "use_syslog=false", "--set", "debug=1"), "value of type boolean"),
    (("--node", "1", "--level", "nodes=2", "--set", "use_syslog=false"), "--level excludes --node and --role"),
    (("--node", "1", "--set", "nova.workers=8", "--set", "nova={}"), "nova is given twice, or once within another"),
    (("--node", "1", "--set", "use_syslog"), "--set needs KEY=VALUE"),
    (("--node", "1", "--set", "use_syslog="), "--set needs KEY=VALUE"),
    (("--node", "1", "--set", "use_syslog={"), "--set use_syslog: the value can't be read as yaml"),
    (("--node", "1", "--set", "nova.db_password=CANARY"), "nova.db_password is a secret"),
    (("--node", "1", "--all-nodes", "--set", "debug=true"), "--all-nodes excludes --node and --role"),
    (("--node", "1,2", "--new-key", "-r", "astute", "--set", "debug=true", "--set", "role.x=1"), "role is no mapping"),
]


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    """Two compute nodes, and node 3, a controller with a name in the Fuel UI."""
    for node in ("1", "2", "3"):
        make_node(tmp_path / "trees", node)
    file = tmp_path / "trees/node-3/etc/fuel/cluster/5/astute.yaml"
    text = file.read_text("utf-8").replace("role: compute", "role: primary-controller\nuser_node_name: The head")
    file.write_text(text.replace("[compute, ceph-osd]", "[primary-controller]"), "utf-8")
    return tmp_path / "trees"


@pytest.fixture
def synced(product: Product, trees: Path) -> Product:
    assert product("sync", *ENV, "--from", trees).code == Exit.OK
    product.changing()
    return product


def good(product: Product, *arguments: object) -> Result:
    done = product(*arguments)
    assert done.code == Exit.OK, done.out + done.err
    return done


def overridden(product: Product) -> dict[str, list[str]]:
    """The keys that are overridden, by data source and level."""
    listed = good(product, "overrides", *ENV, "-f", "json").json["overrides"]
    return {f"{one['data_source']} {one['level']}": sorted(key["key"] for key in one["keys"]) for one in listed}


def test_nodes_by_all_their_names_and_several_keys_in_one_call(synced: Product) -> None:
    nodes = ("--node", "1, node-2", "--node", "The head", "--node", "node-2.example.com")
    done = good(synced, "override", *ENV, *nodes, "--set", "use_syslog=false", "--set", "nova.workers=8")
    assert done.out.count("globals at /nodes/") == done.out.count("astute at /nodes/") == 3
    values = {"use_syslog": ("globals", "false"), "nova.workers": ("astute", "8")}
    for key, (source, value) in values.items():
        for node in "123":
            found = good(synced, "get", *ENV, "-r", source, "--level", f"nodes={node}", "-k", key)
            assert found.out == f"{value}\n"
    done = good(synced, "rm-override", *GLOBALS, "--node", "1,3", "-k", "use_syslog")
    assert overridden(synced) == {"astute /nodes/1/": ["nova"], "astute /nodes/2/": ["nova"]} | {
        "astute /nodes/3/": ["nova"],
        "globals /nodes/2/": ["use_syslog"],
    }


def test_a_role_means_the_nodes_that_have_it_now(synced: Product) -> None:
    done = good(synced, "override", *ENV, "--role", "compute", "--set", "debug=true")
    assert "Nodes with the role compute: 1, 2.\n" in done.err
    assert overridden(synced) == {"astute /nodes/1/": ["debug"], "astute /nodes/2/": ["debug"]}
    good(synced, "override", *ENV, "--role", "controller", "--node", "3", "--set", "debug=true")
    assert overridden(synced)["astute /nodes/3/"] == ["debug"]
    # Of several nodes those without the override are skipped, if one has it.
    good(synced, "rm-override", *ENV, "-r", "astute", "--node", "1", "-k", "debug")
    good(synced, "rm-override", *ENV, "-r", "astute", "--role", "compute", "--role", "controller", "-k", "debug")
    assert overridden(synced) == {}
    assert synced("rm-override", *ENV, "-r", "astute", "--role", "compute", "-k", "debug").code == Exit.USAGE


def test_what_is_refused_changes_nothing(synced: Product) -> None:
    for arguments, part in REFUSED:
        done = synced("override", *ENV, *arguments)
        assert (done.code, part in done.err) == (Exit.USAGE, True), done.err
        assert "CANARY" not in done.err
        assert synced.changing() == []


def test_only_one_of_the_nodes_has_the_key(synced: Product, trees: Path) -> None:
    file = trees / "node-2/etc/hiera/globals.yaml"
    file.write_text(file.read_text("utf-8") + "own: 1\n", "utf-8")
    good(synced, "sync", *ENV, "--from", trees)
    done = synced("override", *ENV, "--node", "1,2", "--set", "own=2")
    assert done.code == Exit.USAGE
    assert "/nodes/1/: no node of that level has the key own in globals" in done.err
    assert overridden(synced) == {}
    good(synced, "override", *ENV, "--node", "1,2", "--new-key", "--set", "own=2")


def test_a_dry_run_shows_what_the_nodes_would_get_and_changes_nothing(synced: Product) -> None:
    good(synced, "override", *ENV, "--node", "1", "--set", "debug=true", "--reason", "x")
    good(synced, "override", *GLOBALS, "--new-key", "-k", "block", "-t", "json", "-v", '{"a": 1}')
    good(synced, "override", *ENV, "--all-nodes", "--set", "use_syslog=false")
    synced.changing()
    before = overridden(synced)

    def shown(command: str, *arguments: object) -> str:
        done = good(synced, command, *arguments, "--dry-run")
        assert done.out.splitlines()[-1] == "Nothing was changed (--dry-run)."
        assert synced.changing() == []
        return done.out

    astute = (*ENV, "-r", "astute")
    text = shown("override", *ENV, "--node", "1,2,3", "--set", "debug=true", "--set", "nova.workers=8")
    assert "astute: change (nodes 1, 2, 3)\n    ~ nova.workers: 4 -> 8\n    ~ debug: false -> true (nodes 2, 3)" in text
    assert "    ~ debug: true -> false\n" in shown("rm-override", *astute, "--node", "1", "-k", "debug")
    text = shown("rm-override", *GLOBALS, "-k", "block")
    assert "globals: change (nodes 1, 2, 3)\n    - block.a: 1\n" in text
    assert "    ~ block.a: 1 -> 2\n" in shown("override", *GLOBALS, "-k", "block.a", "-t", "int", "-v", 2)
    assert "nothing else than now" in shown("set", *GLOBALS, "-k", "use_syslog", "-t", "bool", "-v", "false")
    assert "    + other: 1\n" in shown("set", *GLOBALS, "--new-key", "-k", "other", "-t", "int", "-v", 1)
    text = shown("del", *astute, "--level", "nodes=2", "-k", "nova.workers")
    assert "astute: change (node 2)\n    - nova.workers: 4\n" in text
    assert "    ~ debug: true -> false\n" in shown("revert", *astute, "--level", "nodes=1")
    text = shown("override", *astute, "--all-nodes", "-k", "debug", "-t", "null")
    assert "astute: change (nodes 2, 3)\n    ~ debug: false -> null\n" in text
    text = shown("rm-override", *GLOBALS, "--all-nodes", "-k", "use_syslog")
    assert "globals: change (nodes 1, 2, 3)\n    ~ use_syslog: false -> true\n" in text
    text = shown("override", *astute, "--node", "2", "--copy-from", "1")
    assert "astute: change (node 2)\n    ~ debug: false -> true\n" in text
    assert overridden(synced) == before


def test_a_dry_run_masks_secrets_and_refuses_what_the_command_refuses(synced: Product) -> None:
    secret = ("-k", "nova.db_password", "-t", "str", "--value-file", "-", "--node", "1", "--dry-run")
    done = synced("override", *ENV, *secret, stdin="CANARY-new")
    assert done.code == Exit.OK
    assert "~ nova.db_password: " in done.out
    assert "CANARY" not in done.out + done.err
    assert synced("override", *ENV, "--node", "1", "--set", "debgu=true", "--dry-run").code == Exit.USAGE


def test_lookups_take_the_name_in_the_ui_too(synced: Product) -> None:
    assert good(synced, "lookup", "role", *ENV, "--node", "The head").out == "primary-controller\n"


def test_set_refuses_what_looks_like_a_mistake_too(synced: Product) -> None:
    """U25: the same checks as of overrides."""
    for arguments, part, allowed in (
        (("-k", "use_sylog", "-t", "bool", "-v", "true"), "did you mean use_syslog", "--new-key"),
        (("-k", "use_syslog", "-t", "str", "-v", "on"), "value of type boolean", "--change-type"),
        (("-k", "use_syslog", "-t", "bool", "-v", "on", "--level", "nodes=9"), "neither true", None),
        (("-k", "use_syslog", "-t", "bool", "-v", "0", "--level", "nodes=9"), "there is no node '9'", "--new-node"),
    ):
        done = synced("set", *GLOBALS, *arguments)
        assert (done.code, part in done.err) == (Exit.USAGE, True), done.err
        assert synced.changing() == []
        if allowed is not None:
            good(synced, "set", *GLOBALS, *arguments, allowed)
            synced.changing()
    hidden = synced("set", *ENV, "-r", "astute", "-k", "use_syslog", "-t", "bool", "-v", "0", "--new-key")
    assert "Puppet reads use_syslog from globals" in hidden.err


def test_an_override_is_removed_where_it_is(synced: Product) -> None:
    both = ("--env", 5, "--node", "1,2", "-k", "debug")
    synced("override", *MEANT, "--env", 5, "-r", "astute", "--node", 2, "--set", "debug=true")
    done = synced("rm-override", *both)
    assert (done.code, done.err) == (Exit.OK, "debug is overridden in astute.\n"), done.err
    assert "astute at /nodes/2/, environment 5: no longer overridden: debug." in done.out
    synced("override", *MEANT, "--env", 5, "-r", "astute", "--node", 2, "--set", "debug=true")
    synced("override", *MEANT, "--env", 5, "-r", "globals", "--node", 1, "--set", "debug=true")
    refused = synced("rm-override", *both)
    assert (refused.code, "debug is overridden in astute and globals" in refused.err) == (Exit.USAGE, True)
    assert synced("rm-override", *both, "-r", "globals").code == Exit.OK
