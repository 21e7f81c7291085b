"""Data sources of the real environments' nodes (U7, F4)."""

import pytest
import yaml

from configdb_sync.hiera.data_source_config import DEFAULT
from configdb_sync.hiera.data_sources import map_node
from configdb_sync.hiera.layouts import Layout, facts_of, layout_of
from configdb_sync.nodes.directory import DirectoryNodes
from configdb_sync.nodes.node_files import NodeRead
from tests.support.fixtures import require_data


@pytest.mark.parametrize(
    ("env", "layout", "expected"),
    [
        (37, Layout.FUEL9, {"astute", "globals"}),
        (13, Layout.FUEL9, {"astute"}),
        (16, Layout.FUEL9, {"astute", "override/node", "override/configuration/cluster", "plugins/ldap"}),
        (7, Layout.FUEL10, {"cluster", "node", "override/configuration/cluster", "plugins/ldap"}),
    ],
)
def test_every_file_of_the_real_environments_has_its_data_source(env: int, layout: Layout, expected: set[str]) -> None:
    nodes = DirectoryNodes(require_data() / f"clusters/env-{env}", env=env)
    seen: set[str] = set()
    for found in nodes.read(nodes.identities()):
        assert isinstance(found, NodeRead)
        assert layout_of(found.files) is layout
        documents = {path: yaml.load(found.files[path].content, yaml.CSafeLoader) for path in layout.base_files}
        facts = facts_of(layout, documents)
        assert (facts.uid, facts.environment) == (found.identity, env)
        placed = map_node(DEFAULT[layout], facts.scope, found.files)
        assert (placed.undeclared, placed.faults, placed.notes) == ((), {}, {})
        seen |= {placed.files[path] for path in found.files}
    assert seen == expected
