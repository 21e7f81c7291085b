"""R3: what a node was told to write, to create or to take away is so after a power cut, on a real file system.

The disk is a file: what the file system has not handed to it when the command ends is lost, as in a power cut.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.errors import NodeFileError
from configdb_sync.nodes.directory import DirectoryNodes
from configdb_sync.nodes.mcollective import MCollectiveNodes
from configdb_sync.nodes.node_files import NodeRead, Nodes
from tests.nodes import shell
from tests.nodes.trees import ASTUTE, make_node, snapshot

NEW = ASTUTE + b"more: 1\n"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Give a mounted file system that writes nothing by itself for ten minutes."""
    if os.geteuid() != 0:
        pytest.skip("no root: nothing can be mounted")
    image, place = tmp_path / "disk", tmp_path / "mounted"
    place.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    mkfs = shutil.which("mkfs.ext4", path=f"{os.environ['PATH']}:/sbin:/usr/sbin")
    if mkfs is None:
        pytest.skip("the file system has no mkfs.ext4 here")
    subprocess.run([mkfs, "-q", str(image)], check=True)
    mount(image, place)
    yield place
    subprocess.run(["umount", str(place)], check=True)


def mount(image: Path, place: Path) -> None:
    done = subprocess.run(
        ["mount", "-o", "loop,commit=600", str(image), str(place)], check=False, capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"nothing can be mounted: {done.stderr.strip()}")


def after_power_cut(disk: Path) -> dict[str, Any]:
    """Return what is on the disk if power fails now."""
    copy, place = disk.parent / "copy", disk.parent / "copied"
    shutil.copyfile(disk.parent / "disk", copy)
    place.mkdir(exist_ok=True)
    mount(copy, place)
    try:
        return snapshot(place / "node-46")
    finally:
        subprocess.run(["umount", str(place)], check=True)


def by_bus(disk: Path) -> Nodes:
    return MCollectiveNodes(shell.ShellRpc(), env=16, root=str(disk / "node-46"))


def by_tree(disk: Path) -> Nodes:
    return DirectoryNodes(disk, env=16)


WAYS = pytest.mark.parametrize("way", [by_bus, by_tree])


@WAYS
def test_replaced_created_removed(disk: Path, way: Callable[[Path], Nodes]) -> None:
    node = make_node(disk)
    os.sync()
    nodes = way(disk)
    (read,) = nodes.read(["46"])
    assert isinstance(read, NodeRead)

    nodes.write("46", "astute.yaml", NEW, read.files["astute.yaml"])
    assert after_power_cut(disk) == snapshot(node)

    created = nodes.write("46", "override/node/new.yaml", NEW, None)
    assert after_power_cut(disk) == snapshot(node)

    nodes.remove("46", created)
    assert after_power_cut(disk) == snapshot(node)
    assert not (node / "etc/hiera/override").exists()


def test_a_power_cut_loses_what_was_not_synced(disk: Path) -> None:
    """The test itself can fail: a write without a sync is gone."""
    node = make_node(disk)
    os.sync()
    (node / "etc/hiera/override.yaml").write_bytes(NEW)
    assert after_power_cut(disk) != snapshot(node)


def test_a_disk_that_confirms_nothing_is_an_error_of_that_file(tmp_path: Path) -> None:
    """The agent's machine says EIO: dd's words, as it prints them."""
    node = make_node(tmp_path)
    said = "dd: fsync failed for 'standard output': Input/output error"
    path = shell.slow(tmp_path, "dd", f'echo "{said}" >&2; exit 1')
    nodes = MCollectiveNodes(shell.ShellRpc(path=path), env=16, root=str(node))
    (read,) = nodes.read(["46"])
    assert isinstance(read, NodeRead)
    before = snapshot(node)
    with pytest.raises(NodeFileError, match="can't be written: Input/output error"):
        nodes.write("46", "astute.yaml", NEW, read.files["astute.yaml"])
    assert snapshot(node) == before


def test_a_file_system_that_cant_sync_one_file_syncs_all(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    synced = tmp_path / "synced"
    said = "dd: fsync failed for 'standard output': Invalid argument"
    shell.slow(tmp_path, "dd", f'echo "{said}" >&2; exit 1')
    path = shell.slow(tmp_path, "sync", f"touch '{synced}'; exit 0")
    nodes = MCollectiveNodes(shell.ShellRpc(path=path), env=16, root=str(node))
    (read,) = nodes.read(["46"])
    assert isinstance(read, NodeRead)
    nodes.write("46", "astute.yaml", NEW, read.files["astute.yaml"])
    assert synced.exists()
