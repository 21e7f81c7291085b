"""Trees that tests make, and what is compared of them."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from configdb_sync.nodes.directory import DirectoryNodes
from configdb_sync.nodes.node_files import NodeFile, NodeRead
from configdb_sync.nodes.tree import NodeTree

ASTUTE = b"uid: '46'\ndeployment_id: 16\n"


def make_node(root: Path, identity: str = "46", env: int = 16, *, absolute: bool = False) -> Path:
    """Make a tree with the links of Fuel 9, relative or absolute."""
    node = root / f"node-{identity}"
    cluster = node / f"etc/fuel/cluster/{env}"
    cluster.mkdir(parents=True)
    (cluster / "astute.yaml").write_bytes(ASTUTE)
    (node / "etc/hiera").mkdir()
    if absolute:
        (node / "etc/hiera/astute.yaml").symlink_to("/etc/astute.yaml")
        (node / "etc/astute.yaml").symlink_to(f"/etc/fuel/cluster/{env}/astute.yaml")
    else:
        (node / "etc/hiera/astute.yaml").symlink_to("../astute.yaml")
        (node / "etc/astute.yaml").symlink_to(f"fuel/cluster/{env}/astute.yaml")
    return node


def nodes_at(root: Path) -> DirectoryNodes:
    return DirectoryNodes(root, env=16)


def read_one(nodes: DirectoryNodes, identity: str = "46") -> NodeRead:
    (found,) = nodes.read([identity])
    assert isinstance(found, NodeRead), found
    return found


def file_of(nodes: DirectoryNodes, path: str, identity: str = "46") -> NodeFile:
    return read_one(nodes, identity).files[path]


def snapshot(top: Path) -> dict[str, tuple[object, ...]]:
    """Return what every path below ``top`` is, so that any change of it shows."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(top.rglob("*")):
        state = path.lstat()
        if path.is_symlink():
            content: object = str(path.readlink())
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        else:
            content = None
        found[str(path.relative_to(top))] = (state.st_mode, state.st_uid, state.st_gid, content)
    return found


@contextmanager
def open_tree(node: Path) -> Iterator[NodeTree]:
    top = os.open(node, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield NodeTree(top)
    finally:
        os.close(top)


def open_descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
