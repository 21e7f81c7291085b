"""Masking: what is secret in a cloud's settings never shows (U3, U20)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.masking import Masker, is_secret_name

MASKER = Masker(b"k" * 32)

SECRET = [
    "password", "db_password", "user_password", "passwd", "root_password", "metering_secret", "auth_key", "admin_key",
    "mon_key", "bootstrap_osd_key", "metadata_proxy_shared_secret", "DEFAULT/rabbit_password", "admin_token",
    "erlang_cookie", "wsrep_sst_password", "cert_data", "private_key", "authkeys", "psk", "PASSWORD", "swift_hash_salt",
    "configdb_pass", "ssh_key", "api_key", "apikey", "apiKey", "auth_key_2", "fernet_keys", "secret_key", "fixed_key",
    "radosgw_key", "swift_tempurl_key", "ssl/key_private", "tls-private", "mco_pskey", "db_pwd", "bindpw", "rootPw",
    "passwords", "DEFAULT/host_key", "snmp_community", "private_key_data", "secret_source_password", "admin.key",
]  # fmt: skip
PLAIN = [
    "debug", "fqdn", "uid", "keystone", "keystone_hash", "user", "management_vip", "network_metadata", "passthrough",
    "monkey", "keyboard", "roles", "tenant", "certain",
    "key", "keys", "Key", "key1", "/key", "_key", "key_name", "public_key", "sshPublicKey", "primary_key",
    "default_private_net", "neutron/private", "private", "private_vip", "token_provider", "cert_source",
    "token_expiration", "bypass", "pass_through", "compass", "password_length",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRET)
def test_names_of_secrets_are_known(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", PLAIN)
def test_other_names_are_left_alone(name: str) -> None:
    assert not is_secret_name(name)


@given(st.sampled_from(SECRET), st.text(min_size=6), st.lists(st.sampled_from(["a", "b", "0"]), max_size=3))
def test_nothing_below_a_secret_name_shows(name: str, canary: str, way: list[str]) -> None:
    canary = f"CANARY{canary}"
    value: object = {name: {"deep": [canary, {"er": canary}]}}
    for step in way:
        value = {step: value}
    assert "CANARY" not in json.dumps(MASKER.shown((), value))
    assert "CANARY" not in str(MASKER.shown(("x", name), canary))


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN RSA PRIVATE KEY-----\nMII",
        "mysql://nova:hunter22@10.0.0.1/nova",
        "amqp://:s3cret9@host",
        "connection password=hunter22 host=x",
        "AQDWBqNXAAAAABAAT0qwqsMZTndkc8abcdefgh==",
    ],
)
def test_texts_that_look_like_secrets_are_masked_under_any_name(text: str) -> None:
    assert str(MASKER.shown(("url",), text)).startswith("<masked ")


def test_equal_secrets_look_equal_and_only_with_the_same_key() -> None:
    one = MASKER.shown(("password",), "same")
    assert one == MASKER.shown(("other_password",), "same")
    assert one != MASKER.shown(("password",), "other")
    assert one != Masker(b"j" * 32).shown(("password",), "same")


def test_what_tells_nothing_is_shown() -> None:
    assert MASKER.shown(("password",), None) is None
    assert MASKER.shown(("token_enabled",), True) is True
    assert MASKER.shown(("password",), "") == ""


def test_the_key_has_no_repr() -> None:
    assert "kkk" not in repr(MASKER)
