"""Which layout holds for a node, told by its base files (U7, F4)."""

import pytest

from configdb_sync.errors import NodeError
from configdb_sync.hiera.data_source_config import DEFAULT
from configdb_sync.hiera.data_sources import problem_of_name, problem_of_path
from configdb_sync.hiera.layouts import Layout, is_foreign, layout_of


@pytest.mark.parametrize(
    ("paths", "layout"),
    [
        (["astute.yaml", "globals.yaml"], Layout.FUEL9),
        (["cluster.yaml", "node.yaml", "globals.yaml"], Layout.FUEL10),
        (["astute.yaml", "cluster.yaml", "node.yaml"], Layout.FUEL9),
        (["astute.yaml", "node.yaml"], Layout.FUEL9),
    ],
)
def test_the_base_files_decide(paths: list[str], layout: Layout) -> None:
    assert layout_of(paths) is layout


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        ([], "no base file"),
        (["globals.yaml", "override/astute.yaml"], "no base file"),
        (["cluster.yaml"], r"has cluster.yaml but no node\.yaml"),
        (["node.yaml"], r"has node.yaml but no cluster\.yaml"),
    ],
)
def test_a_node_without_its_base_files_is_an_error_for_that_node(paths: list[str], message: str) -> None:
    with pytest.raises(NodeError, match=message):
        layout_of(paths)


def test_a_file_that_would_turn_the_layout_is_foreign() -> None:
    assert is_foreign("astute.yaml", Layout.FUEL10)
    assert not is_foreign("globals.yaml", Layout.FUEL10)
    assert not any(is_foreign(path, Layout.FUEL9) for path in ("astute.yaml", "node.yaml", "cluster.yaml"))


@pytest.mark.parametrize("layout", Layout)
def test_the_default_data_sources_are_sound_and_cover_the_base_files(layout: Layout) -> None:
    sources = DEFAULT[layout]
    names = [source.name for source in sources]
    assert len(set(names)) == len(names)
    assert len({str(source.template) for source in sources}) == len(names)
    for source in sources:
        assert problem_of_path(source.path) is None
        assert source.is_family or problem_of_name(source.name) is None
        assert not source.is_family or source.name == source.path
    assert {path.removesuffix(".yaml") for path in layout.base_files} <= set(names)


def test_the_defaults_of_both_layouts_differ_in_the_base_files_alone() -> None:
    nine, ten = (set(DEFAULT[layout]) for layout in Layout)
    assert {source.name for source in nine - ten} == {"astute"}
    assert {source.name for source in ten - nine} == {"node", "cluster"}
