"""F1, F3, F5: the plugin's files say what Fuel needs, and hold nothing that it can't take."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import configdb_sync
from configdb_sync.plugin.fuel_settings import Master, layer
from configdb_sync.settings import READERS, read_settings

ROOT = Path(__file__).resolve().parents[2]
CONFIG_TEXT = (ROOT / "environment_config.yaml").read_text(encoding="utf-8")
ATTRIBUTES: dict[str, Any] = yaml.safe_load(CONFIG_TEXT)["attributes"]
METADATA: dict[str, Any] = yaml.safe_load((ROOT / "metadata.yaml").read_text(encoding="utf-8"))
TASKS: list[dict[str, Any]] = yaml.safe_load((ROOT / "deployment_tasks.yaml").read_text(encoding="utf-8"))
FIELDS = {name: one for name, one in ATTRIBUTES.items() if name != "metadata"}
TYPES = {"checkbox", "hidden", "password", "radio", "select", "text", "textarea", "number"}


def test_what_stands_at_the_top() -> None:
    for name in ("metadata.yaml", "environment_config.yaml", "deployment_tasks.yaml", "pre_build_hook"):
        assert (ROOT / name).is_file()
    for name in ("deployment_scripts", "repositories/ubuntu", "configdb_sync", "tests"):
        assert (ROOT / name).is_dir()
    for name in ("post_install.sh", "uninstall.sh"):
        (ROOT / name).read_bytes().decode("ascii")


def test_the_plugin_has_the_products_version() -> None:
    assert METADATA["version"] == configdb_sync.__version__
    short = ".".join(configdb_sync.__version__.split(".")[:2])
    name = f"{METADATA['name']}-{short}"
    folders = {("master",): f"/var/www/nailgun/plugins/{name}", ("/.*/",): f"/etc/fuel/plugins/{name}"}
    assert [task["parameters"]["cwd"] for task in TASKS] == [folders[tuple(task["role"])] for task in TASKS]


def test_fuel_9_10_and_11_on_ubuntu() -> None:
    assert METADATA["name"] == "configdb-sync"
    assert METADATA["package_version"] == "4.0.0"
    assert METADATA["fuel_version"] == ["9.0", "10.0", "11.0"]
    releases = [(release["os"], release["version"]) for release in METADATA["releases"]]
    assert releases == [("ubuntu", "mitaka-9.0"), ("ubuntu", "newton-10.0"), ("ubuntu", "ocata-11.0")]
    # From newton on a text under such a name is read as a file.
    allowed = {"deployment_scripts_path", "repository_path"}
    keys = {key for release in METADATA["releases"] for key in release} | METADATA.keys()
    assert {key for key in keys if key.endswith("_path")} == allowed


def test_no_brace_can_be_in_a_setting() -> None:
    # Fuel 9.0 formats every text of a plugin and fails on a brace.
    code = "\n".join(line.partition("#")[0] for line in CONFIG_TEXT.splitlines())
    texts = [text for value in walk(yaml.safe_load(code)) for text in ([value] if isinstance(value, str) else [])]
    assert [text for text in texts if "{" in text or "}" in text] == []
    for name, one in FIELDS.items():
        if one["type"] in {"text", "password"}:
            pattern = re.compile(one["regex"]["source"])
            assert pattern.search(one["value"]) or name == "configdb_url", name
            samples = [f"{before}{brace}x" for before in (one["value"], "a", "/", "https://a") for brace in "{}"]
            assert [text for text in samples if pattern.search(text)] == [], name
            assert one["regex"]["error"]


def walk(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for each in value.values() for leaf in walk(each)]
    return [leaf for each in value for leaf in walk(each)] if isinstance(value, list) else [value]


@pytest.mark.parametrize("name", FIELDS)
def test_a_field_is_labelled_typed_and_hidden_while_the_plugin_is_off(name: str) -> None:
    one = FIELDS[name]
    assert one["label"]
    assert one["type"] in TYPES
    assert isinstance(one["weight"], int)
    assert isinstance(one["value"], str | bool)
    conditions = [(each["condition"], each["action"]) for each in one["restrictions"]]
    assert ("settings:configdb-sync.metadata.enabled != true", "hide") in conditions
    for condition, _ in conditions:
        named = re.match(r"settings:configdb-sync\.(\w+)\.", condition)
        assert named
        assert named[1] in ATTRIBUTES


def test_fields_stand_in_an_order_and_the_password_is_one() -> None:
    weights = [one["weight"] for one in FIELDS.values()]
    assert weights == sorted(set(weights))
    assert FIELDS["password"]["type"] == "password"
    assert FIELDS["password"]["value"] == ""
    assert not ATTRIBUTES["metadata"]["enabled"]
    assert ATTRIBUTES["metadata"]["data_sources"] == []


def test_every_field_is_used_and_every_default_is_the_products() -> None:
    section = Master().defaults(ROOT)
    found = read_settings({}, {}, None, [layer("ui", section.attributes, section.metadata, "10.20.0.2")])
    plain = read_settings({}, {})
    chosen = {"configdb": "catalog", "nailgun": "https://10.20.0.2:8443"}
    for name in READERS:
        assert getattr(found, name) == chosen.get(name, getattr(plain, name)), name
    source = (ROOT / "configdb_sync/plugin/fuel_settings.py").read_text(encoding="utf-8")
    # What concerns the nodes alone is read there.
    node = (ROOT / "deployment_scripts/puppet/configdb/lib/configdb_hiera/setup/node.rb").read_text(encoding="utf-8")
    used = f"{source}{node.replace(chr(39), chr(34))}{(ROOT / 'deployment_tasks.yaml').read_text()}"
    assert [name for name in FIELDS if f'"{name}"' not in used and f".{name}." not in used] == []


def test_what_the_ui_lets_through_the_settings_take() -> None:
    for name, good, bad in (
        ("parallel", ["1", "64"], ["0", "65", "a", "1.5"]),
        ("unsafe_share", ["0", "0.5", "1", "1.0"], ["1.1", "-1", "."]),
        ("tenant", ["∑∞∆∏", "Bob's Tenant", "."], ["a/b", ""]),
        ("configdb_url", ["https://a:1/x"], ["ftp://a", "", "https://a b"]),
        ("ca_file", ["", "/etc/x"], ["etc/x"]),
    ):
        pattern = re.compile(FIELDS[name]["regex"]["source"])
        assert [bool(pattern.search(text)) for text in (*good, *bad)] == [True] * len(good) + [False] * len(bad), name
        if name in READERS:
            for text in good:
                READERS[name](text)


def test_the_nodes_tasks_are_off_by_default() -> None:
    off, on = (task for task in TASKS if task["role"] != ["master"])
    assert FIELDS["hiera_backend"]["value"] is False
    assert on["condition"] == "settings:configdb-sync.hiera_backend.value == true"
    field = "$.get('configdb-sync').get('hiera_backend')"
    # When it was switched off it is taken away, and else nothing is done there.
    assert off["condition"]["yaql_exp"] == f"{field} or changed({field})"
    for task in (off, on):
        assert task["parameters"]["cmd"] == f"./hiera_backend {task['id'].rpartition('_')[2]}"
        assert (task["type"], task["version"], task["role"]) == ("shell", "2.1.0", ["/.*/"])
        # Of the plugin a node has what is in this folder.
        assert (ROOT / "deployment_scripts/hiera_backend").stat().st_mode & 0o111 == 0o111


@pytest.mark.parametrize(
    "task", [task for task in TASKS if task["role"] == ["master"]], ids=lambda task: str(task["id"])
)
def test_the_tasks_command_line(task: dict[str, Any]) -> None:
    stage = {"_pre": "pre", "_post": "post"}.get(task["id"].removeprefix("upload_data_to_configdb"), "main")
    command = task["parameters"]["cmd"]
    assert command == f"./deployment_scripts/upload_data_to_configdb --stage {stage} --env {{CLUSTER_ID}}"
    assert (task["type"], task["version"], task["role"]) == ("shell", "2.1.0", ["master"])
    assert task["parameters"]["timeout"] >= 300
