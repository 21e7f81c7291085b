"""Paths walked inside a tree ("Directory trees": nothing outside it is read or written)."""

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from configdb_sync.nodes.tree import ResolvedPath
from tests.nodes.trees import make_node, open_descriptors, open_tree


def test_links_lead_to_the_target_as_the_node_has_it(tmp_path: Path) -> None:
    for absolute in (False, True):
        node = make_node(tmp_path / str(absolute), absolute=absolute)
        with open_tree(node) as tree, tree.at("/etc/hiera/astute.yaml") as place:
            assert place.target == "/etc/fuel/cluster/16/astute.yaml"
            assert (place.name, place.regular, place.linked) == ("astute.yaml", True, True)


def test_links_as_text_lead_there_too(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    for path, text in (
        ("etc/hiera/astute.yaml", "../astute.yaml"),
        ("etc/astute.yaml", "fuel/cluster/16/astute.yaml"),
    ):
        (node / path).unlink()
        (node / path).write_text(text)
    with open_tree(node) as tree, tree.at("/etc/hiera/astute.yaml") as place:
        assert place.target == "/etc/fuel/cluster/16/astute.yaml"
    (node / "etc/hiera/astute.yaml").write_text("/etc/astute.yaml")
    (node / "etc/hiera/second.yaml").symlink_to("astute.yaml")
    with open_tree(node) as tree:
        for name in ("astute", "second"):
            with tree.at(f"/etc/hiera/{name}.yaml") as place:
                assert place.target == "/etc/fuel/cluster/16/astute.yaml"


@pytest.mark.parametrize(
    "content",
    [
        b"../astute.yaml\n",
        b"../nothing.yaml",
        b"../fuel",
        b"../astute.yaml ",
        b"a: b",
        b"{}",
        b"\xff",
        b"",
        b"../../../../outside.yaml",
        b"x" * 5000,
    ],
)
def test_a_file_that_is_no_links_text_stays_itself(tmp_path: Path, content: bytes) -> None:
    node = make_node(tmp_path)
    (tmp_path / "outside.yaml").write_bytes(b"secret: 1\n")
    (node / "etc/hiera/{}").write_bytes(b"x: 1\n")
    (node / "etc/hiera/a: b").write_bytes(b"x: 1\n")
    (node / "etc/hiera/globals.yaml").write_bytes(content)
    with open_tree(node) as tree, tree.at("/etc/hiera/globals.yaml") as place:
        assert place.target == "/etc/hiera/globals.yaml"


def test_no_link_leads_out(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x.yaml").write_text("secret: 1\n")
    hiera = node / "etc/hiera"
    (hiera / "up.yaml").symlink_to("../../../outside/x.yaml")
    (hiera / "full.yaml").symlink_to(outside / "x.yaml")
    (hiera / "folder").symlink_to("../../../outside")
    (hiera / "far").symlink_to("../" * 50 + "outside")
    with open_tree(node) as tree:
        for path in ("up.yaml", "full.yaml", "folder/x.yaml", "far/x.yaml", "../../../outside/x.yaml"):
            try:
                with tree.at(f"/etc/hiera/{path}") as place:
                    assert place.found is None
                    assert place.target.startswith("/")
            except FileNotFoundError:
                pass


def test_circles_end(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    hiera = node / "etc/hiera"
    (hiera / "a.yaml").symlink_to("b.yaml")
    (hiera / "b.yaml").symlink_to("a.yaml")
    (hiera / "text-a.yaml").write_text("text-b.yaml")
    (hiera / "text-b.yaml").write_text("text-a.yaml")
    (hiera / "self.yaml").write_text("self.yaml")
    before = open_descriptors()
    with open_tree(node) as tree:
        for name in ("a", "text-a", "self"):
            with pytest.raises(OSError, match="symbolic links"), tree.at(f"/etc/hiera/{name}.yaml"):
                pass
    assert open_descriptors() == before


def test_a_path_may_end_on_a_folder_or_the_top(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    (node / "etc/hiera/up").symlink_to("..")
    (node / "etc/hiera/top").symlink_to("/")
    with open_tree(node) as tree:
        for path, content in (
            ("/etc/hiera/up", "hiera"),
            ("/etc/hiera/top", "etc"),
            ("/../..", "etc"),
            ("/etc/hiera/./", "up"),
        ):
            with tree.inside(path) as folder:
                assert content in os.listdir(folder.descriptor)  # noqa: PTH208  a descriptor, no path


def test_a_name_in_an_open_folder_leads_where_its_path_leads(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    hiera = node / "etc/hiera"
    (hiera / "deep").mkdir()
    (hiera / "deep/plain.yaml").write_text("a: 1\n")
    (hiera / "deep/up.yaml").symlink_to("../globals.yaml")
    (hiera / "deep/flat.yaml").write_text("../globals.yaml")
    (hiera / "deep/flat-nowhere.yaml").write_text("../none.yaml")
    (hiera / "deep/dangling.yaml").symlink_to("none.yaml")
    (hiera / "deep/circle.yaml").symlink_to("circle.yaml")
    (hiera / "deep/folder").symlink_to("..")
    (hiera / "alias").symlink_to("deep")
    before = open_descriptors()

    def led(at: Callable[[str], AbstractContextManager[ResolvedPath]], name: str) -> object:
        try:
            with at(name) as place:
                return place.target, place.linked, place.found and place.found.st_ino
        except OSError as error:
            return error.errno

    with open_tree(node) as tree:
        for path in ("/etc/hiera/deep", "/etc/hiera/alias", "/etc/hiera/deep/folder/deep"):
            with tree.inside(path) as folder:
                for name in (*sorted(os.listdir(folder.descriptor)), "none", "."):  # noqa: PTH208
                    assert led(folder.at, name) == led(tree.at, f"{path}/{name}"), name
        with pytest.raises(NotADirectoryError), tree.inside("/etc/hiera/deep/plain.yaml"):
            pass
        with pytest.raises(FileNotFoundError), tree.inside("/etc/hiera/none"):
            pass
    assert open_descriptors() == before


def test_descriptors_are_closed_whatever_happens(tmp_path: Path) -> None:
    node = make_node(tmp_path)
    before = open_descriptors()
    with open_tree(node) as tree:
        for path in ("/etc/hiera/astute.yaml", "/etc/none/x", "/etc/astute.yaml/x", "/etc/hiera"):
            try:
                with tree.at(path):
                    raise KeyError
            except (KeyError, OSError):
                pass
    assert open_descriptors() == before


STEPS = st.lists(
    st.sampled_from(["..", ".", "", "etc", "hiera", "astute.yaml", "loop", "out", "abs", "outside"]),
    max_size=8,
)


@settings(max_examples=300)
@given(STEPS)
def test_whatever_the_path_it_is_as_in_a_changed_root(steps: list[str]) -> None:
    node = _odd_node()
    path = "/" + "/".join(steps)
    with open_tree(node) as tree:
        try:
            with tree.at(path) as place:
                found = place.found
        except OSError:
            return
    if found is not None:
        inside = {(state.st_dev, state.st_ino) for state in (item.lstat() for item in [node, *node.rglob("*")])}
        assert (found.st_dev, found.st_ino) in inside


_MADE: list[Path] = []


def _odd_node() -> Path:
    assert _MADE
    return _MADE[0]


@pytest.fixture(autouse=True, scope="module")
def _one_odd_node(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("odd")
    node = make_node(root)
    (root / "outside").mkdir()
    (node / "etc/loop").symlink_to("../etc/hiera")
    (node / "etc/hiera/out").symlink_to("../../../outside")
    (node / "etc/hiera/abs").symlink_to("/etc/loop/../hiera")
    _MADE[:] = [node]
