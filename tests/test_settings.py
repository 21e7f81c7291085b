"""U3: one reader of settings; each value knows where it came from."""

from __future__ import annotations

from pathlib import Path

import pytest

from configdb_sync.errors import SettingsError
from configdb_sync.settings import READERS, read_settings


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
    file.chmod(0o644)
    with pytest.raises(SettingsError, match="chmod 0600"):
        read_settings({}, {}, file)
    with pytest.raises(SettingsError, match="can't be read"):
        read_settings({}, {}, file.with_name("none"))
    file.write_text("")
    file.chmod(0o600)
    assert read_settings({}, {}, file).tenant == "admin"
