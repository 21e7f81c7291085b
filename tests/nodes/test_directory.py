"""Nodes as a folder of trees: identities, writing, removing (U10, U23; W02, W04)."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from configdb_sync.errors import FileChangedError, NodeError, NodeFileError, SettingsError
from configdb_sync.nodes.directory import DirectoryNodes
from configdb_sync.nodes.node_files import NodeRead, Nodes, ReadLimits
from configdb_sync.nodes.tree_writing import MARK
from tests.nodes.trees import ASTUTE, file_of, make_node, nodes_at, open_descriptors, read_one, snapshot
from tests.support.fixtures import make_writable, require_data

NEW = b"uid: '46'\ndeployment_id: 16\nmore: 1\n"


def test_it_is_a_way_to_reach_nodes(tmp_path: Path) -> None:
    make_node(tmp_path)
    nodes: Nodes = DirectoryNodes(tmp_path / "x" / "..", env=16)
    assert nodes.place == f"directory:{tmp_path}"
    assert nodes.identities() == ["46"]


def test_identities_are_the_texts_after_node_in_natural_order(tmp_path: Path) -> None:
    for name in ("node-10", "node-2", "node-07", "node-x", "node-", "other", "Node-3"):
        (tmp_path / name).mkdir()
    (tmp_path / "node-5").write_text("a file")
    (tmp_path / "node-9").symlink_to("node-2")
    os.mkdir(os.fsencode(tmp_path) + b"/node-\xff")  # noqa: PTH102  bytes
    nodes = nodes_at(tmp_path)
    assert nodes.identities() == ["2", "07", "9", "10", "\\xff", "x"]
    assert all(isinstance(item, NodeError) for item in nodes.read(["9", "\\xff"]))


@pytest.mark.parametrize("case", ["missing", "file", "empty", "one tree"])
def test_a_place_without_nodes_is_named_with_what_was_expected(tmp_path: Path, case: str) -> None:
    place = tmp_path / "place"
    if case == "file":
        place.write_text("x")
    elif case == "empty":
        place.mkdir()
    elif case == "one tree":
        (place / "etc/hiera").mkdir(parents=True)
    with pytest.raises(SettingsError) as caught:
        nodes_at(place).identities()
    assert str(place) in str(caught.value)
    assert "a folder with node-<id>/etc/hiera in it is expected" in str(caught.value)


def test_a_place_that_goes_away_is_an_error_for_each_node(tmp_path: Path) -> None:
    make_node(tmp_path / "trees")
    nodes = nodes_at(tmp_path / "trees")
    file = file_of(nodes, "astute.yaml")
    shutil.rmtree(tmp_path / "trees")
    assert isinstance(next(nodes.read(["46"])), NodeError)
    with pytest.raises(NodeError, match="can't be opened"):
        nodes.write("46", "astute.yaml", NEW, file)


@pytest.mark.parametrize("form", ["links", "absolute links", "texts"])
def test_the_target_is_written_and_the_links_stay(tmp_path: Path, form: str) -> None:
    node = make_node(tmp_path, absolute=form == "absolute links")
    if form == "texts":
        for path, text in (
            ("etc/hiera/astute.yaml", "../astute.yaml"),
            ("etc/astute.yaml", "fuel/cluster/16/astute.yaml"),
        ):
            (node / path).unlink()
            (node / path).write_text(text)
    target = node / "etc/fuel/cluster/16/astute.yaml"
    target.chmod(0o600)
    before = snapshot(tmp_path)
    descriptors = open_descriptors()
    nodes = nodes_at(tmp_path)
    written = nodes.write("46", "astute.yaml", NEW, file_of(nodes, "astute.yaml"))
    assert open_descriptors() == descriptors
    after = snapshot(tmp_path)
    changed = {path for path in before | after if before.get(path) != after.get(path)}
    assert changed == {"node-46/etc/fuel/cluster/16/astute.yaml"}
    assert (target.read_bytes(), stat.S_IMODE(target.stat().st_mode)) == (NEW, 0o600)
    assert written == file_of(nodes, "astute.yaml")
    again = nodes.write("46", "astute.yaml", ASTUTE, written)
    assert snapshot(tmp_path) == before
    assert again.content == ASTUTE


def test_a_file_that_changed_or_went_since_it_was_read_is_left_alone(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    nodes = nodes_at(tmp_path)
    file = file_of(nodes, "astute.yaml")
    target = node / "etc/fuel/cluster/16/astute.yaml"
    target.write_bytes(b"theirs: 1\n")
    with pytest.raises(FileChangedError, match=r"node 46, file astute\.yaml: was changed after it was read"):
        nodes.write("46", "astute.yaml", NEW, file)
    assert target.read_bytes() == b"theirs: 1\n"
    target.unlink()
    for call in (lambda: nodes.write("46", "astute.yaml", NEW, file), lambda: nodes.remove("46", file)):
        with pytest.raises(FileChangedError):
            call()
    shutil.rmtree(node / "etc/fuel")
    with pytest.raises(FileChangedError):
        nodes.write("46", "astute.yaml", NEW, file)
    assert not (node / "etc/fuel").exists()


def test_a_link_that_leads_elsewhere_by_now_is_a_change(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    nodes = nodes_at(tmp_path)
    file = file_of(nodes, "astute.yaml")
    other = node / "etc/fuel/cluster/16/other.yaml"
    other.write_bytes(ASTUTE)
    (node / "etc/astute.yaml").unlink()
    (node / "etc/astute.yaml").symlink_to("fuel/cluster/16/other.yaml")
    with pytest.raises(FileChangedError):
        nodes.write("46", "astute.yaml", NEW, file)
    assert other.read_bytes() == ASTUTE


def test_only_the_allowed_places_are_written(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    (node / "etc/shadow").write_bytes(b"x: 1\n")
    (node / "etc/hiera-more").mkdir()
    (node / "etc/hiera-more/x.yaml").write_bytes(b"x: 1\n")
    hiera = node / "etc/hiera"
    (hiera / "shadow.yaml").symlink_to("/etc/shadow")
    (hiera / "beside.yaml").symlink_to("../hiera-more/x.yaml")
    (hiera / "folder").symlink_to("../hiera-more")
    nodes = nodes_at(tmp_path)
    files = read_one(nodes).files
    before = snapshot(tmp_path)
    for path in ("shadow.yaml", "beside.yaml"):
        with pytest.raises(NodeFileError, match=rf"node 46, file {path}: leads to /etc/.*, which may not be written"):
            nodes.write("46", path, NEW, files[path])
    for path in ("folder/new.yaml", "folder/deep/new.yaml"):
        with pytest.raises(NodeFileError, match=r"leads to /etc/hiera-more/.*, which may not be written"):
            nodes.write("46", path, NEW, None)
    other = DirectoryNodes(tmp_path, env=17)
    with pytest.raises(
        NodeFileError,
        match=r"writable allows /etc/hiera, /etc/astute\.yaml, /etc/fuel/cluster/17, /etc/<role>\.yaml",
    ):
        other.write("46", "astute.yaml", NEW, files["astute.yaml"])
    with pytest.raises(NodeFileError, match="which may not be written"):
        DirectoryNodes(tmp_path, env=None).write("46", "astute.yaml", NEW, files["astute.yaml"])
    assert snapshot(tmp_path) == before
    DirectoryNodes(tmp_path, env=16, writable=["/etc/shadow/"]).write("46", "shadow.yaml", NEW, files["shadow.yaml"])
    assert (node / "etc/shadow").read_bytes() == NEW


@pytest.mark.parametrize("place", ["etc/hiera", "", "/etc/../root", "./x"])
def test_an_allowed_place_must_be_an_absolute_path(tmp_path: Path, place: str) -> None:
    with pytest.raises(SettingsError, match="writable is not valid"):
        DirectoryNodes(tmp_path, env=16, writable=[place])


@pytest.mark.parametrize(
    "path",
    [
        "",
        "x",
        "x.yml",
        "/x.yaml",
        "../x.yaml",
        "a/../x.yaml",
        "a//x.yaml",
        "./x.yaml",
        "a\nb.yaml",
        "a\0.yaml",
        "a\\b.yaml",
        "\udcff.yaml",
    ],
)
def test_an_odd_path_is_never_written(tmp_path: Path, path: str) -> None:
    make_node(tmp_path)
    before = snapshot(tmp_path)
    with pytest.raises(NodeFileError, match="can't be a settings file"):
        nodes_at(tmp_path).write("46", path, NEW, None)
    assert snapshot(tmp_path) == before


def test_content_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    make_node(tmp_path)
    with pytest.raises(NodeFileError, match="would be larger than 10 bytes"):
        DirectoryNodes(tmp_path, env=16, limits=ReadLimits(file=10)).write("46", "x.yaml", NEW, None)


def test_a_file_created_for_an_override_goes_without_a_trace(tmp_path: Path) -> None:
    """U23: with the folders that were made for it."""
    node = make_node(tmp_path)
    (node / "etc/hiera").chmod(0o750)
    before = snapshot(tmp_path)
    nodes = nodes_at(tmp_path)
    one = nodes.write("46", "override/node/a.yaml", NEW, None)
    two = nodes.write("46", "override/b.yaml", NEW, None)
    assert (one.mode, one.target) == (0o640, "/etc/hiera/override/node/a.yaml")
    assert stat.S_IMODE((node / "etc/hiera/override/node").stat().st_mode) == 0o750
    assert file_of(nodes, "override/node/a.yaml") == one
    nodes.remove("46", one)
    assert sorted(item.name for item in (node / "etc/hiera/override").iterdir()) == [MARK, "b.yaml"]
    nodes.remove("46", two)
    assert snapshot(tmp_path) == before


def test_folders_that_were_there_or_hold_something_stay(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    (node / "etc/hiera/override").mkdir()
    nodes = nodes_at(tmp_path)
    file = nodes.write("46", "override/node/a.yaml", NEW, None)
    (node / "etc/hiera/override/node/theirs.yaml").write_bytes(b"x: 1\n")
    nodes.remove("46", file)
    assert (node / "etc/hiera/override/node/theirs.yaml").exists()
    plain = nodes.write("46", "override/a.yaml", NEW, None)
    nodes.remove("46", plain)
    assert (node / "etc/hiera/override").is_dir()


def test_a_creation_that_fails_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_node(tmp_path)
    before = snapshot(tmp_path)

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(NodeFileError, match=r"can't be written: No space left on device \(free space"):
        nodes_at(tmp_path).write("46", "override/node/a.yaml", NEW, None)
    assert snapshot(tmp_path) == before


def test_what_is_there_is_never_replaced_by_a_new_file(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    hiera = node / "etc/hiera"
    (hiera / "dangling.yaml").symlink_to("nothing.yaml")
    (hiera / "folder.yaml").mkdir()
    (hiera / "file").write_text("x")
    (hiera / "nowhere").symlink_to("/var/none")
    before = snapshot(tmp_path)
    nodes = nodes_at(tmp_path)
    for path, error, text in (
        ("astute.yaml", FileChangedError, "was created by someone else"),
        ("dangling.yaml", NodeFileError, "is a link to /etc/hiera/nothing"),
        ("folder.yaml", FileChangedError, "was created by someone else"),
        ("file/x.yaml", NodeFileError, "in the way and is no folder"),
        ("nowhere/x.yaml", NodeFileError, r"can't be written|in the way"),
    ):
        with pytest.raises(error, match=text):
            nodes.write("46", path, NEW, None)
    assert snapshot(tmp_path) == before


def test_of_many_that_create_one_file_one_succeeds(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    nodes = nodes_at(tmp_path)
    for round_number in range(10):
        path = f"override/round{round_number}.yaml"
        outcomes: list[object] = []

        def create(content: bytes, path: str = path, outcomes: list[object] = outcomes) -> None:
            try:
                outcomes.append(nodes.write("46", path, content, None).content)
            except FileChangedError as error:
                outcomes.append(error)

        threads = [threading.Thread(target=create, args=(b"by: %d\n" % number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (content,) = [item for item in outcomes if isinstance(item, bytes)]
        assert len(outcomes) == 6
        assert (node / "etc/hiera" / path).read_bytes() == content


def test_a_link_is_never_removed_nor_what_it_leads_to(tmp_path: Path) -> None:
    make_node(tmp_path)
    before = snapshot(tmp_path)
    nodes = nodes_at(tmp_path)
    with pytest.raises(NodeFileError, match="only a file that was created here can be removed"):
        nodes.remove("46", file_of(nodes, "astute.yaml"))
    assert snapshot(tmp_path) == before


def test_a_file_with_a_second_name_outside_is_not_written(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    (tmp_path / "outside.yaml").write_bytes(ASTUTE)
    os.link(tmp_path / "outside.yaml", node / "etc/hiera/globals.yaml")
    nodes = nodes_at(tmp_path)
    with pytest.raises(NodeFileError, match=r"has 2 names \(hard links\)"):
        nodes.write("46", "globals.yaml", NEW, file_of(nodes, "globals.yaml"))
    assert (tmp_path / "outside.yaml").read_bytes() == ASTUTE


def test_the_next_write_cleans_up_after_a_killed_one(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    leftover = node / "etc/fuel/cluster/16/.configdb-sync.0123456789abcdef.tmp"
    leftover.write_bytes(b"half")
    nodes = nodes_at(tmp_path)
    file = nodes.write("46", "astute.yaml", NEW, file_of(nodes, "astute.yaml"))
    assert leftover.exists()
    late = DirectoryNodes(tmp_path, env=16, clock=lambda: leftover.stat().st_mtime + 601)
    late.write("46", "astute.yaml", ASTUTE, file)
    assert not leftover.exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a file system of 64 KB."""
    place = tmp_path / "small"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("no root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        pytest.skip(f"nothing can be mounted: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_fails_that_file_alone_and_leaves_it_as_it_was(small_disk: Path) -> None:
    """W04."""
    make_node(small_disk, "46")
    make_node(small_disk.parent, "47")
    (small_disk.parent / "node-46").mkdir()
    nodes = nodes_at(small_disk)
    file = file_of(nodes, "astute.yaml")
    before = snapshot(small_disk)
    for path, expected in (("astute.yaml", file), ("override/new.yaml", None)):
        with pytest.raises(
            NodeFileError, match=f"node 46, file {path}: can't be written: No space left on device .free space"
        ):
            nodes.write("46", path, b"#" * 100_000, expected)
        assert snapshot(small_disk) == before
    other = nodes_at(small_disk.parent)
    other.write("47", "astute.yaml", NEW, file_of(other, "astute.yaml", "47"))


def test_a_read_only_file_system_is_named_with_a_way_out(small_disk: Path) -> None:
    make_node(small_disk)
    nodes = nodes_at(small_disk)
    file = file_of(nodes, "astute.yaml")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for path, expected in (("astute.yaml", file), ("override/new.yaml", None)):
        with pytest.raises(
            NodeFileError,
            match=f"node 46, file {path}: can't be written: Read-only file system .*copy the trees",
        ):
            nodes.write("46", path, NEW, expected)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Make a folder that other users can reach."""
    place = Path(tempfile.mkdtemp(prefix="configdb-sync-"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place)


def as_nobody(script: str, *arguments: str) -> str:
    """Run Python code that calls ``drop_rights()`` after its imports, and return what it prints."""
    head = """
        import os, sys
        def drop_rights():
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(head) + textwrap.dedent(script), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="no root")
def test_without_rights_files_are_faults_and_writes_are_refused(open_folder: Path) -> None:
    node = make_node(open_folder)
    (node / "etc/hiera/closed.yaml").write_bytes(b"x: 1\n")
    (node / "etc/hiera/closed.yaml").chmod(0o600)
    (node / "etc/hiera/plugins").mkdir(mode=0o700)
    shared = node / "etc/hiera/override"
    shared.mkdir()
    shared.chmod(0o777)
    (shared / "roots.yaml").write_bytes(b"x: 1\n")
    printed = as_nobody(
        """
        from pathlib import Path
        from configdb_sync.errors import ProductError
        from configdb_sync.nodes.directory import DirectoryNodes
        drop_rights()
        nodes = DirectoryNodes(Path(sys.argv[1]), env=16)
        (found,) = nodes.read(["46"])
        for fault in found.faults.values():
            print(fault)
        for path in ("astute.yaml", "new.yaml", "override/roots.yaml"):
            try:
                nodes.write("46", path, b"x: 2\\n", found.files.get(path))
            except ProductError as error:
                print(error)
        print(nodes.write("46", "override/mine.yaml", b"x: 2\\n", None).owner)
        """,
        str(open_folder),
    ).splitlines()
    owner = "run as root or as the owner of the tree"
    assert printed[0] == f"node 46, file closed.yaml: can't be read: Permission denied ({owner})"
    assert printed[1] == f"node 46, file plugins/: can't be read: Permission denied ({owner})"
    assert printed[2] == f"node 46, file astute.yaml: can't be written: Permission denied ({owner})"
    assert printed[3] == f"node 46, file new.yaml: can't be written: Permission denied ({owner})"
    assert printed[4] == (
        "node 46, file override/roots.yaml: belongs to 0:0, which only root can give a file to"
        " (run as root or as its owner)"
    )
    assert printed[5] == "65534"
    assert (shared / "roots.yaml").read_bytes() == b"x: 1\n"
    assert sorted(item.name for item in shared.iterdir()) == ["mine.yaml", "roots.yaml"]


