"""U1, U2, U15: where Fuel's four releases put the plugin's tasks, by a model that is checked against a real Nailgun."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.plugin.deployment_graph import MASTER, RELEASES, Graph, Place, build, fuel_tasks, names_no_task, relations
from tests.support.fixtures import require_data

ROOT = Path(__file__).resolve().parents[2]
OURS: list[dict[str, Any]] = yaml.safe_load((ROOT / "deployment_tasks.yaml").read_text(encoding="utf-8"))
PRE, MAIN, POST = (f"upload_data_to_configdb{suffix}" for suffix in ("_pre", "", "_post"))
OFF, ON = "configdb_hiera_off", "configdb_hiera_on"
# A controller has the tags of its role too, from Fuel 9.2 on.
CONTROLLER = [f"primary-{tag}" for tag in ("controller", "database", "keystone", "rabbitmq", "neutron")]
ROLES = {"1": CONTROLLER, "2": ["compute", "cinder"], "3": ["ceph-osd"]}
WRITERS = {"upload_configuration", "upload_node_configuration", "copy_cluster_configuration"}
# What runs in the deployment stage before the nodes' settings are uploaded; the last one may run earlier still.
BEFORE_MAIN = {"hiera", "setup_repositories", "fuel_pkgs", "globals", "allocate_hugepages", "reserved_ports"}
BEFORE_MAIN_FROM_9_2 = {"pkg_upgrade", "prepare_symlinks"}


def graph(release: str) -> Graph:
    return build([*fuel_tasks(release), *OURS], ROLES)


def names(places: Iterable[Place]) -> set[str]:
    return {name for name, _ in places}


@pytest.mark.parametrize("release", RELEASES)
def test_no_task_waits_for_itself(release: str) -> None:
    assert graph(release).cycle() == []


@pytest.mark.parametrize("release", RELEASES)
def test_the_tasks_run_once_on_the_master(release: str) -> None:
    found = graph(release)
    assert [found.at(name) for name in (PRE, MAIN, POST)] == [{(name, MASTER)} for name in (PRE, MAIN, POST)]


@pytest.mark.parametrize("release", RELEASES)
def test_main_is_after_all_that_writes_settings_on_every_node(release: str) -> None:
    found = graph(release)
    earlier = found.all_before((MAIN, MASTER))
    writers = {"globals", "hiera", "override_configuration", "plugins_setup_repositories"}
    writers |= WRITERS & names(found.before)
    for name in writers:
        assert found.at(name) <= earlier, name
        assert {node for _, node in found.at(name)} >= ROLES.keys(), name
    assert {("pre_deployment_end", None), ("deploy_start", None), (PRE, MASTER)} <= earlier


@pytest.mark.parametrize("release", RELEASES)
def test_main_is_before_every_other_deployment_task(release: str) -> None:
    found = graph(release)
    assert found.beside((MAIN, MASTER)) == set()
    between = names(found.all_before((MAIN, MASTER)) - found.all_before((PRE, MASTER))) - {PRE, "deploy_start"}
    assert between == BEFORE_MAIN | (set() if release == "9.0.1" else BEFORE_MAIN_FROM_9_2)
    assert {"logging", "netconfig", "primary-openstack-controller", "deploy_end"} <= names(
        found.all_after((MAIN, MASTER))
    )


@pytest.mark.parametrize("release", RELEASES)
def test_pre_is_between_the_stages_and_post_at_the_end(release: str) -> None:
    found = graph(release)
    before_pre = found.all_before((PRE, MASTER))
    assert ("pre_deployment_end", None) in before_pre
    assert found.at("override_configuration") <= before_pre
    assert (PRE, MASTER) in found.all_before(("deploy_start", None))
    assert "hiera" not in names(before_pre)
    before_post = found.all_before((POST, MASTER))
    assert {("deploy_end", None), (MAIN, MASTER)} | found.at("netconfig") <= before_post
    assert (POST, MASTER) in found.all_before(("post_deployment_end", None))


@pytest.mark.parametrize("release", RELEASES)
def test_what_runs_beside_pre_and_post(release: str) -> None:
    """As docs/plugin.md says it."""
    found = graph(release)
    assert names(found.beside((PRE, MASTER))) == {"reserved_ports"}
    beside_post = names(found.beside((POST, MASTER)))
    assert {"update_hosts", "upload_cirros", "enable_quorum"} <= beside_post
    assert 20 <= len(beside_post) <= 30
    for name in beside_post:
        assert all((MAIN, MASTER) in found.all_before(place) for place in found.at(name)), name


@pytest.mark.parametrize("release", RELEASES)
def test_hiera_asks_configdb_only_when_its_data_is_there(release: str) -> None:
    """U15: off before anything is uploaded, on between the upload and what is deployed; on nodes, not the master."""
    found = graph(release)
    for name in (OFF, ON):
        assert found.at(name) == {(name, node) for node in ROLES}
    for node in ROLES:
        assert ("plugins_rsync", node) in found.all_before((OFF, node))
        assert (OFF, node) in found.all_before((PRE, MASTER))
        assert {(MAIN, MASTER), ("globals", node)} <= found.all_before((ON, node))
        assert (ON, node) in found.all_before(("logging", node))


@pytest.mark.parametrize("release", RELEASES)
def test_every_name_is_a_task_of_each_release(release: str) -> None:
    """U2: Nailgun drops a relation with nothing without a word, and can't draw the graph (``graph.gv``)."""
    known = [task["id"] for task in (*fuel_tasks(release), *OURS)]
    assert names_no_task(OURS, known) == []
    assert names_no_task(fuel_tasks(release), known) == []
    resolved = graph(release).resolved
    assert [relation for relation in relations(OURS) if not resolved[relation]] == []


