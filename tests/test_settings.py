"""U3: one reader of settings; each value knows where it came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from configdb_sync.errors import SettingsError
from configdb_sync.settings import READERS, Layer, read_settings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "settings.yaml"
    path.touch(mode=0o600)
    return path


def test_flags_go_before_variables_before_the_file_before_defaults(file: Path) -> None:
    file.write_text("tenant: from-file\nparallel: 2\nunsafe_share: 0.9\n")
    environ = {"CONFIGDB_SYNC_TENANT": "from-variable", "CONFIGDB_SYNC_PARALLEL": "3"}
    found = read_settings({"tenant": "from-flag", "parallel": None}, environ, file)
    assert (found.tenant, found.parallel, found.unsafe_share, found.configdb) == ("from-flag", 3, 0.9, "embedded")
    assert found.origins["tenant"] == "--tenant"
    assert found.origins["parallel"] == "CONFIGDB_SYNC_PARALLEL"
    assert found.origins["unsafe_share"] == str(file)
    assert found.origins["configdb"] == "default"
    assert set(found.origins) == set(READERS)


def test_levels_and_lists() -> None:
    found = read_settings({"levels": "cluster=%{deployment_id}, nodes=%{uid}", "data_sources": "a,-b"}, {})
    assert found.levels == (("cluster", "%{deployment_id}"), ("nodes", "%{uid}"))
    assert found.data_sources == ("a", "-b")
    assert read_settings({"failure_policy": "none"}, {}).failure_policy == ()
    assert read_settings({"failure_policy": "post, ready"}, {}).failure_policy == ("post", "ready")


@pytest.mark.parametrize(
    ("name", "value", "wants"),
    [
        ("parallel", "0", "1 to 64"),
        ("parallel", "many", "1 to 64"),
        ("unsafe_share", "2", "0 to 1"),
        ("unsafe_share", "nan", "0 to 1"),
        ("levels", "nodes", "outermost first"),
        ("levels", "nodes=a,nodes=b", "outermost first"),
        ("tenant", "a/b", "without a slash"),
        ("tenant", "x" * 256, "255"),
        ("configdb_insecure", "maybe", "true or false"),
        ("time_limit", "0", "1 to 86400"),
        ("failure_policy", "deploying,everything", "deploying, ready, configdb, post, or none"),
        ("failure_policy", "none,post", "or none"),
        ("keep_runs", "0", "1 to 100000"),
    ],
)
def test_a_wrong_value_names_the_setting_its_place_and_what_it_takes(name: str, value: str, wants: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_settings({}, {f"CONFIGDB_SYNC_{name.upper()}": value})
    assert f"CONFIGDB_SYNC_{name.upper()}" in str(caught.value)
    assert wants in str(caught.value)


def test_the_file_must_be_its_owners_a_mapping_and_known(file: Path) -> None:
    file.write_text("tennant: x\n")
    with pytest.raises(SettingsError, match=r"tennant.*known are.*tenant"):
        read_settings({}, {}, file)
    file.write_text("- a\n")
    with pytest.raises(SettingsError, match="no mapping"):
        read_settings({}, {}, file)
    file.write_text("a: [\n")
    with pytest.raises(SettingsError, match="not YAML at line"):
        read_settings({}, {}, file)
    for text in ("tenant: 2026-13-45\n", "[" * 100_000):
        file.write_text(text)
        with pytest.raises(SettingsError, match="not YAML that can be read"):
            read_settings({}, {}, file)
    file.chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 0600"):
        read_settings({}, {}, file)
    with pytest.raises(SettingsError, match="can't be read"):
        read_settings({}, {}, file.with_name("none"))
    file.write_text("")
    file.chmod(0o600)
    assert read_settings({}, {}, file).tenant == "admin"


def test_layers_come_after_the_file_and_before_defaults(file: Path) -> None:
    file.write_text("tenant: from-file\n")
    layers = [Layer("first", {"tenant": "a", "parallel": 2}), Layer("second", {"parallel": 3, "keep_runs": 7})]
    found = read_settings({}, {}, file, layers)
    assert (found.tenant, found.parallel, found.keep_runs, found.wait) == ("from-file", 2, 7, 240)
    assert (found.origins["parallel"], found.origins["keep_runs"]) == ("first", "second")


UI = Layer("ui", {}, {"OS_AUTH_URL": "http://ui:5000", "OS_USERNAME": "lcm", "OS_PASSWORD": "in-clear"})


def test_a_password_may_lie_on_the_master_alone(file: Path) -> None:
    file.write_text("login:\n  password: CANARY\n")
    found = read_settings({}, {}, file, [UI])
    assert found.login == {**UI.login, "OS_PASSWORD": "CANARY"}
    assert found.login_origins == {"OS_AUTH_URL": "ui", "OS_USERNAME": "ui", "OS_PASSWORD": str(file)}
    assert "CANARY" not in repr(found)


def test_who_names_the_keystone_gives_the_whole_login(file: Path) -> None:
    file.write_text("login:\n  auth_url: http://file:5000\n  username: me\n")
    assert read_settings({}, {}, file, [UI]).login == {"OS_AUTH_URL": "http://file:5000", "OS_USERNAME": "me"}
    other = {"OS_CLOUD": "mine", "OS_REGION_NAME": "r", "HOME": "/x"}
    assert read_settings({}, other, file, [UI]).login == {"OS_CLOUD": "mine", "OS_REGION_NAME": "r"}
    part = read_settings({}, {"OS_USERNAME": "you"}, file, [UI])
    assert part.login == {"OS_AUTH_URL": "http://file:5000", "OS_USERNAME": "you"}


@pytest.mark.parametrize("text", ["login: CANARY", "login: {passwort: CANARY}", "login: [CANARY]"])
def test_a_wrong_login_is_refused_without_its_content(file: Path, text: str) -> None:
    file.write_text(text)
    with pytest.raises(SettingsError, match=r"login isn't as it must be.*password") as caught:
        read_settings({}, {}, file)
    assert "CANARY" not in str(caught.value)
