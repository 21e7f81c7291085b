"""U15: for every key of the real environments Hiera gives what the files give, type for type, merged too.

By Hiera 3 and by Puppet's Hiera 5; from the product's own server and from tuning-box 0.1.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hiera_backend.backend import lookups3, lookups5, require
from tests.hiera_backend.real import RealNode, nodes_of
from tests.support import fixtures
from tests.support.product import make_product
from tests.support.service import serving

ENVIRONMENTS = (37, 13, 16, 7)
MERGES = ["first", "deep"]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> list[RealNode]:
    require("ruby")
    top = tmp_path_factory.mktemp("real")
    found: list[RealNode] = []
    for number in ENVIRONMENTS:
        found += nodes_of(number, fixtures.copy_environment(number, top / f"env-{number}"))
    return found


def upload(nodes: list[RealNode], state: Path, *server: object) -> None:
    """Synchronise all environments with a server."""
    with pytest.MonkeyPatch.context() as patch:
        product = make_product(state, patch)
        for number in ENVIRONMENTS:
            folder = next(node.hiera.parents[2] for node in nodes if node.environment == number)
            done = product("sync", "--env", number, "--from", folder, *server)
            # tuning-box can't add a data source to a component that is there: of that one the file stands.
            assert done.code == 0 or "plugins/ldap can't be added" in done.out, done.out + done.err


@pytest.fixture(scope="module")
def embedded(nodes: list[RealNode], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The product's own server with a token, and how it is asked."""
    state = tmp_path_factory.mktemp("embedded") / "state"
    token = state / "configdb.token"
    with serving("--state", str(state)) as (url, _):
        upload(nodes, state, "--configdb", url, "--configdb-token-file", token)
        yield {"url": url, "auth": "token", "token_file": str(token)}


@pytest.fixture(scope="module")
def legacy(nodes: list[RealNode], legacy_url: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """tuning-box 0.1.0, which has no login of its own."""
    upload(nodes, tmp_path_factory.mktemp("legacy") / "state", "--configdb", legacy_url)
    # An old server on a loaded machine takes its time; the limits have tests of their own.
    return {"url": legacy_url, "auth": "none", "timeout": 60, "time_limit": 60}


def by_hiera3(nodes: list[RealNode], folder: Path, server: dict[str, Any]) -> None:
    require("hiera")
    found = lookups3([node.hiera3(folder / f"{node.environment}-{node.uid}", **server) for node in nodes])
    assert found["differences"] == []
    assert found["said"] == []
    assert found["lookups"] > 1.5 * sum(len(node.keys) for node in nodes) > 2500


def by_hiera5(nodes: list[RealNode], folder: Path, server: dict[str, Any]) -> None:
    require("puppet")
    cases = [
        node.hiera5(folder / f"{node.environment}-{node.uid}", folder / "environments", MERGES, **server)
        for node in nodes
    ]
    found = lookups5(folder / "puppet", folder / "environments", cases)
    assert found["differences"] == []
    assert found["errors"] == 0
    assert found["lookups"] == len(MERGES) * sum(len(node.keys) for node in nodes) > 1000


def test_hiera_3_and_our_own_server(nodes: list[RealNode], embedded: dict[str, Any], tmp_path: Path) -> None:
    by_hiera3(nodes, tmp_path, embedded)


def test_hiera_5_and_our_own_server(nodes: list[RealNode], embedded: dict[str, Any], tmp_path: Path) -> None:
    by_hiera5(nodes, tmp_path, embedded)


def test_hiera_3_and_tuning_box(nodes: list[RealNode], legacy: dict[str, Any], tmp_path: Path) -> None:
    by_hiera3(nodes, tmp_path, legacy)


@pytest.mark.long
def test_hiera_5_and_tuning_box(nodes: list[RealNode], legacy: dict[str, Any], tmp_path: Path) -> None:
    by_hiera5(nodes, tmp_path, legacy)
