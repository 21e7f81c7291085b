"""U3, F3: one rule for the value of every setting, from every place: what was meant, without the blanks at its ends, or
an error that names field and place and shows no secret."""

from __future__ import annotations

import datetime as dt
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.errors import SettingsError
from configdb_sync.keystone import clouds
from configdb_sync.masking import is_secret_name
from configdb_sync.plugin.fuel_settings import layer
from configdb_sync.settings import LOGIN, READERS, Settings, read_settings

CANARY = "CANARY-7f3"
GOOD = {
    "configdb": "https://configdb.example:8082/x",
    "nailgun": "https://10.20.0.2:8443",
    "page_url": "http://[fd00::2]:8083",
    "configdb_insecure": "true",
    "levels": "cluster=%{deployment_id},nodes=%{uid}",
    "data_sources": "nova,-globals",
    "writable": "/etc/hiera,/srv/x",
    "failure_policy": "post,ready",
    "parallel": "7",
    "unsafe_share": "0.25",
    "auth_url": "http://10.20.0.2:5000/v3",
    "insecure": "true",
    "tenant": "Bob's Tenant",
}
SHOWN: Mapping[str, Callable[[Any], str]] = {
    "configdb_insecure": lambda value: str(value).lower(),
    "levels": lambda value: ",".join("=".join(pair) for pair in value),
    "data_sources": ",".join,
    "writable": ",".join,
    "failure_policy": ",".join,
}
LISTS = {"levels", "data_sources", "writable", "failure_policy"}
NUMBERS = {"wait", "mco_timeout", "mco_connect_limit", "time_limit"}


def good(name: str) -> str:
    whole = name in NUMBERS | {"mco_attempts", "keep_runs", "keep_versions"}
    return GOOD.get(name, "20" if whole else f"/a b/{name}.x")


def shown(name: str, value: Any) -> str:
    text = SHOWN.get(name, str)(value)
    return text.removesuffix(".0") if name in NUMBERS else text


blanks = st.text(alphabet=" \t\n\r\v\f\u00a0\u2003", max_size=3)
odd_char = st.sampled_from("\n\r\t\0\x1b\x7f\x85\u200b\u2028\u2029\ufeff\ud800")
yaml_types = st.one_of(
    st.lists(st.just(CANARY), min_size=1),
    st.dictionaries(st.just(CANARY), st.just(CANARY), min_size=1),
    st.binary(min_size=1),
    st.dates(),
    st.datetimes(),
    st.sampled_from([float("nan"), float("inf"), 10**400, -1]),
)
wrong_types = st.one_of(
    yaml_types,
    st.sampled_from([object(), {CANARY}, (CANARY, 1), complex(1)]),
)

Read = Callable[[str, Any], tuple[Any, str]]


def by_flag(name: str, value: Any) -> tuple[Any, str]:
    return getattr(read_settings({name: value}, {}), name), f"--{name.replace('_', '-')}"


def by_variable(name: str, value: Any) -> tuple[Any, str]:
    variable = f"CONFIGDB_SYNC_{name.upper()}"
    return getattr(read_settings({}, {variable: value}), name), variable


def by_file(name: str, value: Any) -> tuple[Any, str]:
    return getattr(_file({name: value}), name), "settings.yaml"


def by_login(name: str, value: Any) -> tuple[Any, str]:
    return _file({"login": {name: value}}).login.get(f"OS_{name.upper()}"), "settings.yaml"


def by_login_variable(name: str, value: Any) -> tuple[Any, str]:
    return read_settings({}, {f"OS_{name.upper()}": value}).login.get(f"OS_{name.upper()}"), f"OS_{name.upper()}"


