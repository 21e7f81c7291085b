"""Taking over from an older plugin (docs/plugin.md): what ConfigDB holds stays, and nothing is guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from configdb_sync.configdb.connect import connect
from configdb_sync.exits import Exit
from tests.support.product import Product
from tests.support.trees import make_trees


def values(trees: Path, node: str) -> dict[str, dict[str, Any]]:
    files = {"astute": "etc/fuel/cluster/5/astute.yaml", "globals": "etc/hiera/globals.yaml"}
    return {name: yaml.safe_load((trees / f"node-{node}" / path).read_text()) for name, path in files.items()}


def test_an_older_plugins_environment_is_gone_on_with(product: Product, tmp_path: Path) -> None:
    trees = make_trees(tmp_path / "trees", "1", "2")
    product.state.mkdir(mode=0o700)
    with connect("embedded", database_url=f"sqlite:///{product.state / 'configdb.sqlite'}") as client:
        component = client.create_component("older", ["astute", "globals"])
        environment = client.create_environment(5, [component.id], ["nodes"])
        ids = {name: definition.id for name, definition in client.definitions(environment).items()}
        for node in ("1", "2"):
            uploaded = values(trees, node)
            if node == "2":
                uploaded["astute"]["nova"]["workers"] = 99
            for name, document in uploaded.items():
                client.put_values(5, (("nodes", node),), ids[name], document)
        client.put_overrides(5, (("nodes", "1"),), ids["globals"], {"use_syslog": False})
    product.changing()
    run = ("sync", "--env", 5, "--from", trees)
    done = product(*run)
    assert done.code == Exit.PARTIAL
    assert "node 2, file astute.yaml" in done.out
    assert "'nova'" in done.out
    assert "0 documents uploaded, 1 file written" in done.out
    assert values(trees, "1")["globals"]["use_syslog"] is False
    assert product(*run, "--node", 2, "--accept-node").code == Exit.OK
    assert "tenant 'admin' got 2 data sources: astute, globals" in product("tenants", "adopt", "admin", "--env", 5).out
    product.changing()
    assert product(*run).code == Exit.OK
    assert product.changing() == []
