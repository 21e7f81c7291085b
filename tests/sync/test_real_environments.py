"""The main job on the real environments (U7, U9, U10, U16, U18): every promise on each of the four layouts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.hiera.documents import Reader
from configdb_sync.jsonvalues import same
from tests.support.product import MEANT, Product, contents, snapshot

ENVIRONMENTS = [37, 13, 16, 7]


def documents(root: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Every file of every node below etc/hiera, by node and path, as Ruby reads it."""
    reader = Reader()
    found = {}
    for node in sorted(root.iterdir()):
        hiera = node / "etc/hiera"
        for path in sorted(hiera.rglob("*.yaml")):
            key = (node.name.removeprefix("node-"), str(path.relative_to(hiera)))
            found[key] = dict(reader.read(path.read_bytes()).values)
    return found


def data_sources(result: Any) -> dict[tuple[str, str], str]:
    """What a first sync's report says: data source by node and path."""
    return {(node["node"], one["file"]): one["data_source"] for node in result["nodes"] for one in node["documents"]}


@pytest.fixture(params=ENVIRONMENTS)
def number(request: pytest.FixtureRequest) -> int:
    value: int = request.param
    return value


def test_the_first_sync_uploads_everything_and_touches_no_file(
    number: int, environment: Callable[[int], Path], product: Product
) -> None:
    root = environment(number)
    before = snapshot(root)
    first = product("sync", "--env", number, "--from", root, "--format", "json")
    assert (first.code, first.err) == (0, "")
    assert snapshot(root) == before
    names = data_sources(first.json)
    files = documents(root)
    assert set(names) == set(files)
    for (node, path), values in files.items():
        where = ("--env", number, "-r", names[node, path], "--level", f"nodes={node}", "--format", "json")
        assert same(product("get", *where, "--values").json, values)
        assert same(product("get", *where).json, values)


def test_a_run_with_nothing_to_do_changes_nothing_anywhere(
    number: int, environment: Callable[[int], Path], product: Product
) -> None:
    root = environment(number)
    assert product("sync", "--env", number, "--from", root).code == 0
    before = snapshot(root)
    assert product.changing()
    second = product("sync", "--env", number, "--from", root, "--format", "json")
    assert second.code == 0
    assert (second.json["uploads"], second.json["writes"]) == (0, 0)
    assert product.changing() == []
    assert snapshot(root) == before


def test_plan_changes_nothing(number: int, environment: Callable[[int], Path], product: Product) -> None:
    root = environment(number)
    before = snapshot(root)
    first = product("plan", "--env", number, "--from", root, "--format", "json")
    assert first.code == 0
    assert product.changing() == []
    assert snapshot(root) == before
    again = product("plan", "--env", number, "--from", root, "--format", "json")
    assert again.json["digest"] == first.json["digest"]
    assert product("sync", "--env", number, "--from", root).code == 0
    later = product("plan", "--env", number, "--from", root, "--format", "json").json
    assert (later["uploads"], later["writes"]) == (0, 0)


def test_an_override_reaches_its_file_alone_and_goes_without_a_trace(
    number: int, environment: Callable[[int], Path], product: Product
) -> None:
    """U13: no values are sent again. S08: the one key changes that is overridden, and no byte outside its block."""
    root = environment(number)
    first = product("sync", "--env", number, "--from", root, "--format", "json")
    names = data_sources(first.json)
    original, files = contents(root), documents(root)
    done = set()
    for (node, path), values in files.items():
        if path in done:
            continue
        done.add(path)
        key = next(key for key in values if key not in {"uid", "deployment_id", "fqdn"})
        where = ("--env", number, "-r", names[node, path], "--level", f"nodes={node}", "--key", f'["{key}"]')
        assert (
            product("override", *MEANT, *where, "--type", "json", "--value-file", "-", stdin='{"over": [1, "x"]}').code
            == 0
        )
        second = product("sync", "--env", number, "--from", root, "--format", "json")
        assert second.code == 0
        assert (second.json["uploads"], second.json["writes"]) == (0, 1)
        changed = documents(root)
        assert {where for where in files if not same(changed[where], files[where])} == {(node, path)}
        assert same(changed[node, path], {**values, key: {"over": [1, "x"]}})
        assert list(changed[node, path]) == list(values)
        modes = {path: facts[:3] for path, facts in contents(root).items()}
        assert modes == {path: facts[:3] for path, facts in original.items()}
        third = product("sync", "--env", number, "--from", root, "--format", "json").json
        assert (third["uploads"], third["writes"]) == (0, 0)
        assert same(product("get", *where[:-2], "--values", "--format", "json").json, values)
        assert product("rm-override", *where).code == 0
        assert product("sync", "--env", number, "--from", root).code == 0
        assert contents(root) == original
