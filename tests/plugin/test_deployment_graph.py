"""U1, U2, S11: where Fuel's four releases put the plugin's tasks, by a model that is checked against a real Nailgun."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.plugin.deployment_graph import MASTER, RELATIONS, Graph, Place, build
from tests.support.fixtures import require_data

ROOT = Path(__file__).resolve().parents[2]
OURS: list[dict[str, Any]] = yaml.safe_load((ROOT / "deployment_tasks.yaml").read_text(encoding="utf-8"))
PRE, MAIN, POST = (f"upload_data_to_configdb{suffix}" for suffix in ("_pre", "", "_post"))
OFF, ON = "configdb_hiera_off", "configdb_hiera_on"
RELEASES = ("9.0.1", "9.2", "newton", "ocata")
ROLES = {"1": ["primary-controller"], "2": ["compute", "cinder"], "3": ["ceph-osd"]}
EVERYWHERE = ["/.*/"]

Task = dict[str, Any]


def task(name: str, role: list[str], requires: Iterable[str] = (), required_for: Iterable[str] = ()) -> Task:
    return {
        "id": name,
        "type": "puppet",
        "role": role,
        "requires": list(requires),
        "required_for": list(required_for),
    }


def cross(made: Task, name: str, role: str) -> Task:
    return made | {"cross-depends": [{"name": name, "role": role}]}


def core(release: str) -> list[Task]:
    """The core's tasks that matter here, as each release has them, and some that are deployed afterwards."""
    stages = ["pre_deployment_start", "pre_deployment_end", "deploy_start"]
    stages += ["deploy_end", "post_deployment_start", "post_deployment_end"]
    found: list[Task] = [
        {"id": name, "type": "stage", "requires": [before] if before else []}
        for name, before in zip(stages, ["", *stages], strict=False)
    ]
    begins = ["pre_deployment_start"]
    found += [
        task("rsync_core_puppet", EVERYWHERE, required_for=begins),
        task("pre_hiera_config", EVERYWHERE, ["rsync_core_puppet"], begins),
        task("override_configuration", EVERYWHERE, ["pre_hiera_config"], begins),
        task("plugins_rsync", EVERYWHERE, required_for=begins),
        task("plugins_setup_repositories", EVERYWHERE, required_for=begins),
        task("setup_repositories", EVERYWHERE, ["hiera"], ["deploy_end"]),
        task("fuel_pkgs", EVERYWHERE, ["setup_repositories"], ["globals"]),
        task("hiera", EVERYWHERE, ["deploy_start"], ["deploy_end"]),
        task("globals", EVERYWHERE, ["hiera"], ["deploy_end"]),
        task("logging", EVERYWHERE, ["globals", "setup_repositories"], ["deploy_end"]),
        task("netconfig", EVERYWHERE, ["logging"], ["deploy_end"]),
        task("openstack-controller", ["primary-controller"], ["netconfig"], ["deploy_end"]),
        task("upload_nodes_info", EVERYWHERE, ["post_deployment_start"], ["post_deployment_end"]),
    ]
    master_too = ["master", *EVERYWHERE]
    if release.startswith("9."):
        found.append(task("upload_configuration", master_too, ["override_configuration"], begins))
    else:
        copy = task("copy_cluster_configuration", EVERYWHERE, ["override_configuration"], begins)
        found += [
            task("upload_node_configuration", master_too, ["override_configuration"], begins),
            task("upload_cluster_configuration", ["master"], required_for=begins),
            cross(copy, "upload_cluster_configuration", "master"),
        ]
    return found


def graph(release: str) -> Graph:
    return build([*core(release), *OURS], ROLES)


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
    writers |= {name for name in names(found.before) if name.startswith(("upload_configuration", "copy_cluster"))}
    writers |= {"upload_node_configuration"} & names(found.before)
    for name in writers:
        assert found.at(name) <= earlier, name
        assert {node for _, node in found.at(name)} >= ROLES.keys(), name
    assert {("pre_deployment_end", None), ("deploy_start", None), (PRE, MASTER)} <= earlier


