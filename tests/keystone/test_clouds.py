"""How to log in, by ``OS_*`` and ``clouds.yaml`` (U3, U5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from configdb_sync.errors import SettingsError
from configdb_sync.keystone import clouds

CLOUDS = """
clouds:
  fuel:
    auth: {auth_url: "https://keystone:5000", username: admin, project_name: admin, user_domain_name: Default}
    region_name: RegionTwo
    interface: internal
    cacert: /etc/ca.pem
  bare: {auth: null}
  open: {auth: {auth_url: "https://k"}, verify: false}
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "clouds.yaml").write_text(CLOUDS)
    (tmp_path / "secure.yaml").write_text("clouds: {fuel: {auth: {password: CANARY}}}")
    return {"OS_CLIENT_CONFIG_FILE": str(tmp_path / "clouds.yaml")}


def test_variables_alone() -> None:
    cloud = clouds.read(
        {
            "OS_AUTH_URL": "http://k/v3",
            "OS_USERNAME": "u",
            "OS_PASSWORD": "CANARY",
            "OS_TENANT_NAME": "t",
            "HOME": "/root",
        }
    )
    assert cloud.auth == {"auth_url": "http://k/v3", "username": "u", "password": "CANARY", "project_name": "t"}
    assert (cloud.auth_type, cloud.interface, cloud.region, cloud.ca_file, cloud.insecure) == (
        "password",
        "public",
        None,
        None,
        False,
    )
    assert "CANARY" not in repr(cloud)


def test_a_cloud_of_the_file_and_its_secrets(environ: dict[str, str]) -> None:
    cloud = clouds.read({**environ, "OS_CLOUD": "fuel"})
    assert cloud.auth["password"] == "CANARY"
    assert cloud.auth["username"] == "admin"
    assert (cloud.region, cloud.interface, cloud.ca_file) == ("RegionTwo", "internal", Path("/etc/ca.pem"))


def test_variables_go_before_the_file(environ: dict[str, str]) -> None:
    cloud = clouds.read({**environ, "OS_CLOUD": "fuel", "OS_USERNAME": "other", "OS_ENDPOINT_TYPE": "adminURL"})
    assert cloud.auth["username"] == "other"
    assert cloud.interface == "admin"


def test_verification_is_turned_off_only_explicitly(environ: dict[str, str]) -> None:
    """U12."""
    assert clouds.read({**environ, "OS_CLOUD": "open"}).insecure
    assert clouds.read({"OS_AUTH_URL": "https://k", "OS_INSECURE": "true"}).insecure
    assert not clouds.read({"OS_AUTH_URL": "https://k", "OS_INSECURE": "no"}).insecure


def test_what_is_wrong_is_named(environ: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="OS_AUTH_URL"):
        clouds.read({})
    with pytest.raises(SettingsError, match=r"no cloud 'other' .it has fuel, bare, open"):
        clouds.read({**environ, "OS_CLOUD": "other"})
    with pytest.raises(SettingsError, match="auth of cloud bare is no mapping"):
        clouds.read({**environ, "OS_CLOUD": "bare"})
    (tmp_path / "clouds.yaml").write_text("clouds: [CANARY")
    with pytest.raises(SettingsError, match=r"clouds\.yaml can't be read") as caught:
        clouds.read({**environ, "OS_CLOUD": "fuel"})
    assert "CANARY" not in str(caught.value)


def test_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match="there is no clouds"):
        clouds.read({"OS_CLOUD": "x", "HOME": str(tmp_path)})
    (tmp_path / ".config/openstack").mkdir(parents=True)
    (tmp_path / ".config/openstack/clouds.yaml").write_text("clouds: {x: {auth: {auth_url: http://u}}}")
    assert clouds.read({"OS_CLOUD": "x", "HOME": str(tmp_path)}).auth["auth_url"] == "http://u"