def test_the_plugins_page_names_what_runs_between() -> None:
    text = (ROOT / "docs/plugin.md").read_text(encoding="utf-8")
    listed = text.split("Fuel's own tasks around them:")[1].split("Two more tasks")[0]
    assert [name for name in sorted(BEFORE_MAIN | BEFORE_MAIN_FROM_9_2) if f"`{name}`" not in listed] == []


def test_the_page_on_the_graph_lists_the_relations() -> None:
    text = (ROOT / "docs/decisions/tasks-in-the-graph.md").read_text(encoding="utf-8")
    listed = [line.replace("\\|", "|") for line in text.splitlines() if line.startswith("| `")]
    assert listed == [f"| `{task}` | {kind} | `{name}` |" for task, kind, name in relations(OURS)]


@pytest.mark.parametrize("release", ["9.0.1", "newton"])
def test_the_model_resolves_as_the_real_nailgun_did(release: str) -> None:
    """Nailgun's own answer for a task of the same form: ``serialised_task.json``."""
    data = require_data() / "nailgun" / release
    tasks = json.loads((data / "api_clusters__deployment_tasks.json").read_text())
    nodes = json.loads((data / "api_nodes__cluster_id.json").read_text())
    said = json.loads((data / "serialised_task.json").read_text())[0]
    roles = _roles(nodes)
    found = build(tasks, roles)
    place = (said["id"], MASTER)
    assert found.before[place] == {(each["name"], each["node_id"]) for each in said["requires"]}
    after = {other for other, before in found.before.items() if place in before}
    assert after == {(each["name"], each["node_id"]) for each in said["required_for"]}


@pytest.mark.parametrize("release", ["9.0.1", "newton"])
def test_our_tasks_among_a_real_nailguns(release: str) -> None:
    data = require_data() / "nailgun" / release
    tasks = json.loads((data / "api_clusters__deployment_tasks.json").read_text())
    nodes = json.loads((data / "api_nodes__cluster_id.json").read_text())
    known = {task["id"] for task in tasks}
    # Stored is a part of the graph: what it lacks is as in that release.
    whole = [each for each in tasks if each["id"] != MAIN]
    whole += [each for each in fuel_tasks(release) if each["id"] not in known]
    whole += OURS
    found = build(whole, _roles(nodes))
    assert found.cycle() == []
    for place in found.at("logging"):
        assert (MAIN, MASTER) in found.all_before(place)
    earlier = found.all_before((MAIN, MASTER))
    for name in ("globals", "override_configuration", "upload_configuration", "upload_node_configuration"):
        assert found.at(name) <= earlier, name


def _roles(nodes: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the roles and tags by node; the first controller is the primary one."""
    found: dict[str, list[str]] = {}
    controller = CONTROLLER
    for node in nodes:
        roles = [*node["roles"], *node["pending_roles"]]
        found[str(node["id"])] = controller if "controller" in roles else roles
        if "controller" in roles:
            controller = [role.removeprefix("primary-") for role in CONTROLLER]
    return found