def by_cloud(name: str, value: Any) -> tuple[Any, str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "clouds.yaml"
        auth = {"auth_url": GOOD["auth_url"], name: value}
        file.write_text(yaml.dump({"clouds": {"x": {"auth": auth}}}, allow_unicode=False), encoding="utf-8")
        found = clouds.read({"OS_CLOUD": "x", "OS_CLIENT_CONFIG_FILE": str(file)})
        return found.auth.get("project_name" if name == "tenant_name" else name), "clouds.yaml, cloud x"


def _file(content: Mapping[str, Any]) -> Settings:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "settings.yaml"
        file.touch(mode=0o600)
        file.write_text(yaml.dump(content, allow_unicode=False), encoding="utf-8")
        return read_settings({}, {}, file)


FIELDS = {
    "username": lambda found: found.login.get("OS_USERNAME"),
    "password": lambda found: found.login.get("OS_PASSWORD"),
    "project": lambda found: found.login.get("OS_PROJECT_NAME"),
    "region": lambda found: found.login.get("OS_REGION_NAME"),
    "auth_url": lambda found: found.login.get("OS_AUTH_URL"),
    "ca_file": lambda found: found.login.get("OS_CACERT"),
    "configdb_url": lambda found: found.configdb,
    "tenant": lambda found: found.tenant,
    "parallel": lambda found: found.parallel,
    "unsafe_share": lambda found: found.unsafe_share,
    "page_url": lambda found: found.page_url,
}
METADATA = {
    "interface": lambda found: found.login.get("OS_INTERFACE"),
    "default_domain": lambda found: found.login.get("OS_DEFAULT_DOMAIN_NAME"),
    "nailgun_port": lambda found: found.nailgun.rpartition(":")[2],
    "keystone_port": lambda found: found.login["OS_AUTH_URL"].rpartition(":")[2],
}
PLACE = "/etc/fuel/cluster/5/astute.yaml (configdb-sync)"


def by_plugin(name: str, value: Any) -> tuple[Any, str]:
    attributes = {"configdb": "url", "configdb_url": GOOD["configdb"]} if name == "configdb_url" else {}
    fields, more = (attributes | {name: value}, {}) if name in FIELDS else ({}, {name: value})
    found = read_settings({}, {}, None, [layer(PLACE, fields, more, "10.20.0.2")])
    return (FIELDS | METADATA)[name](found), PLACE


def place_of(read: Read, name: str) -> str:
    return read(name, good_of(name))[1]


def good_of(name: str) -> str:
    if name.endswith("_port"):
        return "8443"
    return GOOD.get("configdb" if name == "configdb_url" else name) or good(name)


NAMES: Mapping[Read, tuple[str, ...]] = {
    by_flag: tuple(READERS),
    by_variable: tuple(READERS),
    by_file: tuple(READERS),
    by_login: tuple(sorted(LOGIN)),
    by_login_variable: tuple(sorted(LOGIN)),
    by_plugin: (*FIELDS, *METADATA),
    by_cloud: ("auth_url", "username", "password", "project_name", "tenant_name"),
}
reads = pytest.mark.parametrize("read", NAMES, ids=lambda read: read.__name__)
typed = pytest.mark.parametrize(
    "read", [read for read in NAMES if "variable" not in read.__name__], ids=lambda read: read.__name__
)
some = hypothesis.settings(max_examples=60)
secrets = {"password", "passcode", "token", "application_credential_secret"}


def refused(read: Read, name: str, value: Any) -> None:
    place = place_of(read, name)
    with pytest.raises(SettingsError) as caught:
        read(name, value)
    text = str(caught.value)
    field = f"OS_{name.upper()}" if read is by_login_variable else name
    assert re.search(rf"(^|[^A-Za-z_]){re.escape(field)}([^A-Za-z_]|$)", text), text
    assert place in text, text
    if is_secret_name(name) or "url" in name or name in {"configdb", "nailgun"} or "database" in name:
        assert CANARY not in text
    assert "\n" not in text


def check_blanks(read: Read, name: str, before: str, after: str) -> None:
    value = f"{before}{good_of(name)}{after}"
    if name in secrets and before + after:
        refused(read, name, value)
    else:
        assert shown(name, read(name, value)[0]) == good_of(name)


@reads
def test_blanks_at_the_ends_are_removed_or_refused(read: Read) -> None:
    for name in NAMES[read]:
        check_blanks(read, name, " ", "\n")

    @some
    @given(st.sampled_from(NAMES[read]), blanks, blanks)
    def check(name: str, before: str, after: str) -> None:
        check_blanks(read, name, before, after)

    check()


def check_invisible(read: Read, name: str, char: str, place: int) -> None:
    text = good_of(name)
    value = f"{text[:place]}{char}{text[place:]}"
    if name in secrets and char in "\u200b\ufeff":
        assert read(name, value)[0] == value
        return
    parts = re.split("[,=]", value) if name in LISTS else [value]
    # Beside a list's comma a line break is a blank at an end.
    if any(not part.strip().isprintable() for part in parts):
        refused(read, name, value)


@reads
def test_no_invisible_character_gets_through(read: Read) -> None:
    for name in NAMES[read]:
        check_invisible(read, name, "\n", 1)
        check_invisible(read, name, "\0", 1)

    @some
    @given(st.sampled_from(NAMES[read]), odd_char, st.integers(1, 30))
    def check(name: str, char: str, place: int) -> None:
        check_invisible(read, name, char, 1 + place % max(1, len(good_of(name)) - 1))

    check()


def check_type(read: Read, name: str, value: Any) -> None:
    listed = name == "data_sources" and isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)
    if not listed and not (name == "levels" and isinstance(value, dict)):
        refused(read, name, value)


@typed
def test_a_value_of_another_type_is_refused(read: Read) -> None:
    for name in NAMES[read]:
        for value in ([CANARY], {CANARY: "x"}, b"1", dt.date(2026, 1, 1)):
            check_type(read, name, value)

    @some
    @given(st.sampled_from(NAMES[read]), wrong_types if read in (by_flag, by_plugin) else yaml_types)
    def check(name: str, value: Any) -> None:
        check_type(read, name, value)

    check()


@typed
def test_a_number_or_a_truth_is_no_text(read: Read) -> None:
    for name in NAMES[read]:
        takes_numbers = name in NUMBERS | {"parallel", "unsafe_share", "mco_attempts", "keep_runs", "keep_versions"}
        takes_numbers = takes_numbers or name.endswith("_port")
        for value in (17, 0.5, True, False, 0):
            truth = isinstance(value, bool) and name in {"configdb_insecure", "insecure"}
            if not truth and not (takes_numbers and not isinstance(value, bool)):
                refused(read, name, value)


@reads
def test_what_is_empty_is_not_given_and_an_empty_flag_is_an_error(read: Read) -> None:
    for name in NAMES[read]:
        for value in ("", " ", "\n"):
            if read is by_flag:
                refused(read, name, value)
            elif name != "configdb_url" and not (read is by_cloud and name == "auth_url"):
                assert read(name, value)[0] == absent(read, name)


def absent(read: Read, name: str) -> Any:
    if read is by_plugin:
        return (FIELDS | METADATA)[name](read_settings({}, {}, None, [layer(PLACE, {}, {}, "10.20.0.2")]))
    return getattr(Settings(), name) if read in (by_variable, by_file) else None
