"""U3: one reader of settings; each value knows where it came from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from configdb_sync.errors import SettingsError
from configdb_sync.settings import OTHER_VARIABLES, READERS, SettingsLayer, read_settings


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
    with pytest.raises(SettingsError, match=r"can't be read.*--settings"):
        read_settings({}, {}, file.with_name("none"))
    file.write_text("")
    file.chmod(0o600)
    assert read_settings({}, {}, file).tenant == "admin"


def test_layers_come_after_the_file_and_before_defaults(file: Path) -> None:
    file.write_text("tenant: from-file\n")
    layers = [
        SettingsLayer("first", {"tenant": "a", "parallel": 2}),
        SettingsLayer("second", {"parallel": 3, "keep_runs": 7}),
    ]
    found = read_settings({}, {}, file, layers)
    assert (found.tenant, found.parallel, found.keep_runs, found.wait) == ("from-file", 2, 7, 240)
    assert (found.origins["parallel"], found.origins["keep_runs"]) == ("first", "second")


UI = SettingsLayer("ui", {}, {"OS_AUTH_URL": "http://ui:5000", "OS_USERNAME": "lcm", "OS_PASSWORD": "in-clear"})


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
    with pytest.raises(SettingsError, match=r"login is not valid.*password") as caught:
        read_settings({}, {}, file)
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("CONFIGDB_SYNC_TENNANT", "CONFIGDB_SYNC_TENANT"),
        ("CONFIGDB_SYNC_DATASOURCES", "CONFIGDB_SYNC_DATA_SOURCES"),
        ("CONFIGDB_SYNC_SETTING", "CONFIGDB_SYNC_SETTINGS"),
    ],
)
def test_a_mistyped_variable_is_named_with_what_is_meant(variable: str, meant: str) -> None:
    with pytest.raises(SettingsError, match=rf"{variable}'.*is {meant}[ a-zA-Z_]* meant\?") as caught:
        read_settings({}, {variable: "CANARY"})
    assert "CANARY" not in str(caught.value)
    assert "FAILPOINT" not in str(caught.value), "what no user sets isn't offered"


def test_a_variable_of_another_product_is_none_of_ours() -> None:
    assert read_settings({}, {"CONFIGDB_SYNCER": "x", "OS_IMAGE_API_VERSION": "2", "configdb_sync_x": "y"}).origins


def test_every_variable_of_the_project_is_known() -> None:
    root = Path(__file__).resolve().parents[1]
    folders = ("configdb_sync", "deployment_scripts", "docs", "script", "services", "tests", "benchmarks", ".ci")
    files = [path for folder in folders for path in (root / folder).rglob("*") if path.is_file()]
    files = [path for path in files if path.parent.name != "__pycache__"]
    files += [path for path in root.iterdir() if path.is_file()]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in files if path != Path(__file__)]
    used = {name for text in texts for name in re.findall(r"(?<!_)CONFIGDB_SYNC_[A-Z0-9_]*[A-Z0-9]", text)}
    assert len(used) > 30
    read_settings({}, dict.fromkeys(used & {f"CONFIGDB_SYNC_{name}" for name in OTHER_VARIABLES}, "x"))
    assert used <= {f"CONFIGDB_SYNC_{name}" for name in {*OTHER_VARIABLES, *map(str.upper, READERS)}}


def test_an_unknown_setting_is_named_with_what_is_meant(file: Path) -> None:
    file.write_text("data_source: [nova]\n")
    with pytest.raises(SettingsError, match=r"unknown setting 'data_source'.*is data_sources"):
        read_settings({}, {}, file)


@pytest.mark.parametrize(
    "text", ["tenant: a\nparallel: 2\ntenant: b\n", "login:\n  username: a\n  username: b\n", '"tenant": a\ntenant: b']
)
def test_a_setting_that_stands_twice_is_refused(file: Path, text: str) -> None:
    """R7: the last one was taken without a word."""
    file.write_text(text)
    with pytest.raises(SettingsError, match=r"has (tenant|username) twice, at line [234]"):
        read_settings({}, {}, file)


@pytest.mark.parametrize("name", ["configdb_ca", "nailgun_ca"])
def test_a_file_of_authorities_must_be_there_and_be_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / "ca.pem"
    found = read_settings({name: str(path)}, {})
    with pytest.raises(SettingsError, match=rf"--{name.replace('_', '-')}: {name} names {path}, which is no file"):
        found.authorities(name)
    path.write_text("CANARY")
    with pytest.raises(SettingsError, match=rf"{name} names {path}, which can't be used.*PEM") as caught:
        found.authorities(name)
    assert "CANARY" not in str(caught.value)
    assert read_settings({}, {}).authorities(name) is None


@pytest.mark.parametrize("name", ["OS_CACERT", "OS_CLIENT_CONFIG_FILE"])
def test_a_file_that_the_login_names_must_be_there(tmp_path: Path, file: Path, name: str) -> None:
    file.write_text(f"login: {{{name[3:].lower()}: {tmp_path}/none, auth_url: 'http://k:5000'}}")
    for found, place in (
        (read_settings({}, {name: f"{tmp_path}/none"}), "environment"),
        (read_settings({}, {}, file), str(file)),
        (read_settings({}, {}, None, [SettingsLayer("ui", {}, {name: f"{tmp_path}/none"})]), "ui"),
    ):
        with pytest.raises(SettingsError, match=rf"{place}: {name} names {tmp_path}/none, which is no file"):
            found.checked_login()
