"""U15: the plugin's task puts the backend on a node, and takes it away without a trace."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.hiera_backend.backend import LIMIT_S, ROOT, private, require
from tests.hiera_backend.fake_keystone import PASSWORD
from tests.hiera_backend.fuel_node import SCRIPT, FuelNode
from tests.hiera_backend.test_hiera_yaml import FUEL
from tests.plugin import jail as jails
from tests.support.product import contents

TASKS = {one["id"]: one for one in yaml.safe_load((ROOT / "deployment_tasks.yaml").read_text())}


def test_on_and_off_again(node: FuelNode) -> None:
    before = contents(node.root)
    assert node.last_line("on") == "ok: Hiera asks ConfigDB; 2 data sources are known here"
    assert node.hiera_yaml == FUEL.replace("  - yaml\n", "  - configdb # configdb-sync: - yaml\n")
    assert (node.root / "etc/hiera.yaml").stat().st_mode & 0o777 == 0o640
    assert (node.root / "etc/puppet/hiera.yaml").is_symlink()
    assert node.settings.stat().st_mode & 0o777 == 0o600
    assert node.settings.parent.stat().st_mode & 0o777 == 0o700
    written = yaml.safe_load(node.settings.read_text())
    assert (written["environment"], written["levels"], written["url"]) == (5, "nodes=1", node.server.url)
    assert written["login"]["username"] == "reader"
    assert {"override/configuration/default_route", "nodes", "deleted_nodes"} < set(written["files"])
    assert "CANARY-uploader" not in node.settings.read_text()
    library = list(node.root.rglob("*.rb"))
    assert {path.name for path in library} > {"configdb_backend.rb", "configdb_hiera.rb", "place.rb"}
    assert "hiera_yaml.rb" not in {path.name for path in library}
    once = settled(node.root)
    assert node.last_line("on").startswith("ok:")
    assert settled(node.root) == once
    assert node.last_line("off") == "ok: Hiera reads this node's files"
    after = contents(node.root)
    # Folders that were made may stay empty; nothing else is left.
    assert {path: one for path, one in after.items() if path in before} == before
    assert [path for path in after if path not in before and not (node.root / path).is_dir()] == []
    assert node.last_line("off").startswith("ok:")


def settled(root: Path) -> dict[str, tuple[object, ...]]:
    """Everything but what was last asked for."""
    return {path: one for path, one in contents(root).items() if not path.startswith("var/cache/")}


def test_what_fuel_wrote_anew_gets_it_again(node: FuelNode) -> None:
    node.run("on")
    (node.root / "etc/hiera.yaml").write_text(FUEL)
    node.run("on")
    assert "configdb" in node.hiera_yaml


def test_a_newer_puppet_keeps_yaml_beside_it(node: FuelNode) -> None:
    node.puppet = "4.10.1"
    assert node.last_line("on").startswith("ok:")
    assert yaml.safe_load(node.hiera_yaml)[":backends"] == ["configdb", "yaml"]
    node.run("off")
    assert node.hiera_yaml == FUEL


def test_configdb_away_leaves_the_node_with_its_files(node: FuelNode) -> None:
    node.server.away = True
    assert node.last_line("on") == "warning: ConfigDB answers 503; Hiera goes on with this node's files"
    assert node.hiera_yaml == FUEL
    node.server.away = False
    node.run("on")
    node.server.away = True
    assert node.last_line("on").startswith("warning:")
    assert node.hiera_yaml == FUEL


def test_a_refused_login_is_a_warning_without_the_password(node: FuelNode) -> None:
    node.configure(hiera_password="CANARY-wrong")
    assert node.last_line("on") == "warning: Keystone refused the login; Hiera goes on with this node's files"


def test_the_uploaders_login_serves_where_the_nodes_have_none(node: FuelNode) -> None:
    node.configure(hiera_username="", hiera_password="", password=PASSWORD)
    assert node.last_line("on").startswith("ok:")
    assert yaml.safe_load(node.settings.read_text())["login"]["username"] == "uploader"


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"configdb": "embedded"}, "nodes can only ask one that is served"),
        ({"configdb_url": ""}, "says that ConfigDB is at an address, and gives none"),
        ({"hiera_password": ""}, "has no password for the nodes"),
        ({"hiera_username": "", "username": ""}, "has no username for the nodes"),
        ({"configdb_url": "CANARY"}, "url isn't like https://host:port/path"),
        ({"ca_file": "/nowhere.pem"}, "ca_file /nowhere.pem can't be read"),
    ],
)
def test_settings_that_can_not_be_used_fail_the_task(node: FuelNode, changed: dict[str, str], reason: str) -> None:
    node.configure(**changed)
    line = node.last_line("on", code=1)
    assert line.startswith("failed: ")
    assert reason in line
    assert node.hiera_yaml == FUEL


def test_the_operators_own_settings_are_used_and_stay(node: FuelNode, tmp_path: Path) -> None:
    node.server.guard = None
    node.configure(configdb="embedded")
    own = {"environment": 5, "levels": "nodes=1", "url": node.server.url, "auth": "none"}
    node.settings.parent.mkdir(mode=0o700)
    private(node.settings, yaml.safe_dump(own))
    assert node.last_line("on") == "ok: Hiera asks ConfigDB; 2 data sources are known here"
    assert yaml.safe_load(node.settings.read_text()) == own
    node.run("off")
    assert node.settings.exists()
    node.settings.chmod(0o640)
    assert "is open to others" in node.last_line("on", code=1)


def test_the_list_of_data_sources_is_minded(node: FuelNode) -> None:
    listed = ["site=site/%{fqdn}", {"name": "other", "path": "o/%{x}"}, "-override/plugins", "plain"]
    node.configure(metadata={"data_sources": listed})
    node.run("on")
    written = yaml.safe_load(node.settings.read_text())
    assert written["data_sources"] == {"site": "site/%{fqdn}", "other": "o/%{x}"}
    assert written["files"][-1] == "override/plugins"


def test_catalog_and_fuel_10(node: FuelNode) -> None:
    base = yaml.safe_load((node.root / "etc/fuel/cluster/5/astute.yaml").read_text())
    base["configdb-sync"] |= {"configdb": "catalog", "configdb_url": "", "region": "RegionOne"}
    cluster = {name: value for name, value in base.items() if name != "uid"}
    (node.root / "etc/hiera/astute.yaml").unlink()
    (node.root / "etc/hiera/cluster.yaml").write_text(yaml.safe_dump(cluster))
    assert "has neither astute.yaml nor cluster.yaml and node.yaml" in node.last_line("on", code=1)
    (node.root / "etc/hiera/node.yaml").write_text("uid: '1'\n")
    assert node.last_line("on").startswith("ok:")
    written = yaml.safe_load(node.settings.read_text())
    assert "url" not in written
    assert written["fallback_url"] == "https://127.0.0.1:8443/api/v1/config"


def test_hiera_yaml_of_version_5_and_none(node: FuelNode) -> None:
    (node.root / "etc/hiera.yaml").write_text("version: 5\n")
    assert "docs/hiera.md shows what to add" in node.last_line("on", code=1)
    (node.root / "etc/hiera.yaml").unlink()
    assert "there is no hiera.yaml" in node.last_line("on", code=1)
    assert node.last_line("off").startswith("ok:")


@pytest.mark.parametrize("words", [[], ["up"], ["on", "x"], ["on", "--root"]])
def test_other_words_are_refused(words: list[str]) -> None:
    require("ruby")
    done = subprocess.run([SCRIPT, *words], capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert (done.returncode, done.stdout) == (2, "usage: hiera_backend on|off [--root FOLDER]\n")


def test_on_a_whole_node_by_the_tasks_own_command_lines(node: FuelNode, tmp_path: Path) -> None:
    """In a root of its own: Ruby finds the code by itself, and Hiera's own command asks ConfigDB."""
    require("hiera")
    ruby = Path(os.path.realpath(shutil.which("ruby") or ""))
    hiera = Path(os.path.realpath(shutil.which("hiera") or ""))
    if ruby.parent != Path("/usr/bin") or hiera.parent != Path("/usr/bin"):
        pytest.skip("ruby is not installed here, but unpacked")
    root = tmp_path / "node"
    root.mkdir()
    jail = jails.make(root)
    shutil.copy(ruby, root / "usr/bin/ruby")
    shutil.copy(hiera, root / "usr/bin/hiera")
    shutil.copytree(node.root / "etc", root / "etc", symlinks=True, dirs_exist_ok=True)
    plugin = root / "etc/fuel/plugins/configdb-sync-0.1"
    shutil.copytree(ROOT / "deployment_scripts", plugin, ignore=shutil.ignore_patterns("__pycache__"))

    def task(name: str) -> str:
        words = TASKS[name]["parameters"]
        done = jail.run(f"cd {words['cwd']} && {words['cmd']}", RUBYLIB="/puppet-3", LC_ALL="C.UTF-8")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.splitlines()[-1]

    (root / "puppet-3/puppet").mkdir(parents=True)
    (root / "puppet-3/puppet/version.rb").write_text("module Puppet; def self.version; '3.8.7'; end; end\n")
    command = "hiera -c /etc/hiera.yaml debug ::fqdn=node-1.example.com"
    assert jail.run(command, LC_ALL="C.UTF-8").stdout == "true\n"
    assert task("configdb_hiera_on").startswith("ok:")
    assert jail.run(command, LC_ALL="C.UTF-8").stdout == "false\n"
    assert (root / "var/cache/configdb-sync-hiera").stat().st_mode & 0o777 == 0o700
    assert task("configdb_hiera_off").startswith("ok:")
    assert jail.run(command, LC_ALL="C.UTF-8").stdout == "true\n"
    assert not (root / "var/cache/configdb-sync-hiera").exists()


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"hiera_username": ["CANARY"]}, "has configdb-sync.hiera_username, which is no text"),
        ({"hiera_password": 12345}, "has configdb-sync.hiera_password, which is no text"),
        ({"hiera_password": f"{PASSWORD}\n"}, "has configdb-sync.hiera_password, which has blanks or line breaks"),
        ({"auth_url": "http://a\nCANARY"}, "has configdb-sync.auth_url, which has line breaks"),
        ({"configdb_url": {"a": 1}}, "has configdb-sync.configdb_url, which is no text"),
        ({"verify_tls": "false"}, "has configdb-sync.verify_tls, which is neither true nor false"),
        ({"auth_url": "", "metadata": {"keystone_port": "50 00"}}, "metadata.keystone_port, which is no port"),
        ({"configdb": "catalog", "metadata": {"nailgun_port": ["8443"]}}, "metadata.nailgun_port, which is no text"),
    ],
)
def test_a_field_that_is_no_value_is_named(node: FuelNode, changed: dict[str, Any], reason: str) -> None:
    """U3: nothing is cut, joined or passed by."""
    node.configure(**changed)
    assert reason in node.last_line("on", code=1)
    assert not node.settings.exists()


def test_blanks_at_a_fields_ends_are_no_part_of_it(node: FuelNode) -> None:
    node.configure(hiera_username=" reader\n", configdb_url=f"{node.server.url} ", project="services\n")
    assert node.last_line("on").startswith("ok: Hiera asks ConfigDB")
    found = yaml.safe_load(node.settings.read_text())
    assert (found["url"], found["login"]["username"], found["login"]["project"]) == (
        node.server.url,
        "reader",
        "services",
    )
