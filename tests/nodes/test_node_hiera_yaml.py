"""U24: a node's own hiera.yaml is read with its settings files, from trees and over the bus, and can do no harm."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from configdb_sync.nodes.node_files import HIERA_YAML, HIERA_YAML_LIMIT, NodeRead
from tests.nodes import shell
from tests.nodes.trees import make_node, nodes_at, open_descriptors, read_one

TEXT = b":hierarchy: [astute, globals]\n"
OWN, PUPPET, NEW = HIERA_YAML[2][1:], HIERA_YAML[1][1:], HIERA_YAML[0][1:]


def from_tree(node: Path) -> NodeRead:
    return read_one(nodes_at(node.parent))


def over_the_bus(node: Path) -> NodeRead:
    found, commands = shell.read(node)
    assert isinstance(found, NodeRead), found
    assert commands == 1
    return found


ways = pytest.mark.parametrize("read", [from_tree, over_the_bus])
Read = Callable[[Path], NodeRead]


def put(node: Path, path: str, content: bytes = TEXT) -> Path:
    place = node / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)
    return place


@ways
def test_the_first_one_that_puppet_takes_is_read(tmp_path: Path, read: Read) -> None:
    node = make_node(tmp_path)
    assert read(node).hiera_yaml is None
    put(node, OWN)
    (node / "etc/puppet").mkdir()
    (node / PUPPET).symlink_to("../hiera.yaml")
    assert read(node).hiera_yaml == TEXT
    put(node, NEW, b"version: 5\n")
    assert read(node).hiera_yaml == b"version: 5\n"


@ways
def test_it_is_no_settings_file(tmp_path: Path, read: Read) -> None:
    node = make_node(tmp_path)
    before = read(node)
    put(node, OWN)
    found = read(node)
    assert (found.files, found.faults) == (before.files, {})


@ways
def test_the_limit_is_small(tmp_path: Path, read: Read) -> None:
    node = make_node(tmp_path)
    put(node, OWN, b"#" * HIERA_YAML_LIMIT)
    assert read(node).hiera_yaml == b"#" * HIERA_YAML_LIMIT
    put(node, OWN, os.urandom(HIERA_YAML_LIMIT + 1))
    found = read(node)
    assert (found.hiera_yaml, found.faults, list(found.files)) == (None, {}, ["astute.yaml"])


@ways
@pytest.mark.parametrize("kind", ["fifo", "folder", "loop", "dangling", "device"])
def test_what_is_no_file_is_passed_over(tmp_path: Path, read: Read, kind: str) -> None:
    node = make_node(tmp_path)
    place = node / PUPPET
    place.parent.mkdir()
    if kind == "fifo":
        os.mkfifo(place)
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to({"loop": "hiera.yaml", "dangling": "none.yaml", "device": "/dev/zero"}[kind])
    before = open_descriptors()
    found = read(node)
    assert (found.hiera_yaml, found.faults, list(found.files)) == (None, {}, ["astute.yaml"])
    put(node, OWN)
    assert read(node).hiera_yaml == TEXT
    assert open_descriptors() == before


def test_no_link_leads_out_of_a_tree(tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text("password: CANARY\n")
    node = make_node(tmp_path)
    (node / OWN).symlink_to("../../secret.yaml")
    assert from_tree(node).hiera_yaml is None
    (node / OWN).unlink()
    (node / OWN).symlink_to(tmp_path / "secret.yaml")
    assert from_tree(node).hiera_yaml is None
    put(node, "secret.yaml")
    (node / OWN).unlink()
    (node / OWN).symlink_to("../../../../secret.yaml")
    assert from_tree(node).hiera_yaml == TEXT


@pytest.mark.parametrize("size", [2_000_000, 40_000])
def test_it_comes_with_files_that_one_answer_does_not_hold(tmp_path: Path, size: int) -> None:
    node = make_node(tmp_path)
    put(node, OWN)
    for number in range(4):
        put(node, f"etc/hiera/{number}.yaml", b"#" + os.urandom(size))
    (node / "etc/elsewhere").mkdir()
    (node / "etc/hiera/linked").symlink_to("../elsewhere")
    found, commands = shell.read(node)
    assert isinstance(found, NodeRead)
    assert commands > 1
    assert found.hiera_yaml == TEXT
    assert len(found.files) == 5
