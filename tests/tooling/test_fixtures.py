"""The copies of real environments that tests work on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import fixtures


def test_links_are_links_again(tmp_path: Path) -> None:
    node = tmp_path / "node-1"
    for name, content in {
        "etc/astute.yaml": "fuel/cluster/1/astute.yaml",
        "etc/fuel/cluster/1/astute.yaml": "fqdn: node-1\n",
        "etc/hiera/astute.yaml": "../astute.yaml",
        "etc/hiera/outside.yaml": "../../../other.yaml",
        "etc/hiera/absolute.yaml": "/etc/astute.yaml",
        "etc/hiera/missing.yaml": "nowhere.yaml",
        "etc/hiera/itself.yaml": "itself.yaml",
        "etc/hiera/line.yaml": "../astute.yaml\n",
        "etc/hiera/empty.yaml": "",
    }.items():
        (node / name).parent.mkdir(parents=True, exist_ok=True)
        (node / name).write_text(content, encoding="utf-8")
    (tmp_path / "other.yaml").write_text("a: 1\n", encoding="utf-8")
    fixtures.restore_links(node)
    links = {path.relative_to(node).as_posix(): str(path.readlink()) for path in node.rglob("*") if path.is_symlink()}
    assert links == {"etc/astute.yaml": "fuel/cluster/1/astute.yaml", "etc/hiera/astute.yaml": "../astute.yaml"}
    assert (node / "etc/hiera/astute.yaml").read_text(encoding="utf-8") == "fqdn: node-1\n"


@pytest.mark.parametrize(("number", "base"), [(37, "astute"), (13, "astute"), (16, "astute"), (7, "node")])
def test_copies_are_whole_and_writable(environment: Callable[[int], Path], number: int, base: str) -> None:
    copy = environment(number)
    nodes = list(copy.iterdir())
    assert nodes
    for node in nodes:
        path = node / f"etc/hiera/{base}.yaml"
        assert path.is_symlink()
        assert path.stat().st_size > 200
        assert path.stat().st_mode & 0o200
        assert path.parent.stat().st_mode & 0o200
    source = fixtures.require_data() / f"clusters/env-{number}"
    assert sum(1 for _ in copy.rglob("*")) == sum(1 for _ in source.rglob("*"))
