"""U15, F5: the backend is taken off nodes without a deployment, and nothing is left: no code, no password, no data."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from configdb_sync.errors import NodeError, SettingsError
from configdb_sync.mcollective.outcomes import Outcome, Reply
from configdb_sync.nodes.hiera_backend import Removal, RemovalOrder, program, remove_over_bus
from configdb_sync.nodes.remote.commands import ARGUMENTS_LIMIT, Commands
from tests.hiera_backend.backend import ROOT, private, require
from tests.hiera_backend.fuel_node import FuelNode, left, secrets
from tests.hiera_backend.test_hiera_yaml import FUEL
from tests.nodes.shell import ShellRpc
from tests.support.product import Product, contents, make_product

REMOVE = ("hiera-backend", "remove", "--env", 5)
SETTINGS, CACHE = "/etc/configdb-sync/hiera.yaml", "/var/cache/configdb-sync-hiera"


@pytest.fixture
def product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Product:
    return make_product(tmp_path / "state", monkeypatch)


def test_nothing_is_left_in_a_tree(node: FuelNode, product: Product) -> None:
    trees = node.root.parent
    before = contents(node.root)
    node.run("on")
    assert {SETTINGS[1:], CACHE[1:]} <= {name if "cache" not in name else CACHE[1:] for name in secrets(node.root)}
    there = contents(node.root)
    looked = product(*REMOVE, "--from", trees, "--dry-run")
    assert (looked.code, contents(node.root)) == (0, there)
    assert f"node 1: would be removed: /etc/hiera.yaml, {SETTINGS}, {CACHE}, " in looked.out
    done = product(*REMOVE, "--from", trees)
    assert (done.code, done.out) == (0, looked.out.replace("would be removed", "removed"))
    assert (left(node.root, before), secrets(node.root)) == ([], [])
    assert not (node.root / "etc/configdb-sync").exists()
    again = product(*REMOVE, "--from", trees, "--format", "json")
    assert again.json["nodes"] == [{"node": "1", "result": "nothing", "found": [], "kept": None}]
    assert left(node.root, before) == []


def test_what_killed_processes_and_other_rubies_left_goes_too(node: FuelNode, product: Product) -> None:
    before = contents(node.root)
    node.run("on")
    library = next(path.parent for path in node.root.rglob("configdb_hiera.rb"))
    older = library.parent / "1.9.1"
    shutil.copytree(library, older)
    (older / "configdb_hiera/of_an_older_version.rb").touch()
    for name in (f"{SETTINGS}.1234.ab12", "/etc/hiera.yaml.77.new", f"{older}/configdb_hiera.rb.77.new"):
        private(Path(name if name.startswith(str(node.root)) else f"{node.root}{name}"), "CANARY")
    assert product(*REMOVE, "--from", node.root.parent).code == 0
    assert (left(node.root, before), secrets(node.root)) == ([], [])


def test_links_of_a_tree_lead_nowhere_else(node: FuelNode, product: Product, tmp_path: Path) -> None:
    """A node's absolute links mean its own files, not this machine's."""
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("hiera.yaml", "kept"):
        (outside / name).write_text(FUEL.replace("  - yaml", "  - configdb # configdb-sync: - yaml"))
    node.run("on")
    (node.root / "etc/puppet/hiera.yaml").unlink()
    (node.root / "etc/puppet/hiera.yaml").symlink_to(outside / "hiera.yaml")
    cache = node.root / CACHE[1:]
    shutil.rmtree(cache)
    cache.symlink_to(outside)
    (node.root / "etc/puppetlabs").symlink_to(f"{'../' * 20}{outside}")
    kept = contents(outside)
    assert product(*REMOVE, "--from", node.root.parent).code == 0
    assert contents(outside) == kept
    assert not cache.is_symlink()
    assert node.hiera_yaml == FUEL


def test_other_environments_are_left_alone(node: FuelNode, product: Product) -> None:
    node.run("on")
    there = contents(node.root)
    wrong = ("hiera-backend", "remove", "--env", 6, "--from", node.root.parent)
    done = product(*wrong)
    assert (done.code, done.out) == (
        0,
        "nodes: removed from 0, nothing on 0, failed on 0, skipped 1 of other environments (5)\n",
    )
    named = product(*wrong, "--node", "1")
    assert (named.code, named.out.splitlines()[0]) == (
        3,
        "node 1: failed: belongs to environment 5 (nothing was changed on it)",
    )
    assert contents(node.root) == there


def test_a_node_that_does_not_say_its_environment_must_be_named(node: FuelNode, product: Product) -> None:
    node.run("on")
    (node.root / SETTINGS[1:]).unlink()
    (node.root / "etc/fuel/cluster/5/astute.yaml").write_text("{}\n")
    there = contents(node.root)
    trees = node.root.parent
    done = product(*REMOVE, "--from", trees)
    assert (done.code, contents(node.root)) == (3, there)
    assert "doesn't say of which environment it is (name it: --node 1)" in done.out
    assert product(*REMOVE, "--from", trees, "--node", "1").code == 0
    assert secrets(node.root) == []


def test_a_line_written_by_hand_stops_it(node: FuelNode, product: Product) -> None:
    """Hiera finds no data at all if its backend's code is gone, so the code stays with the line."""
    node.run("on")
    (node.root / "etc/hiera.yaml").write_text(FUEL.replace("  - yaml", "  - configdb"))
    there = contents(node.root)
    done = product(*REMOVE, "--from", node.root.parent)
    assert (done.code, contents(node.root)) == (3, there)
    assert "/etc/hiera.yaml lists configdb in a line that was written by hand; take it out first" in done.out
    assert "written by hand" in node.last_line("off", code=1)


