"""U18: a node that comes under another environment takes our writing along; no override becomes its own value there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from configdb_sync.exits import Exit
from tests.support.product import MEANT, Product, contents
from tests.support.trees import make_trees

NODE = ("--level", "nodes=1")


@pytest.fixture
def trees(product: Product, tmp_path: Path) -> Path:
    """A node in environment 5."""
    trees = make_trees(tmp_path / "trees", "1")
    assert product("sync", "--env", 5, "--from", trees).code == Exit.OK
    return trees


def override(product: Product, trees: Path, data_source: str, key: str) -> None:
    where = ("--env", 5, *NODE, "-r", data_source, "--key", key)
    assert product("override", *MEANT, *where, "--type", "bool", "--value", "true").code == Exit.OK
    assert product("sync", "--env", 5, "--from", trees).code == Exit.OK


def move(trees: Path, one: int, other: int, node: str = "1") -> Path:
    """Let the node belong to another environment; return its base file."""
    cluster = trees / f"node-{node}/etc/fuel/cluster"
    (cluster / str(one)).rename(cluster / str(other))
    link, file = trees / f"node-{node}/etc/astute.yaml", cluster / f"{other}/astute.yaml"
    link.unlink()
    link.symlink_to(f"fuel/cluster/{other}/astute.yaml")
    file.write_text(file.read_text().replace(f"deployment_id: {one}", f"deployment_id: {other}"))
    return file


def nova(product: Product, env: int) -> dict[str, Any]:
    found = product("get", "--env", env, *NODE, "-r", "astute", "--values", "--format", "json")
    values: dict[str, Any] = found.json.get("nova", {})
    return values


def test_a_file_that_is_as_the_other_environment_left_it_is_the_node_s_again(product: Product, trees: Path) -> None:
    path = trees / "node-1/etc/hiera/globals.yaml"
    before = path.read_bytes()
    override(product, trees, "globals", "use_syslog")
    override(product, trees, "globals", "added")
    assert path.read_bytes() != before
    move(trees, 5, 6)
    for _ in range(2):
        assert product("sync", "--env", 6, "--from", trees).code == Exit.OK
        assert path.read_bytes() == before
    move(trees, 6, 5)
    assert product("sync", "--env", 5, "--from", trees).code == Exit.OK
    assert yaml.safe_load(path.read_text())["added"] is True
    product("rm-override", "--env", 5, *NODE, "-r", "globals", "--all-keys")
    assert product("sync", "--env", 5, "--from", trees).code == Exit.OK
    assert path.read_bytes() == before


def test_in_a_file_that_changed_since_the_override_is_ambiguous(product: Product, trees: Path) -> None:
    override(product, trees, "astute", "nova.debug")
    file = move(trees, 5, 6)
    before = file.read_bytes()
    for _ in range(2):
        done = product("sync", "--env", 6, "--from", trees)
        assert (done.code, nova(product, 6)) == (Exit.PARTIAL, {}), done.out
        assert "'nova'" in done.out
        assert file.read_bytes() == before


@pytest.mark.parametrize(("side", "value"), [("node", True), ("configdb", False)])
def test_the_user_takes_a_side(product: Product, trees: Path, side: str, *, value: bool) -> None:
    override(product, trees, "astute", "nova.debug")
    file = move(trees, 5, 6)
    product("sync", "--env", 6, "--from", trees)
    done = product("sync", "--env", 6, "--from", trees, f"--accept-{side}")
    assert done.code == Exit.OK, done.out
    assert nova(product, 6)["debug"] is value
    assert yaml.safe_load(file.read_text())["nova"] == {"debug": value, "workers": 4, "db_password": "CANARY-old"}


def forget(product: Product) -> None:
    """Lose all records of our own, as a new master has none; ConfigDB keeps its digests."""
    for path in product.state.glob("configdb-sync.sqlite*"):
        path.unlink()


def test_on_a_new_master_the_other_environment_s_digests_tell(product: Product, trees: Path) -> None:
    override(product, trees, "astute", "nova.debug")
    override(product, trees, "override/common", "added")
    file = move(trees, 5, 6)
    before = contents(trees)
    forget(product)
    for _ in range(2):
        done = product("sync", "--env", 6, "--from", trees)
        assert (done.code, nova(product, 6)) == (Exit.PARTIAL, {}), done.out
        assert "'nova'" in done.out
        # A file that we made, and that nobody changed, is known for certain.
        assert contents(trees) == {name: facts for name, facts in before.items() if "/override" not in name}
    assert product("sync", "--env", 6, "--from", trees, "--accept-configdb").code == Exit.OK
    assert nova(product, 6)["debug"] is False
    assert yaml.safe_load(file.read_text())["nova"]["debug"] is False


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("nodes=%{uid}", "nodes=%{fqdn}"),
        ("nodes=%{fqdn}", "nodes=%{uid}"),
        ("hosts=%{uid}", "nodes=%{uid}"),
        ("cluster=c%{deployment_id},nodes=n-%{uid}", "nodes=%{fqdn}"),
        ("nodes=%{uid}", "cluster=%{deployment_id},nodes=%{uid}"),
    ],
)
def test_the_other_environment_may_keep_its_nodes_by_another_name(
    product: Product, tmp_path: Path, one: str, other: str
) -> None:
    trees = make_trees(tmp_path / "trees", "1")
    first = ("sync", "--env", 5, "--from", trees, "--levels", one)
    assert product(*first).code == Exit.OK
    level = one.rpartition(",")[2].partition("=")[0]
    where = ("--env", 5, "--level", f"{level}=1", "-r", "globals", "--key", "use_syslog")
    assert product("override", *MEANT, *where, "--type", "bool", "--value", "false").code == Exit.OK
    assert product(*first).code == Exit.OK
    move(trees, 5, 6)
    before = contents(trees)
    forget(product)
    done = product("sync", "--env", 6, "--from", trees, "--levels", other)
    assert done.code == Exit.PARTIAL, done.out
    assert "'use_syslog'" in done.out
    assert contents(trees) == before


def test_the_others_are_asked_once_a_run_and_of_nodes_without_records_alone(product: Product, tmp_path: Path) -> None:
    trees = make_trees(tmp_path / "others", "7")
    move(trees, 5, 6, "7")
    assert product("sync", "--env", 6, "--from", trees).code == Exit.OK
    trees = make_trees(tmp_path / "trees", "1", "2", "3")

    def asked(*more: object) -> list[str]:
        product.requests.clear()
        assert product("sync", "--env", 5, "--from", trees, *more).code == Exit.OK
        paths = [request.path for request in product.requests]
        return [path for path in paths if path == "/environments" or path.startswith("/environments/6")]

    first = asked()
    assert first.count("/environments/6/hierarchy_levels/nodes") == 1
    assert not any(path.startswith("/environments/6/nodes") for path in first)
    with (trees / "node-1/etc/hiera/globals.yaml").open("a") as file:
        file.write("changed: 1\n")
    assert asked() == []
    forget(product)
    noted, *others = [path for path in asked() if path != "/environments"]
    assert noted.startswith("/environments/6/resources/")
    assert others == ["/environments/6/hierarchy_levels/nodes"]
