"""NodeReading a node: every settings file or a fault, the others go on (U8, U14)."""

import hashlib
import os
import re
import socket
import threading
from pathlib import Path

from configdb_sync.errors import NodeError
from configdb_sync.nodes.directory import DirectoryNodes
from configdb_sync.nodes.node_files import NodeRead, ReadLimits
from tests.nodes.trees import ASTUTE, make_node, nodes_at, open_descriptors, read_one


def test_all_yaml_files_are_read_with_what_must_stay(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    deep = node / "etc/hiera/override/configuration"
    deep.mkdir(parents=True)
    (deep / "cluster.yaml").write_bytes(b"a: 1\n")
    (deep / "cluster.yaml").chmod(0o640)
    (node / "etc/hiera/README").write_text("no settings")
    (node / "etc/hiera/.hidden.yaml").write_text("x: 1\n")
    found = read_one(nodes_at(tmp_path))
    assert list(found.files) == [".hidden.yaml", "astute.yaml", "override/configuration/cluster.yaml"]
    assert found.faults == {}
    astute = found.files["astute.yaml"]
    assert (astute.content, astute.target) == (ASTUTE, "/etc/fuel/cluster/16/astute.yaml")
    cluster = found.files["override/configuration/cluster.yaml"]
    assert (cluster.mode, cluster.owner, cluster.group) == (0o640, os.geteuid(), os.getegid())
    assert cluster.sha256 == hashlib.sha256(b"a: 1\n").hexdigest()
    assert cluster.target == "/etc/hiera/override/configuration/cluster.yaml"


def test_each_file_that_cant_be_read_is_a_fault_and_the_others_go_on(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    hiera = node / "etc/hiera"
    (hiera / "large.yaml").write_bytes(b"#" * 101)
    (hiera / "full.yaml").write_bytes(b"#" * 100)
    (hiera / "dangling.yaml").symlink_to("nothing.yaml")
    (hiera / "deeper.yaml").symlink_to("/var/none/nothing.yaml")
    (hiera / "loop.yaml").symlink_to("loop.yaml")
    (hiera / "folder.yaml").mkdir()
    os.mkfifo(hiera / "fifo.yaml")
    (hiera / "to-fifo.yaml").symlink_to("fifo.yaml")
    with socket.socket(socket.AF_UNIX) as listener:
        here = os.open(hiera, os.O_RDONLY)
        try:
            listener.bind(f"/proc/self/fd/{here}/socket.yaml")
        finally:
            os.close(here)
    os.close(os.open(os.fsencode(hiera) + b"/bad\xff.yaml", os.O_WRONLY | os.O_CREAT, 0o600))
    (hiera / "line\nbreak.yaml").write_text("x: 1\n")
    before = open_descriptors()
    found = read_one(DirectoryNodes(tmp_path, env=16, limits=ReadLimits(file=100)))
    assert open_descriptors() == before
    assert sorted(found.files) == ["astute.yaml", "full.yaml"]
    assert {path: fault.what for path, fault in found.faults.items()} == {
        "bad\\xff.yaml": "has a name that is not plain UTF-8 text",
        "dangling.yaml": "is a link to /etc/hiera/nothing.yaml, which isn't there",
        "deeper.yaml": "can't be read: No such file or directory",
        "fifo.yaml": "is not a regular file",
        "folder.yaml": "is not a regular file",
        "large.yaml": "is larger than 100 bytes",
        "line\\x0abreak.yaml": "has a name that is not plain UTF-8 text",
        "loop.yaml": "can't be read: Too many levels of symbolic links",
        "socket.yaml": "is not a regular file",
        "to-fifo.yaml": "is not a regular file",
    }
    for path, fault in found.faults.items():
        assert (fault.node, fault.file) == ("46", path)


def test_a_folder_that_cant_be_listed_is_a_fault_for_all_below_it(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    hiera = node / "etc/hiera"
    (hiera / "plugins").symlink_to("/var/lib/plugins")
    (hiera / "override").mkdir()
    (hiera / "override/again").symlink_to("..")
    os.mkdir(os.fsencode(hiera) + b"/odd\xff")  # noqa: PTH102  bytes
    found = read_one(nodes_at(tmp_path))
    assert set(found.faults) == {"plugins/", "override/again/", "odd\\xff/"}
    assert found.fault_of("plugins/ldap.yaml") is found.faults["plugins/"]
    assert found.fault_of("plugins/deep/ldap.yaml") is found.faults["plugins/"]
    assert found.fault_of("override/plugins.yaml") is None
    assert found.faults["override/again/"].what == "is a link to a folder that it lies in"


def test_a_link_to_a_folder_is_followed_as_on_the_node(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    (node / "var/plugins").mkdir(parents=True)
    (node / "var/plugins/ldap.yaml").write_bytes(b"a: 1\n")
    (node / "etc/hiera/plugins").symlink_to("/var/plugins")
    assert read_one(nodes_at(tmp_path)).files["plugins/ldap.yaml"].target == "/var/plugins/ldap.yaml"


def test_a_hiera_folder_that_is_a_link_is_followed_inside_the_tree(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    (node / "etc/hiera").rename(node / "etc/data")
    (node / "etc/hiera").symlink_to("/etc/data")
    assert read_one(nodes_at(tmp_path)).files["astute.yaml"].target == "/etc/fuel/cluster/16/astute.yaml"


def test_one_file_by_two_paths_is_read_once(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    hiera = node / "etc/hiera"
    (hiera / "globals.yaml").write_bytes(b"a: 1\n")
    (hiera / "alias.yaml").symlink_to("globals.yaml")
    (hiera / "zz.yaml").symlink_to("../astute.yaml")
    found = read_one(nodes_at(tmp_path))
    assert sorted(found.files) == ["astute.yaml", "globals.yaml"]
    assert found.faults["alias.yaml"].what == "leads to the same file as globals.yaml, /etc/hiera/globals.yaml"
    assert "same file as astute.yaml" in found.faults["zz.yaml"].what


def test_hostile_depth_number_and_size_are_bounded(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    place = node / "etc/hiera"
    for _ in range(40):
        place /= "d"
        place.mkdir()
        (place / "x.yaml").write_bytes(b"a: 1\n")
    found = read_one(nodes_at(tmp_path))
    assert len(found.files) == 17
    assert [fault.what for fault in found.faults.values()] == ["lies more than 16 folders deep"]
    found = read_one(DirectoryNodes(tmp_path, env=16, limits=ReadLimits(entries=5)))
    assert [fault.what for fault in found.faults.values()] == ["holds more than 5 entries"]
    small = DirectoryNodes(tmp_path, env=16, limits=ReadLimits(node=len(ASTUTE) + 5))
    assert sorted(read_one(small).files) == ["astute.yaml", "d/x.yaml"]


def test_a_node_without_the_folder_is_an_error_for_that_node(tmp_path: Path) -> None:
    make_node(tmp_path, "46")
    (tmp_path / "node-47").mkdir()
    (tmp_path / "node-48").mkdir()
    (tmp_path / "node-48/etc").write_text("a file")
    (tmp_path / "node-49").symlink_to("node-46")
    (tmp_path / "node-50").symlink_to("nowhere")
    nodes = nodes_at(tmp_path)
    found = list(nodes.read([*nodes.identities(), "51", "../46", "", "a\0b", "46\n"]))
    assert isinstance(found[0], NodeRead)
    errors = [str(item) for item in found[1:] if isinstance(item, NodeError)]
    assert len(errors) == len(found) - 1
    for error, text in zip(
        errors,
        [
            "node 47: /etc/hiera can't be listed: No such file or directory",
            "node 48: /etc/hiera can't be listed: Not a directory",
            "node 49: .*node-49 can't be opened",
            "node 50: .*node-50 can't be opened",
            "node 51: .*node-51 can't be opened: No such file",
            r"node \.\./46: can't be the name",
            "node : can't be the name",
            r"node a\\x00b: can't be the name",
            r"node 46\\x0a: can't be the name",
        ],
        strict=True,
    ):
        assert re.match(text, error), error


def test_one_node_is_read_at_a_time(tmp_path: Path) -> None:
    for identity in ("1", "2"):
        make_node(tmp_path, identity)
    walk = nodes_at(tmp_path).read(["1", "2"])
    next(walk)
    (tmp_path / "node-2/etc/hiera/late.yaml").write_bytes(b"a: 1\n")
    second = next(walk)
    assert isinstance(second, NodeRead)
    assert "late.yaml" in second.files


def test_folders_that_turn_into_links_meanwhile_lead_nowhere(tmp_path: Path) -> None:
    """A race: the folder is at one moment a folder, at the next a link out of the tree."""
    node = make_node(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.yaml").write_bytes(b"secret: 1\n")
    hiera = node / "etc/hiera"
    (hiera / "plugins").mkdir()
    (hiera / "plugins/x.yaml").write_bytes(b"a: 1\n")
    (hiera / "link").symlink_to("../../../outside")
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (hiera / "plugins").rename(hiera / "kept")
            (hiera / "link").rename(hiera / "plugins")
            (hiera / "plugins").rename(hiera / "link")
            (hiera / "kept").rename(hiera / "plugins")

    worker = threading.Thread(target=swap)
    worker.start()
    try:
        seen = {
            file.content for _ in range(200) for path, file in read_one(nodes_at(tmp_path)).files.items() if "x" in path
        }
    finally:
        stop.set()
        worker.join()
    assert seen <= {b"a: 1\n"}