@pytest.mark.parametrize("release", RELEASES)
def test_main_is_before_every_other_deployment_task(release: str) -> None:
    found = graph(release)
    deployed = {
        name for name in names(found.before) if ("deploy_start", None) in found.all_before((name, one(found, name)))
    }
    deployed -= {"hiera", "setup_repositories", "fuel_pkgs", "globals", MAIN}
    assert {"logging", "netconfig", "openstack-controller", "deploy_end"} <= deployed
    for name in deployed:
        for place in found.at(name):
            assert (MAIN, MASTER) in found.all_before(place), place


def one(found: Graph, name: str) -> Any:
    return next(iter(found.at(name)))[1]


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


# Which declared relation comes to something on which release: what a release doesn't know is dropped without a word.
RESOLVED = {
    (PRE, "requires", "pre_deployment_end"): RELEASES,
    (PRE, "required_for", "deploy_start"): RELEASES,
    (MAIN, "requires", "pre_deployment_end"): RELEASES,
    (MAIN, "requires", "upload_configuration"): ("9.0.1", "9.2"),
    (MAIN, "required_for", "deploy_end"): RELEASES,
    (MAIN, "cross-depends", "globals"): RELEASES,
    (MAIN, "cross-depends", "upload_configuration"): ("9.0.1", "9.2"),
    (MAIN, "cross-depends", "upload_node_configuration"): ("newton", "ocata"),
    (MAIN, "cross-depends", "copy_cluster_configuration"): ("newton", "ocata"),
    (MAIN, "cross-depended-by", "logging"): RELEASES,
    (POST, "requires", "post_deployment_start"): RELEASES,
    (POST, "required_for", "post_deployment_end"): RELEASES,
    (OFF, "requires", "plugins_rsync"): RELEASES,
    (OFF, "required_for", "pre_deployment_end"): RELEASES,
    (ON, "requires", "globals"): RELEASES,
    (ON, "required_for", "logging"): RELEASES,
    (ON, "required_for", "deploy_end"): RELEASES,
    (ON, "cross-depends", "upload_data_to_configdb"): RELEASES,
}


def test_each_relation_means_something_on_a_release() -> None:
    found: dict[tuple[str, str, str], tuple[str, ...]] = {}
    for release in RELEASES:
        for relation, places in graph(release).resolved.items():
            if relation[0] in {PRE, MAIN, POST, OFF, ON}:
                found[relation] = (*found.get(relation, ()), *([release] if places else []))
    assert found == RESOLVED


def test_the_page_on_the_graph_lists_them() -> None:
    text = (ROOT / "docs/decisions/tasks-in-the-graph.md").read_text(encoding="utf-8")
    for name, kind, other in RESOLVED:
        assert f"| `{name}` | {kind} | `{other}` |" in text
    assert all(relation in RELATIONS for _, relation, _ in RESOLVED)


@pytest.mark.parametrize("release", ["9.0.1", "newton"])
def test_the_model_resolves_as_the_real_nailgun_did(release: str) -> None:
    """Nailgun's own answer for a task of the same form: ``serialised_task.json``."""
    data = require_data() / "nailgun" / release
    tasks = json.loads((data / "api_clusters__deployment_tasks.json").read_text())
    nodes = json.loads((data / "api_nodes__cluster_id.json").read_text())
    said = json.loads((data / "serialised_task.json").read_text())[0]
    roles = {str(node["id"]): _roles(node) for node in nodes}
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
    whole += [each for each in core(release) if each["id"] not in known]
    whole += OURS
    found = build(whole, {str(node["id"]): _roles(node) for node in nodes})
    assert found.cycle() == []
    for place in found.at("logging"):
        assert (MAIN, MASTER) in found.all_before(place)
    earlier = found.all_before((MAIN, MASTER))
    for name in ("globals", "override_configuration", "upload_configuration", "upload_node_configuration"):
        assert found.at(name) <= earlier, name


def _roles(node: dict[str, Any]) -> list[str]:
    roles = [*node["roles"], *node["pending_roles"]]
    return [*roles, *(f"primary-{role}" for role in roles if role == "controller")]
