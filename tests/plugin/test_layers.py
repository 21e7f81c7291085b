"""U3: where the plugin's settings are found on a master, and which of them goes first."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from configdb_sync.errors import SettingsError
from configdb_sync.plugin.fuel_settings import Master, Section, _blocks, plugin_layers, without_login
from configdb_sync.settings import Settings, SettingsLayer, read_settings
from tests.support.fixtures import require_data

ROOT = Path(__file__).resolve().parents[2]
SECTION = """\
nodes:
- uid: '1'
configdb-sync:
  metadata:
    enabled: true
    data_sources:
    - nova
  tenant: {tenant}
  username: lcm
  password: CANARY
master_ip: 10.20.0.2
"""


@pytest.fixture
def master(tmp_path: Path) -> Master:
    folder = tmp_path / "var/www/nailgun/plugins/configdb-sync-0.1"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "environment_config.yaml", folder)
    return Master(tmp_path)


def write(master: Master, path: str, text: str) -> None:
    (master.root / path).parent.mkdir(parents=True, exist_ok=True)
    (master.root / path).write_text(text)


def read(master: Master, *, staged: bool, nailgun: Section | None = None) -> Settings:
    def ask(layers: Sequence[SettingsLayer]) -> Section | None:
        return nailgun

    package = master.root / "elsewhere/configdb_sync"
    layers = plugin_layers(master, package, 5, staged=staged, ask_nailgun=ask)
    return without_login(read_settings({}, {}, None, layers), layers)


@pytest.mark.parametrize(
    "path", ["etc/fuel/cluster/5/astute.yaml", "etc/fuel/cluster/5/cluster.yaml", "var/lib/fuel/configs/5/cluster.yaml"]
)
def test_the_environments_file_of_each_release(master: Master, path: str) -> None:
    write(master, path, SECTION.format(tenant="from-file"))
    found = read(master, staged=True)
    assert (found.tenant, found.data_sources, found.nailgun) == ("from-file", ("nova",), "https://10.20.0.2:8443")
    assert found.origins["tenant"] == f"{master.root / path} (configdb-sync)"
    assert found.login["OS_AUTH_URL"] == "http://10.20.0.2:5000"


def test_what_the_file_lacks_is_the_plugins_default(master: Master) -> None:
    write(master, "etc/fuel/cluster/5/astute.yaml", SECTION.format(tenant="x"))
    found = read(master, staged=True)
    assert found.configdb == "catalog"
    assert found.origins["configdb"].endswith("environment_config.yaml")


def test_nailgun_goes_first_in_a_shell_and_last_in_a_deployment(master: Master) -> None:
    changed = Section("Nailgun", {"tenant": "since", "username": "lcm", "password": "new"}, {})
    write(master, "etc/fuel/cluster/5/astute.yaml", SECTION.format(tenant="deployed"))
    assert read(master, staged=True, nailgun=changed).tenant == "deployed"
    shell = read(master, staged=False, nailgun=changed)
    assert (shell.tenant, shell.origins["tenant"], shell.login["OS_PASSWORD"]) == ("since", "Nailgun", "new")
    assert read(master, staged=False).tenant == "deployed"


def test_without_the_plugin_in_the_environment_a_shell_has_no_layers(master: Master) -> None:
    assert read(master, staged=False).configdb == "embedded"
    write(master, "etc/fuel/cluster/5/astute.yaml", "master_ip: 10.20.0.2\n")
    assert read(master, staged=False).configdb == "embedded"
    assert read(master, staged=True).configdb == "catalog"


def test_a_machine_that_is_no_master_has_none(tmp_path: Path) -> None:
    assert plugin_layers(Master(tmp_path), tmp_path / "configdb_sync", 5, staged=True) == ()


def test_without_a_user_nailgun_is_left_out(master: Master) -> None:
    text = "configdb-sync: {configdb: embedded, metadata: {enabled: true}}\nmaster_ip: 10.20.0.2\n"
    write(master, "etc/fuel/cluster/5/astute.yaml", text)
    found = read(master, staged=True)
    assert (found.configdb, found.nailgun) == ("embedded", None)
    assert "no user" in found.origins["nailgun"]


def test_an_alias_into_another_block_is_followed(master: Master) -> None:
    text = "plugins: &a [nova]\nconfigdb-sync: {metadata: {enabled: true, data_sources: *a}}\n"
    write(master, "etc/fuel/cluster/5/astute.yaml", text)
    assert read(master, staged=True).data_sources == ("nova",)


def test_a_broken_file_is_named_without_its_content(master: Master) -> None:
    write(master, "etc/fuel/cluster/5/astute.yaml", "configdb-sync: {password: CANARY\nb: [\n")
    with pytest.raises(SettingsError, match=r"astute.yaml is not YAML at line 2") as caught:
        read(master, staged=True)
    assert "CANARY" not in str(caught.value)


def test_the_folder_is_the_products_own_else_the_newest(master: Master) -> None:
    plugins = master.root / "var/www/nailgun/plugins"
    for name in ("configdb-sync-0.9", "configdb-sync-0.10"):
        (plugins / name).mkdir()
    assert master.plugin_folder(Path("/usr/lib/configdb_sync")) == plugins / "configdb-sync-0.10"
    assert master.plugin_folder(plugins / "configdb-sync-0.9/configdb_sync") == plugins / "configdb-sync-0.9"


@pytest.mark.parametrize(("release", "file"), [("9.0.1", "astute-master.yaml"), ("newton", "cluster.yaml")])
def test_what_real_nailguns_wrote_is_read(master: Master, release: str, file: str) -> None:
    name = file.replace("-master", "")
    data = require_data() / "nailgun" / release / file
    write(master, f"etc/fuel/cluster/5/{name}", data.read_text())
    section, address = master.environment(5)
    assert section is not None
    assert address == "127.0.0.1"
    assert section.attributes["username"] == "lcm-plugin"
    assert section.metadata["data_sources"][0] == "override/plugins"


def test_of_a_large_file_only_the_few_lines_are_parsed(master: Master) -> None:
    rows = "".join(f"- {{uid: '{number}', fqdn: node-{number}.example.com}}\n" for number in range(40_000))
    text = f"nodes:\n{rows}{SECTION.format(tenant='x')}"
    write(master, "etc/fuel/cluster/5/astute.yaml", text)
    assert read(master, staged=True).tenant == "x"
    taken = "".join(_blocks(text, ("configdb-sync", "master_ip")))
    assert taken == SECTION.format(tenant="x").removeprefix("nodes:\n- uid: '1'\n")
