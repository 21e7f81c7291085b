"""U3, F3: the plugin's attributes as settings; F5: what no setting can be made of is an error, not a surprise."""

from __future__ import annotations

from typing import Any

import pytest

from configdb_sync.errors import SettingsError
from configdb_sync.plugin.fuel_settings import layer
from configdb_sync.settings import read_settings


def read(attributes: dict[str, Any], metadata: dict[str, Any] | None = None, master_ip: str | None = None) -> Any:
    return read_settings({}, {}, None, [layer("here", attributes, metadata or {}, master_ip)])


def test_what_is_set_becomes_settings_with_its_place() -> None:
    found = read(
        {
            "configdb": "url",
            "configdb_url": "https://configdb:8082",
            "tenant": "Bob's Tenant",
            "parallel": "8",
            "unsafe_share": "0.25",
            "ca_file": "/etc/ssl/own.pem",
            "verify_tls": True,
        },
        {"data_sources": ["nova", "-globals"]},
    )
    assert (found.configdb, found.tenant, found.parallel) == ("https://configdb:8082", "Bob's Tenant", 8)
    assert (found.unsafe_share, str(found.configdb_ca)) == (0.25, "/etc/ssl/own.pem")
    assert found.data_sources == ("nova", "-globals")
    assert not found.configdb_insecure
    assert {found.origins[name] for name in ("configdb", "tenant", "parallel", "data_sources")} == {"here"}
    assert found.origins["wait"] == "default"


def test_what_is_left_empty_is_the_next_layers() -> None:
    found = read({"configdb": "", "tenant": "", "parallel": "", "password": ""})
    assert (found.configdb, found.tenant, found.parallel, found.login) == ("embedded", "admin", 4, {})


@pytest.mark.parametrize(
    ("attributes", "policy"),
    [
        ({"stop_deploying": True, "stop_configdb": True, "stop_ready": False, "stop_post": False}, None),
        ({"stop_deploying": False, "stop_configdb": False, "stop_ready": False, "stop_post": False}, ()),
        ({"stop_post": True, "stop_ready": True}, ("ready", "post")),
        ({}, None),
    ],
)
def test_the_checkboxes_are_the_failure_policy(attributes: dict[str, Any], policy: tuple[str, ...] | None) -> None:
    assert read(attributes).failure_policy == (("deploying", "configdb") if policy is None else policy)


def test_the_login_and_its_constants() -> None:
    found = read(
        {"username": "lcm", "password": "CANARY", "project": "services", "region": "r1", "verify_tls": False},
        {"interface": "internal", "default_domain": "Default", "keystone_port": "5001", "nailgun_port": "8444"},
        "10.20.0.2",
    )
    assert found.login == {
        "OS_AUTH_URL": "http://10.20.0.2:5001",
        "OS_USERNAME": "lcm",
        "OS_PASSWORD": "CANARY",
        "OS_PROJECT_NAME": "services",
        "OS_REGION_NAME": "r1",
        "OS_INTERFACE": "internal",
        "OS_DEFAULT_DOMAIN_NAME": "Default",
        "OS_INSECURE": "true",
    }
    assert found.nailgun == "https://10.20.0.2:8444"
    assert found.configdb_insecure
    assert "CANARY" not in repr(found)


def test_an_address_of_ip_version_6_is_bracketed() -> None:
    assert read({}, {}, "fd00::2").nailgun == "https://[fd00::2]:8443"


def test_what_is_wrong_is_named_with_its_place() -> None:
    with pytest.raises(SettingsError, match=r"here.*at an address"):
        read({"configdb": "url", "configdb_url": ""})
    with pytest.raises(SettingsError, match=r"here.*data_sources is no list"):
        read({}, {"data_sources": "nova"})
    with pytest.raises(SettingsError, match=r"here: parallel.*1 to 64"):
        read({"parallel": "65"})
