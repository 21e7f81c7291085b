"""Two nodes with a run behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from configdb_sync.exits import Exit
from tests.support.product import Product
from tests.support.trees import make_trees


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    return make_trees(tmp_path / "trees", "1", "2")


@pytest.fixture
def synced(product: Product, trees: Path) -> Product:
    """An environment in step."""
    assert product("sync", "--env", 5, "--from", trees).code == Exit.OK
    product.requests.clear()
    return product


def by_hand(trees: Path, node: str = "1") -> Path:
    """Change a node's file as an administrator would; return it."""
    path = trees / f"node-{node}/etc/hiera/globals.yaml"
    path.write_text(path.read_text().replace("use_syslog: true", "use_syslog: false"))
    return path
