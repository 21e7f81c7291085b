"""U3: on a Fuel Master the commands go by the plugin's settings, each with its origin; elsewhere nothing changes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from configdb_sync.cli import command_session
from configdb_sync.plugin.fuel_settings import Master
from tests.nailgun.conftest import make_small
from tests.support.nailgun import Nailgun, at_work
from tests.support.product import Product
from tests.support.trees import make_trees

ROOT = Path(__file__).resolve().parents[2]
FILE = "etc/fuel/cluster/5/astute.yaml"


@pytest.fixture
def master(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a master with the plugin, at which the commands look."""
    folder = tmp_path / "master/var/www/nailgun/plugins/configdb-sync-0.1"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "environment_config.yaml", folder)
    monkeypatch.setattr(command_session, "MASTER", Master(tmp_path / "master"))
    return tmp_path / "master"


def write(master: Path, **section: Any) -> None:
    whole = {"configdb-sync": {"configdb": "embedded", **section, "metadata": {"enabled": True}}}
    (master / FILE).parent.mkdir(parents=True, exist_ok=True)
    (master / FILE).write_text(yaml.safe_dump(whole))


def settings(product: Product, *more: object) -> dict[str, tuple[str, str]]:
    found = product("doctor", "--env", 5, "--format", "json", *more)
    return {row["name"]: (row["value"], row["origin"]) for row in found.json["settings"]}


def test_each_value_of_the_plugin_has_its_place(
    product: Product, master: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(master, tenant="from-ui", parallel="7", username="lcm", password="CANARY")
    monkeypatch.setenv("CONFIGDB_SYNC_TENANT", "from-variable")
    found = settings(product)
    place = f"{master / FILE} (configdb-sync)"
    assert found["tenant"] == ("from-variable", "CONFIGDB_SYNC_TENANT")
    assert found["parallel"] == ("7", place)
    assert found["OS_USERNAME"] == ("lcm", place)
    assert found["OS_PASSWORD"] == ("(set, not shown)", place)
    assert found["unsafe_share"][1].endswith("configdb-sync-0.1/environment_config.yaml")


def test_what_was_changed_in_the_ui_since_holds_in_a_shell_and_not_in_a_deployment(
    product: Product, master: Path, tmp_path: Path
) -> None:
    write(master, tenant="deployed")
    trees = make_trees(tmp_path / "trees", "1")
    nailgun = make_small()
    nailgun.nodes = nailgun.nodes[:1]
    nailgun.attributes = changed(tenant="since", configdb="embedded")
    with at_work(nailgun) as url:
        over = ("--nailgun", url, "--env", 5, "--from", trees)
        assert settings(product, "--nailgun", url)["tenant"] == ("since", f"Nailgun {url} (configdb-sync)")
        assert product("sync", *over, "--stage", "main").code == 0
    components = product("dump", "--env", 5, tmp_path / "dump")
    assert components.code == 0, components.err
    text = "".join(path.read_text() for path in (tmp_path / "dump").rglob("*") if path.is_file())
    assert "deployed/5" in text
    assert "since/5" not in text


def changed(**values: str) -> dict[str, Any]:
    fields = {name: {"type": "text", "label": name, "value": value, "weight": 1} for name, value in values.items()}
    version = fields | {"metadata": {"plugin_id": 1, "plugin_version": "0.1.0"}}
    metadata = {"class": "plugin", "enabled": True, "chosen_id": 1, "versions": [version]}
    return {"editable": {"configdb-sync": {"metadata": metadata}}}


def test_nailgun_away_leaves_the_environments_file(product: Product, master: Path) -> None:
    write(master, tenant="deployed")
    assert settings(product, "--nailgun", "http://127.0.0.1:9")["tenant"][0] == "deployed"


def test_a_nailgun_that_does_not_offer_the_plugin(product: Product, master: Path) -> None:
    write(master, tenant="deployed")
    small: Nailgun = make_small()
    with at_work(small) as url:
        assert settings(product, "--nailgun", url)["tenant"][0] == "deployed"


def test_without_the_plugin_in_the_environment_nothing_changes(product: Product, master: Path) -> None:
    found = settings(product)
    assert found["configdb"] == ("embedded", "default")


def test_a_deployment_without_the_environments_file_goes_by_the_defaults(
    product: Product, master: Path, tmp_path: Path
) -> None:
    found = product("sync", "--env", 5, "--from", make_trees(tmp_path / "trees", "1"), "--stage", "main")
    assert found.code == 2
    assert "Keystone's address isn't known" in found.out
