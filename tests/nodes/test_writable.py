"""Which files may be written, in node trees and over MCollective alike: the setting ``writable`` (F4, F5, U10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.errors import FileChangedError, NodeFileError, SettingsError
from configdb_sync.nodes.directory import DirectoryNodes
from configdb_sync.nodes.mcollective import MCollectiveNodes
from configdb_sync.nodes.node_files import NodeFile, NodeRead, Nodes
from configdb_sync.nodes.writable import writable_files
from configdb_sync.settings import DEFAULT_WRITABLE
from tests.nodes.shell import ShellRpc
from tests.nodes.trees import ASTUTE, make_node, snapshot

NEW = b"uid: '46'\ndeployment_id: 16\nmore: 1\n"
Open = Callable[..., Nodes]


@pytest.fixture
def node(tmp_path: Path) -> Path:
    return make_node(tmp_path)


@pytest.fixture(params=["directory", "mcollective"])
def nodes(request: pytest.FixtureRequest, node: Path) -> Open:
    def make(writable: Sequence[str] = DEFAULT_WRITABLE, env: int = 16, **more: Any) -> Nodes:
        if request.param == "directory":
            return DirectoryNodes(node.parent, env=env, writable=writable)
        return MCollectiveNodes(ShellRpc(**more), env=env, root=str(node), writable=writable)

    return make


def file_of(nodes: Nodes, path: str = "astute.yaml") -> NodeFile:
    (found,) = nodes.read(["46"])
    assert isinstance(found, NodeRead), found
    return found.files[path]


def link(path: Path, target: str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


@pytest.fixture
def role(node: Path) -> Path:
    """A node as fuel-astute's connect_facts leaves it: /etc/astute.yaml leads to the file of a role."""
    path = node / "etc/primary-controller.yaml"
    path.write_bytes(ASTUTE)
    link(node / "etc/astute.yaml", "primary-controller.yaml")
    link(node / "etc/hiera/astute.yaml", "../astute.yaml")
    return path


def test_the_file_of_a_role_is_written_where_astute_yaml_leads_to_it(nodes: Open, role: Path) -> None:
    way = nodes()
    written = way.write("46", "astute.yaml", NEW, file_of(way))
    assert role.read_bytes() == NEW
    assert (written.target, written) == ("/etc/primary-controller.yaml", file_of(way))
    assert (role.parent / "astute.yaml").is_symlink()


def test_the_file_of_a_role_that_astute_yaml_does_not_lead_to_is_left_alone(
    nodes: Open, node: Path, role: Path
) -> None:
    link(node / "etc/hiera/other.yaml", "../other-role.yaml")
    (node / "etc/other-role.yaml").write_bytes(ASTUTE)
    way = nodes()
    file = file_of(way, "other.yaml")
    before = snapshot(node)
    with pytest.raises(
        NodeFileError, match=r"leads to /etc/other-role\.yaml, .*the setting writable allows /etc/hiera,"
    ):
        way.write("46", "other.yaml", NEW, file)
    assert snapshot(node) == before


def test_only_a_plain_name_is_a_role(nodes: Open, node: Path) -> None:
    (node / "etc/deep").mkdir()
    for target in ("deep/role.yaml", "shadow", "role.yaml.bak"):
        (node / "etc" / target).write_bytes(ASTUTE)
        link(node / "etc/astute.yaml", target)
        link(node / "etc/hiera/astute.yaml", "../astute.yaml")
        way = nodes()
        with pytest.raises(NodeFileError, match="the setting writable allows"):
            way.write("46", "astute.yaml", NEW, file_of(way))
        assert (node / "etc" / target).read_bytes() == ASTUTE


def test_a_link_that_leads_elsewhere_since_the_file_was_read_is_found(nodes: Open, node: Path, role: Path) -> None:
    (node / "etc/compute.yaml").write_bytes(ASTUTE)
    way = nodes()
    file = file_of(way)
    link(node / "etc/hiera/astute.yaml", "../primary-controller.yaml")
    link(node / "etc/astute.yaml", "compute.yaml")
    with pytest.raises((NodeFileError, FileChangedError)):
        way.write("46", "astute.yaml", NEW, file)
    assert role.read_bytes() == ASTUTE


def test_another_environments_folder_is_never_written(nodes: Open, node: Path) -> None:
    other = node / "etc/fuel/cluster/17"
    other.mkdir()
    (other / "astute.yaml").write_bytes(ASTUTE)
    link(node / "etc/astute.yaml", "fuel/cluster/17/astute.yaml")
    link(node / "etc/hiera/astute.yaml", "../astute.yaml")
    way = nodes()
    file = file_of(way)
    with pytest.raises(NodeFileError, match=r"cluster/17/astute\.yaml.*writable allows .*/etc/fuel/cluster/16"):
        way.write("46", "astute.yaml", NEW, file)
    assert nodes(env=17).write("46", "astute.yaml", NEW, file).content == NEW


def test_what_the_setting_names_is_written_and_nothing_else(nodes: Open, node: Path) -> None:
    (node / "srv/folder").mkdir(parents=True)
    (node / "srv/plugin.yaml").write_bytes(b"x: 1\n")
    link(node / "etc/hiera/plugin.yaml", "../../srv/plugin.yaml")
    link(node / "etc/hiera/folder", "../../srv/folder")
    with pytest.raises(NodeFileError, match="the setting writable allows"):
        nodes().write("46", "folder/new.yaml", NEW, None)
    way = nodes(["/srv/"])
    assert way.write("46", "plugin.yaml", NEW, file_of(way, "plugin.yaml")).content == NEW
    assert way.write("46", "folder/new.yaml", NEW, None).target == "/srv/folder/new.yaml"
    with pytest.raises(NodeFileError, match=r"the setting writable allows /srv\)"):
        way.write("46", "astute.yaml", NEW, file_of(way))


@pytest.mark.parametrize(
    "place",
    [
        *("", "/", "//", "etc/hiera", "./x", "/etc/../root", "/etc/./x", "/etc//x", "/etc/hiera\n"[:4] + "\n/x", "~/x"),
        *(
            "/etc",
            "/etc/fuel",
            "/etc/fuel/cluster",
            "/etc/fuel/cluster/",
            "/etc/fuel/cluster/17",
            "/etc/fuel/cluster/1",
        ),
        *(
            "/etc/fuel/cluster/<role>.yaml",
            "/etc/<env>x",
            "/etc/<role>/x",
            "/etc/<x>",
            "/<role>/y.yaml",
            "/a/<role><role>",
        ),
    ],
)
def test_what_would_open_more_than_it_says_is_refused(place: str) -> None:
    with pytest.raises(SettingsError, match="writable is not valid"):
        writable_files(["/etc/hiera", place], 16)


def test_without_an_environment_no_folder_of_one_is_open() -> None:
    found = writable_files()
    assert found.places == ("/etc/hiera", "/etc/astute.yaml")
    assert writable_files(env=16).places == (*found.places, "/etc/fuel/cluster/16")


@given(st.text(alphabet="/.abc<>\n\0é0", max_size=20), st.integers(1, 99))
def test_no_target_leaves_its_folder(rest: str, env: int) -> None:
    found = writable_files(env=env)
    if found.allows_linked(f"/etc/{rest}.yaml"):
        assert rest
        assert not set(rest) & set("/\0\n")
    assert not found.allows(f"/etc/fuel/cluster/{env}0/{rest}")
    assert not found.allows(f"/etc/hiera{rest}") or not rest or rest.startswith("/")
