"""The benchmarks' environments have the size and the facts of real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.trees import Layout, astute_text, write_environment
from configdb_sync.hiera.documents import Reader


def test_astute_yaml_grows_by_the_node() -> None:
    three, forty = (len(astute_text(nodes, 2, 5).encode()) for nodes in (3, 40))
    assert 22_000 < three < 30_000
    assert 2_000 < (forty - three) / 37 < 2_500


def test_the_same_arguments_give_the_same_text() -> None:
    assert astute_text(3, 2, 5) == astute_text(3, 2, 5) != astute_text(3, 1, 5)


@pytest.mark.parametrize("layout", ["fuel9", "fuel10"])
def test_every_file_is_readable_and_names_its_node(tmp_path: Path, layout: Layout) -> None:
    write_environment(tmp_path, 3, 5, layout=layout)
    reader = Reader()
    facts: dict[str, object] = {}
    files = sorted((tmp_path / "node-2/etc/hiera").rglob("*.yaml"))
    assert len(files) >= 12
    for path in files:
        document = reader.read(path.read_bytes())
        assert document.warnings == ()
        if "/" not in str(path.relative_to(tmp_path / "node-2/etc/hiera")):
            facts |= document.values
    assert (facts["uid"], facts["deployment_id"], facts["fqdn"]) == ("2", 5, "node-2.domain.tld")
    assert (tmp_path / "node-2/etc/hiera/astute.yaml").is_symlink() == (layout == "fuel9")


def test_nodes_differ_in_what_is_theirs_alone(tmp_path: Path) -> None:
    reader = Reader()
    one, two = (reader.read(astute_text(3, number, 5).encode()) for number in (1, 2))
    differing = {key for key, digest in one.key_digests.items() if two.key_digests[key] != digest}
    assert {"network_scheme", "node_volumes", "uid", "fqdn", "role"} <= differing
    assert "network_metadata" not in differing
    assert len(differing) < 15
