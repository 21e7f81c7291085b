"""U31: a ConfigDB that fuel-plugin-lcm filled is taken over: overrides in the documents of folders move to the data
sources of the files, nothing is lost, replaced or doubled, and what isn't in doubt isn't called ambiguous."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from configdb_sync.configdb.edits import shown_key
from configdb_sync.exits import Exit
from configdb_sync.failpoints import TAKEOVER_NAMES, VARIABLE
from tests.support import lcm, processes
from tests.support.product import Product, contents
from tests.support.taken_over import FILES, FOLDERS, FQDN, ROWS, Cloud, level, make

SERVERS = ("embedded", "as tuning-box master")


@pytest.fixture(params=[SERVERS[0], pytest.param(SERVERS[1], marks=pytest.mark.long)])
def cloud(request: pytest.FixtureRequest, product: Product, tmp_path: Path) -> Cloud:
    product.plain = request.param == SERVERS[1]
    return make(product, tmp_path).fill()


both_servers = pytest.mark.parametrize("cloud", SERVERS, indirect=True)
"""For what depends on the server most; the other tests meet the second one in the long run alone."""


def test_without_overrides_every_file_is_uploaded_by_itself_and_nothing_else_happens(cloud: Cloud) -> None:
    before = contents(cloud.trees)
    folders = {name: cloud.values(name) for name in FOLDERS}
    found = cloud.sync()
    assert (found.code, found.err) == (Exit.OK, "")
    assert contents(cloud.trees) == before
    for name, values in FILES.items():
        source = {f"override/node/{FQDN}": "override/node", f"override/configuration/{FQDN}": f"{name[:22]}/node"}
        assert cloud.values(source.get(name, name)) == values
    # The node's own file has this name too; all others are as the older plugin left them.
    assert {name: cloud.values(name) for name in FOLDERS if name != "override/node"} == {
        name: values for name, values in folders.items() if name != "override/node"
    }
    cloud.at_rest()


@pytest.mark.parametrize(
    ("folder", "stem", "data_source"),
    [row if row in ROWS[1:3] else pytest.param(*row, marks=pytest.mark.long) for row in ROWS],
)
def test_an_override_of_a_file_in_a_folders_document_reaches_the_file(
    cloud: Cloud, folder: str, stem: str, data_source: str
) -> None:
    own = FILES[f"{folder}/{stem}"]
    key = next(iter(own))
    content = own | {key: "overridden"}
    cloud.override(folder, {stem: content})
    before, paths = contents(cloud.trees), cloud.paths()
    plan = cloud.plan()
    assert plan.code == Exit.OK
    assert f"{shown_key((folder, stem))} at /nodes/1/ -> {data_source}" in plan.out
    assert "taking over from fuel-plugin-lcm" in plan.out
    assert cloud.overrides(folder) == {stem: content}
    assert cloud.sync().code == Exit.OK
    assert cloud.overrides(data_source) == content
    assert data_source == folder or cloud.overrides(folder) == {}
    assert cloud.values(data_source) == own
    assert cloud.file(f"{folder}/{stem}") == content
    assert cloud.paths() == paths
    cloud.at_rest()
    assert (
        cloud.product("rm-override", "--env", cloud.env, "-r", data_source, "--level", "nodes=1", "--all-keys").code
        == Exit.OK
    )
    assert cloud.sync().code == Exit.OK
    assert contents(cloud.trees) == before


@both_servers
def test_all_at_once_and_a_flat_file_too(cloud: Cloud) -> None:
    own = contents(cloud.trees)
    documents: dict[str, dict[str, Any]] = {}
    for folder, stem, _ in ROWS:
        documents.setdefault(folder, {})[stem] = {"added": stem}
    for folder, document in documents.items():
        cloud.override(folder, document)
    cloud.override("globals", {"use_syslog": False})
    cloud.override("plugins", {"backup": {"backup": {"on": False}}}, node=None)
    found = cloud.report()
    assert found["exit"] == Exit.OK
    assert len(found["nodes"][0]["moves"]) == len(ROWS) + 1
    for folder, stem, data_source in ROWS:
        assert cloud.overrides(data_source) == {"added": stem}
        assert cloud.file(f"{folder}/{stem}") == {**FILES[f"{folder}/{stem}"], "added": stem}
    assert cloud.file("globals")["use_syslog"] is False
    assert cloud.overrides("plugins/backup", None) == {"backup": {"on": False}}
    assert cloud.overrides("plugins", None) == {}
    cloud.at_rest()
    for _, _, data_source in ROWS:
        cloud.override(data_source, {})
    cloud.override("globals", {})
    cloud.override("plugins/backup", {}, node=None)
    assert cloud.sync().code == Exit.OK
    assert contents(cloud.trees) == own


def test_the_real_environment(
    environment: Callable[[int], Path], product: Product, legacy_url: str, tmp_path: Path
) -> None:
    """On PyPI's tuning-box, which can't add ``plugins/ldap``: that file alone fails (U6), its override stays."""
    for url in (None, legacy_url):
        trees = environment(16) if url is None else environment_again(tmp_path)
        cloud = Cloud(product, trees, 16, url).fill()
        before, paths = contents(trees), cloud.paths()
        node = "46"
        ldap = {"ldap": {"enabled": False, "url": "ldap://ldap.example.com", "page_size": 0}}
        cluster = {"configuration": {"nova_config": {"DEFAULT/debug": {"value": False}}}}
        cloud.override("plugins", {"ldap": ldap}, node)
        cloud.override("override/configuration", {"cluster": cluster}, node)
        cloud.override("override", {"common": {"added": 1}}, node)
        cloud.override("override/node", {FQDN: {"debug": False, "nova": {"debug": True}}}, node)
        cloud.override("astute", {"debug": True}, node)
        folders = {name: cloud.values(name, node) for name in ("plugins", "override/configuration", "override")}
        first = cloud.report()
        problems = [problem for one in first["nodes"] for problem in one["problems"]]
        assert {name: cloud.values(name, node) for name in folders} == folders
        assert cloud.file("override/configuration/cluster", node) == cluster
        assert cloud.file(f"override/node/{FQDN}", node) == {"debug": False, "nova": {"debug": True}}
        assert cloud.file("override/common", node) == {"added": 1}
        assert cloud.paths() == paths | {"node-46/etc/hiera/override/common.yaml"}
        if url is None:
            assert problems == []
            assert cloud.file("plugins/ldap", node) == ldap
            assert cloud.overrides("plugins", node) == {}
            cloud.at_rest()
        else:
            assert {problem["data_source"] for problem in problems} == {"plugins/ldap"}
            assert "can't change what was once made" in problems[0]["what"]
            assert cloud.overrides("plugins", node) == {"ldap": ldap}
            assert cloud.file("plugins/ldap", node)["ldap"]["enabled"] is True
            second = cloud.report()
            assert (second["uploads"], second["writes"]) == (0, 0)
            assert [one["moves"] for one in second["nodes"]] == [[], [], []]
        assert contents(trees)["node-47"] == before["node-47"]


def environment_again(folder: Path) -> Path:
    from tests.support import fixtures

    return fixtures.copy_environment(16, folder / "again")


def test_on_pypis_tuning_box(product: Product, tmp_path: Path, legacy_url: str) -> None:
    cloud = make(product, tmp_path, 117, legacy_url).fill()
    rows = [row for row in ROWS if row[2] in lcm.DATA_SOURCES]
    assert len(rows) == 3
    for folder, stem, _ in rows:
        cloud.override(folder, {stem: {"added": stem}})
    cloud.override("override", {"common": {"common": 2}}, node=None)
    found = cloud.report()
    kinds = {(problem["data_source"], problem["kind"]) for problem in found["nodes"][0]["problems"]}
    assert {name for name, _ in kinds} == {
        *("plugins/ldap", "plugins/backup", "class/one", "override/class/two", "override/configuration/node")
    }
    assert {kind for _, kind in kinds} == {"Unsupported"}
    for folder, stem, data_source in rows:
        assert cloud.overrides(data_source) == {"added": stem}
        assert cloud.file(f"{folder}/{stem}") == {**FILES[f"{folder}/{stem}"], "added": stem}
    assert cloud.overrides("override/common", None) == {"common": 2}
    assert cloud.overrides("override", None) == {}
    assert cloud.overrides("override/configuration") == {}
    second = cloud.report()
    assert (second["uploads"], second["writes"]) == (0, 0)
    shown = product("history", "--env", 117, "-r", "override/plugins", "--level", "nodes=1", *cloud.more)
    assert "moved from override.plugins" in shown.out


def test_what_its_download_wrote_is_settled(cloud: Cloud) -> None:
    """The older plugin writes effective data into files: there an override stands for the whole file."""
    content = {"ldap": {"url": "ldap://over"}}
    cloud.override("plugins", {"ldap": content})
    path = cloud.trees / "node-1/etc/hiera/plugins/ldap.yaml"
    path.write_text(yaml.safe_dump(content))
    found = cloud.plan()
    assert found.code == Exit.OK
    assert "it leaves out 'more', which the file then has again" in found.out
    assert cloud.sync().code == Exit.OK
    assert cloud.values("plugins/ldap") == FILES["plugins/ldap"]
    assert cloud.file("plugins/ldap") == {**content, "more": 1}
    cloud.at_rest()


def test_what_differs_from_everything_stays_ambiguous_and_what_configdb_never_had_is_the_nodes(cloud: Cloud) -> None:
    hiera = cloud.trees / "node-1/etc/hiera"
    (hiera / "plugins/ldap.yaml").write_text("ldap: {url: changed, page: 0}\nmore: 1\n")
    (hiera / "plugins/fresh.yaml").write_text("fresh: 1\n")
    (hiera / "old_admin_user.yaml").write_text("old: 1\n")
    found = cloud.sync()
    assert found.code == Exit.PARTIAL
    problems = [line for line in found.out.splitlines() if line.startswith("  node 1, ")]
    assert len(problems) == 1
    assert "file plugins/ldap.yaml: the file and ConfigDB disagree on 'ldap'" in problems[0]
    assert cloud.values("plugins/fresh") == {"fresh": 1}
    assert cloud.values("old_admin_user") == {"old": 1}
    assert cloud.values("plugins/ldap") == FILES["plugins/ldap"]
    assert cloud.sync("--accept-node").code == Exit.OK
    assert cloud.values("plugins/ldap")["ldap"] == {"url": "changed", "page": 0}
    cloud.at_rest()


def test_a_symbol_in_rubys_own_json_is_no_ambiguity(product: Product, tmp_path: Path) -> None:
    cloud = make(product, tmp_path)
    path = cloud.trees / "node-1/etc/hiera/plugins/ldap.yaml"
    path.write_text("mode: :deeper\n:top:\n- 1\n- :x\n")
    cloud.fill()
    with cloud.client() as client:
        number = cloud.definition(client, "plugins")
        found = client.values(5, level("1"), number)
        client.put_values(5, level("1"), number, found | {"ldap": {"mode": "deeper", "top": [1, "x"]}})
    before = contents(cloud.trees)
    assert cloud.sync().code == Exit.OK
    assert cloud.values("plugins/ldap") == {"mode": ":deeper", ":top": [1, ":x"]}
    assert contents(cloud.trees) == before
    cloud.at_rest()


@both_servers
def test_two_overrides_that_contradict_each_other_are_named_and_left(cloud: Cloud) -> None:
    own = contents(cloud.trees)
    assert cloud.sync().code == Exit.OK
    cloud.override("plugins/ldap", {"ldap": "one", "more": 2})
    cloud.override("plugins", {"ldap": {"ldap": "other", "more": 2}, "backup": {"backup": 0}})
    for _ in range(2):
        found = cloud.report()
        assert found["exit"] == Exit.PARTIAL
        [problem] = found["nodes"][0]["problems"]
        assert (problem["kind"], problem["data_source"]) == ("Ambiguous", "plugins/ldap")
        assert "ldap: overridden at /nodes/1/, and otherwise in the document of the folder plugins" in problem["what"]
        assert "other" not in problem["what"].replace("otherwise", "")
    assert cloud.overrides("plugins") == {"ldap": {"ldap": "other", "more": 2}}
    assert cloud.overrides("plugins/ldap") == {"ldap": "one", "more": 2}
    assert cloud.file("plugins/ldap") == FILES["plugins/ldap"]
    assert cloud.file("plugins/backup") == {"backup": 0}
    gone = ("rm-override", "--env", 5, "--level", "nodes=1", "-r")
    assert cloud.product(*gone, "plugins/ldap", "--key", "ldap").code == Exit.OK
    assert cloud.sync().code == Exit.OK
    assert cloud.file("plugins/ldap") == {"ldap": "other", "more": 2}
    cloud.at_rest()
    for name in ("plugins/ldap", "plugins/backup"):
        assert cloud.product(*gone, name, "--all-keys").code == Exit.OK
    assert cloud.sync().code == Exit.OK
    assert contents(cloud.trees) == own


def test_overrides_of_one_nodes_file_over_the_nodes_go_to_that_node(product: Product, tmp_path: Path) -> None:
    cloud = make(product, tmp_path, 5, None, "1", "2")
    for node in ("1", "2"):
        (cloud.trees / f"node-{node}/etc/hiera/override/node/node-{node}.example.com.yaml").unlink()
    (cloud.trees / "node-2/etc/hiera/override/configuration/node-2.example.com.yaml").unlink()
    cloud.fill()
    cloud.override("override/node", {FQDN: {"one": 1}, "node-2.example.com": {"two": 2}, "node-9.x": {"n": 9}}, None)
    hidden = {FQDN: {"hidden": 1}, "node-2.example.com": {"seen": 2}}
    cloud.override("override/configuration", hidden, None)
    found = cloud.sync()
    assert found.code == Exit.OK, found.out
    assert '["override/node", "node-9.x"] at / stays, and reaches no node' in found.out
    assert cloud.file(f"override/node/{FQDN}") == {"one": 1}
    assert cloud.file("override/node/node-2.example.com", "2") == {"two": 2}
    assert cloud.file("override/configuration/node-2.example.com", "2") == {"seen": 2}
    assert cloud.overrides("override/node", None) == {"node-9.x": {"n": 9}}
    # The node's own values in the older plugin's document hide it there: it has no effect, and gets none.
    assert cloud.overrides("override/configuration", None) == {FQDN: {"hidden": 1}}
    assert f'["override/configuration", "{FQDN}"] at / stays, and reaches no node: the override at' in found.out
    cloud.at_rest()


def test_overrides_over_the_nodes_stay_at_their_level(product: Product, tmp_path: Path) -> None:
    cloud = make(product, tmp_path, 5, None, "1", "2")
    role = (("role", "compute"),)
    with cloud.client() as client:
        lcm.fill(client, 5, cloud.trees, role)
        plugins = cloud.definition(client, "plugins")
        client.put_overrides(5, (), plugins, {"ldap": {"everywhere": 1}, "fresh": {"made": 1}})
        client.put_overrides(5, role, plugins, {"ldap": {"of the role": 1}})
        client.put_overrides(5, (*role, ("nodes", "1")), plugins, {"ldap": {"of the node": 1}})
    levels = ("--levels", "role=%{role},nodes=%{uid}")
    assert cloud.sync(*levels).code == Exit.OK
    with cloud.client() as client:
        for name, content in (("plugins/ldap", {"everywhere": 1}), ("plugins/fresh", {"made": 1})):
            assert client.overrides(5, (), cloud.definition(client, name)) == content
        number = cloud.definition(client, "plugins/ldap")
        assert client.overrides(5, role, number) == {"of the role": 1}
        assert client.overrides(5, (*role, ("nodes", "1")), number) == {"of the node": 1}
        for place in ((), role, (*role, ("nodes", "1"))):
            assert client.overrides(5, place, plugins) == {}
    both = {**FILES["plugins/ldap"], "everywhere": 1, "of the role": 1}
    assert cloud.file("plugins/ldap", "2") == both
    assert cloud.file("plugins/ldap", "1") == {**both, "of the node": 1}
    assert cloud.file("plugins/fresh", "1") == cloud.file("plugins/fresh", "2") == {"made": 1}
    product.changing()
    assert cloud.sync(*levels).code == Exit.OK
    assert product.changing() == []


def test_what_is_no_files_content_stays_and_is_named(cloud: Cloud) -> None:
    odd = {"ldap": {}, "backup": "text", "a/b": {"x": 1}, "": {"x": 1}, "new": None}
    cloud.override("plugins", odd)
    cloud.override("override/configuration", {"nobodys": {"x": 1}})
    paths = cloud.paths()
    found = cloud.report()
    assert found["exit"] == Exit.OK
    held = {(one["folder"], one["key"]): one["why"] for one in found["nodes"][0]["held"]}
    assert {key for folder, key in held if folder == "plugins"} == set(odd)
    assert "no data source is the file override/configuration/nobodys.yaml" in held.values()
    assert cloud.overrides("plugins") == odd
    assert cloud.overrides("override/configuration") == {"nobodys": {"x": 1}}
    assert cloud.paths() == paths
    cloud.at_rest()


def test_the_single_files_own_overrides_are_no_folders(product: Product, tmp_path: Path) -> None:
    """``override/node`` is a folder's name and each node's file; in an environment of ours it is that file alone."""
    cloud = make(product, tmp_path)
    assert cloud.sync().code == Exit.OK
    cloud.override("override/node", {"nova": {"debug": False}})
    cloud.override("override/configuration", {"cluster": {"x": 1}})
    found = cloud.report()
    assert found["exit"] == Exit.OK
    assert not any(node["moves"] or node["held"] for node in found["nodes"])
    assert cloud.file(f"override/node/{FQDN}") == {"debug": True, "nova": {"debug": False}}
    assert cloud.file("override/configuration") == {"cluster": {"x": 1}}
    assert cloud.overrides("override/configuration") == {"cluster": {"x": 1}}


def test_after_the_takeover_an_override_of_the_nodes_own_file_works(cloud: Cloud) -> None:
    assert cloud.sync().code == Exit.OK
    where = ("--env", 5, "-r", "override/node", "--level", "nodes=1")
    assert cloud.product("override", *where, "--key", "nova.debug", "--type", "bool", "--value", "false").code == 0
    assert cloud.sync().code == Exit.OK
    assert cloud.file(f"override/node/{FQDN}") == {"debug": True, "nova": {"debug": False}}
    cloud.at_rest()


def test_after_the_takeover_what_the_older_plugin_uploaded_says_nothing_of_a_file(cloud: Cloud) -> None:
    assert cloud.sync().code == Exit.OK
    paths = [cloud.trees / f"node-1/etc/hiera/{name}.yaml" for name in ("plugins/ldap", f"override/node/{FQDN}")]
    for path in paths:
        path.unlink()
    assert cloud.sync().code == Exit.OK
    assert cloud.values("plugins/ldap") == cloud.values("override/node") == {}
    for path in paths:
        path.write_text("quite: another\n")
    assert cloud.sync().code == Exit.OK
    assert cloud.values("plugins/ldap") == cloud.values("override/node") == {"quite": "another"}
    cloud.at_rest()


def test_a_file_that_failed_in_the_first_run_is_judged_by_the_folders_document(cloud: Cloud) -> None:
    cloud.override("plugins", {"ldap": {"more": 2}})
    path = cloud.trees / "node-1/etc/hiera/plugins/ldap.yaml"
    path.write_text("broken: [\n")
    assert cloud.sync().code == Exit.PARTIAL
    assert cloud.overrides("plugins") == {"ldap": {"more": 2}}
    path.write_text("more: 2\n")
    assert cloud.sync().code == Exit.OK
    assert cloud.values("plugins/ldap") == FILES["plugins/ldap"]
    assert cloud.file("plugins/ldap") == {**FILES["plugins/ldap"], "more": 2}
    cloud.at_rest()


def test_only_the_plan_that_was_looked_at_is_carried_out(cloud: Cloud) -> None:
    cloud.override("plugins", {"ldap": {"more": 7}})
    cloud.override("plugins", {"backup": {"backup": 7}}, node=None)
    digest = cloud.plan("--format", "json").json["digest"]
    assert cloud.plan("--exit-code").code == Exit.DRIFT
    cloud.override("plugins", {"ldap": {"more": 8}})
    assert cloud.sync("--digest", digest).code == Exit.CHANGED
    assert cloud.overrides("plugins") == {"ldap": {"more": 8}}
    digest = cloud.plan("--format", "json").json["digest"]
    done = cloud.report("--digest", digest)
    assert (done["exit"], done["digest"]) == (Exit.OK, digest)
    assert cloud.file("plugins/ldap")["more"] == 8
    cloud.at_rest()


def test_the_history_says_where_an_override_was_and_who_had_set_it(product: Product, tmp_path: Path) -> None:
    cloud = make(product, tmp_path).fill()
    cloud.override("plugins", {"ldap": {"more": 7}}, author="Zoë", comment="ticket 7")
    assert cloud.sync().code == Exit.OK
    where = ("--env", 5, "--level", "nodes=1")
    shown = product("history", *where, "-r", "plugins/ldap").out
    assert "moved from plugins.ldap, set by Zoë on" in shown
    assert "ticket 7" in shown
    assert "moved to plugins/ldap" in product("history", *where, "-r", "plugins").out
    assert "moved from plugins.ldap" in product("overrides", "--env", 5).out


def test_each_form_of_a_plan_tells_of_it(cloud: Cloud) -> None:
    cloud.override("plugins", {"ldap": {"ldap": {"password": "CANARY"}}, "odd": 1})
    for form in ("text", "json", "markdown"):
        for found in (cloud.plan("--format", form), cloud.sync("--format", form)):
            assert "CANARY" not in found.out
            assert "plugins/ldap" in found.out
            assert "fuel-plugin-lcm" in found.out
            assert "isn't a mapping" in found.out
        cloud.override("plugins/ldap", {})
        cloud.override("plugins", {"ldap": {"ldap": {"password": "CANARY"}}, "odd": 1})
        for name in ("configdb-sync.sqlite",):
            for path in cloud.product.state.glob(f"{name}*"):
                path.unlink()
        with cloud.client() as client:
            number = cloud.definition(client, "records")
            client.put_values(5, level("1"), number, {})


BRIEFLY = [("override-copied", "embedded"), ("override-replaced", "embedded"), ("override-copied", "tuning-box 0.1.0")]
KILLS = [
    kill if kill in BRIEFLY else pytest.param(*kill, marks=pytest.mark.long)
    for kill in itertools.product(sorted(TAKEOVER_NAMES), ("embedded", "tuning-box 0.1.0"))
]


@pytest.mark.parametrize(("point", "server"), KILLS)
def test_killed_while_it_moves_no_override_is_lost_or_doubled(
    product: Product, tmp_path: Path, request: pytest.FixtureRequest, point: str, server: str
) -> None:
    url = None if server == "embedded" else request.getfixturevalue("legacy_url")
    env = 5 if url is None else 200 + sorted(TAKEOVER_NAMES).index(point)
    cloud = make(product, tmp_path, env, url).fill()
    rows = [row for row in ROWS if url is None or row[2] in lcm.DATA_SOURCES]
    contents_of = {(folder, stem): {"added": stem} for folder, stem, _ in rows}
    documents: dict[str, dict[str, Any]] = {}
    for (folder, stem), content in contents_of.items():
        documents.setdefault(folder, {})[stem] = content
    for folder, document in documents.items():
        cloud.override(folder, document)
    for _ in range(2):
        done = processes.run(
            product.state, "sync", "--env", env, "--from", cloud.trees, *cloud.more, **{VARIABLE: point}
        )
        if done.returncode != -signal.SIGKILL:
            break
        for folder, stem, data_source in rows:
            old, new = cloud.overrides(folder).get(stem), {}
            with cloud.client() as client:
                environment = client.environment(env)
                assert environment is not None
                known = client.definitions(environment)
                if data_source in known:
                    new = client.overrides(env, level("1"), known[data_source].id)
            assert old == {"added": stem} or new.get("added") == stem
    else:
        assert point != "override-replaced"
    cloud.sync("--wait", 0)
    for folder, stem, data_source in rows:
        assert cloud.overrides(data_source) == {"added": stem}
        assert folder == data_source or cloud.overrides(folder) == {}
        assert cloud.file(f"{folder}/{stem}") == {**FILES[f"{folder}/{stem}"], "added": stem}
        assert cloud.values(data_source) == FILES[f"{folder}/{stem}"]
    if url is None:
        cloud.at_rest()