@pytest.mark.parametrize(
    ("env", "count", "bases"),
    [
        (37, 4, {"astute.yaml": "/etc/astute.yaml"}),
        (13, 7, {"astute.yaml": "/etc/astute.yaml"}),
        (16, 3, {"astute.yaml": "/etc/fuel/cluster/16/astute.yaml"}),
        (
            7,
            3,
            {
                "cluster.yaml": "/etc/fuel/cluster/7/cluster.yaml",
                "node.yaml": "/etc/fuel/cluster/7/node.yaml",
            },
        ),
    ],
)
def test_real_trees_are_read_and_written_in_the_right_place(
    tmp_path: Path, env: int, count: int, bases: dict[str, str]
) -> None:
    copy = tmp_path / "trees"
    shutil.copytree(require_data() / f"clusters/env-{env}", copy, symlinks=True)
    make_writable(copy)
    before = snapshot(copy)
    nodes = DirectoryNodes(copy, env=env)
    assert len(nodes.identities()) == count
    for found in nodes.read(nodes.identities()):
        assert isinstance(found, NodeRead)
        assert found.faults == {}
        for path, target in bases.items():
            file = found.files[path]
            assert file.target == target
            assert len(file.content) > 1000
            changed = nodes.write(found.identity, path, file.content + b"zz_added: 1\n", file)
            assert (copy / f"node-{found.identity}{target}").read_bytes() == changed.content
            nodes.write(found.identity, path, file.content, changed)
        new = nodes.write(found.identity, "override/node/x.yaml", b"a: 1\n", None)
        nodes.remove(found.identity, new)
    assert snapshot(copy) == before