def test_the_operators_own_settings_stay_and_are_named(node: FuelNode, product: Product) -> None:
    node.settings.parent.mkdir(mode=0o700)
    node.server.guard = None
    own = {"environment": 5, "levels": "nodes=1", "url": node.server.url, "auth": "none"}
    private(node.settings, yaml.safe_dump(own))
    node.run("on")
    done = product(*REMOVE, "--from", node.root.parent)
    assert done.code == 0
    assert f"{SETTINGS} stays: it was written by hand and may hold a password" in done.out
    assert yaml.safe_load(node.settings.read_text()) == own
    assert not (node.root / CACHE[1:]).exists()


def test_trees_that_are_none(product: Product, tmp_path: Path) -> None:
    require("ruby")
    (tmp_path / "trees/node-1").mkdir(parents=True)
    (tmp_path / "trees/node-2").symlink_to(tmp_path)
    done = product(*REMOVE, "--from", tmp_path / "trees", "--node", "1,2,3")
    assert done.code == 3
    assert done.out.splitlines()[0] == "node 1: has nothing of the backend"
    assert [line.endswith("is no folder of a node") for line in done.out.splitlines()] == [False, True, True, False]
    assert product(*REMOVE, "--from", tmp_path).code == 2


def test_the_setting_and_the_pages_say_when(product: Product) -> None:
    """A plugin that is off has no task: who reads about the setting reads of the order and of the command too."""
    help_text = yaml.safe_load((ROOT / "environment_config.yaml").read_text())["attributes"]["hiera_backend"][
        "description"
    ]
    removal = (ROOT / "docs/plugin.md").read_text().split("## Remove it")[1].split("## Limits")[0]
    for text in (help_text, removal, (ROOT / "docs/hiera.md").read_text()):
        assert "configdb-sync hiera-backend remove" in text
    assert removal.index("hiera-backend remove --env 5") < removal.index("fuel plugins --remove")
    assert product("hiera-backend", "remove", "--help").code == 0


def test_the_whole_program_fits_into_a_command() -> None:
    assert len(Commands().ruby(program(ROOT), "/", "5", "no", "remove")) < ARGUMENTS_LIMIT // 2


def test_without_the_code_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="the Hiera backend's code isn't here"):
        program(tmp_path)


@pytest.mark.parametrize(
    ("stdout", "code", "what"),
    [
        (b"", 0, "its answer can't be understood"),
        (b"configdb-sync 1 []\n", 0, "its answer can't be understood"),
        (b'configdb-sync 1 {"environment": true, "found": [], "own": null, "error": null}', 0, "can't be understood"),
        (b'configdb-sync 1 {"environment": 5, "found": [1], "own": null, "error": null}', 0, "can't be understood"),
        (b'configdb-sync 1 {"environment": 5, "found": [], "own": null, "error": "a\\u001bb"}', 0, r"a\x1bb"),
        (b"", 1, "its command failed"),
        (b"", 124, "took too long"),
    ],
)
def test_what_nodes_may_answer(stdout: bytes, code: int, what: str) -> None:
    def answer(identity: str, agent: str, data: Any) -> Outcome:
        return Reply(identity, {"stdout": stdout, "stderr": b"", "exit_code": code})

    order = RemovalOrder(5, named=False, look=False)
    (found,) = remove_over_bus(ShellRpc(fault=answer), b"", ["46"], order, timeout=5)
    assert isinstance(found, NodeError)
    assert what in found.what
    assert found.node == "46"


def test_a_node_without_ruby_says_so(tmp_path: Path) -> None:
    for name in ("sh", "timeout", "base64", "gzip"):
        (tmp_path / name).symlink_to(os.path.realpath(shutil.which(name) or ""))
    order = RemovalOrder(5, named=False, look=False)
    (found,) = remove_over_bus(ShellRpc(path=str(tmp_path)), b"", ["46"], order, timeout=5)
    assert isinstance(found, NodeError)
    assert found.what.endswith("it has no ruby")
    assert not isinstance(found, Removal)
