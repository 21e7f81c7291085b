"""U3, U12, U15: the settings file is its owner's alone, and what is wrong in it is named without a value."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.hiera_backend.backend import Driver, private

GOOD: dict[str, Any] = {"environment": 5, "url": "https://configdb.example.com/x", "auth": "none", "cache": "/x"}
LOGIN = {"auth_url": "http://127.0.0.1:5000", "username": "reader", "password": "CANARY"}


def read(ruby: Driver, path: Path) -> dict[str, Any]:
    answer = ruby("settings", settings=str(path))
    assert "CANARY" not in str(answer)
    return answer


def write(folder: Path, values: Any) -> Path:
    return private(folder / "hiera.yaml", values if isinstance(values, str) else yaml.safe_dump(values))


def test_a_good_file(ruby: Driver, tmp_path: Path) -> None:
    found = read(ruby, write(tmp_path, {**GOOD, "auth": "keystone", "login": LOGIN, "levels": "a = b, nodes=%{uid}"}))
    assert found["ok"]["levels"] == [["a", "b"], ["nodes", "%{uid}"]]
    assert found["ok"]["shown"] == [f"#<ConfigdbHiera::Settings {tmp_path}/hiera.yaml>"] * 2


def test_blanks_at_the_ends_are_no_part_of_a_value(ruby: Driver, tmp_path: Path) -> None:
    login = {"auth_url": " http://127.0.0.1:5000\n", "username": "\treader ", "password": "a b", "region": " "}
    found = read(ruby, write(tmp_path, {**GOOD, "auth": " keystone\n", "login": login, "levels": "nodes=1\n"}))
    assert found["ok"]["levels"] == [["nodes", "1"]]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660, 0o602])
def test_a_file_that_others_can_read_or_write_is_refused(ruby: Driver, tmp_path: Path, mode: int) -> None:
    path = write(tmp_path, GOOD)
    path.chmod(mode)
    found = read(ruby, path)
    assert found["error"] == "SettingsError"
    assert found["text"] == f"the settings file {path} is open to others (mode {mode:04o}); make it 0600"


def test_links(ruby: Driver, tmp_path: Path) -> None:
    link = tmp_path / "link.yaml"
    link.symlink_to(write(tmp_path, GOOD))
    assert "ok" in read(ruby, link)
    link.resolve().chmod(0o644)
    assert "is open to others" in read(ruby, link)["text"]
    for odd in ("/dev/zero", str(tmp_path), "/dev/null"):
        link.unlink()
        link.symlink_to(odd)
        assert read(ruby, link)["text"] == f"the settings file {link} is no regular file"
    link.unlink()
    link.symlink_to(tmp_path / "nowhere")
    assert read(ruby, link)["text"] == f"the settings file {link} can't be read: ENOENT"


def test_a_pipe_does_not_hold_us(ruby: Driver, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    assert "is no regular file" in read(ruby, tmp_path / "pipe")["text"]


@pytest.mark.skipif(os.geteuid() != 0, reason="no root")
def test_another_users_file_is_refused(ruby: Driver, tmp_path: Path) -> None:
    path = write(tmp_path, GOOD)
    os.chown(path, 65534, 65534)
    assert read(ruby, path)["text"] == f"the settings file {path} belongs to another user"
    link = tmp_path / "link.yaml"
    link.symlink_to(path)
    os.chown(link, 65534, 65534, follow_symlinks=False)
    os.chown(path, 0, 0)
    assert "is another user's link, so it isn't followed" in read(ruby, link)["text"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ("CANARY: [", "isn't YAML, line 2"),
        ("- CANARY", "is no mapping"),
        ("a: !ruby/object:CANARY {}", "isn't YAML"),
        ({"passwort": "CANARY"}, 'has no setting "passwort"'),
        ({"environment": "CANARY"}, "environment is no number"),
        ({"environment": None}, "environment is no number"),
        ({"url": None}, "url is missing"),
        ({"url": "CANARY"}, "url isn't like https://host:port/path"),
        ({"url": "https://user:CANARY@host"}, "url holds a login"),
        ({"url": "ftp://CANARY"}, "url isn't like"),
        ({"url": "http://host/?CANARY"}, "url isn't like"),
        ({"auth": "CANARY"}, "auth is none of keystone, token, none"),
        ({"auth": "token"}, "token_file is missing"),
        ({"auth": "keystone"}, "login lacks auth_url"),
        ({"auth": "keystone", "login": {**LOGIN, "password": ""}}, "login lacks password"),
        ({"auth": "keystone", "login": {**LOGIN, "auth_url": "CANARY"}}, "auth_url isn't like"),
        ({"login": "CANARY"}, "login is no mapping"),
        ({"login": {"pasword": "CANARY"}}, 'login has no "pasword"'),
        ({"when_away": "CANARY"}, "when_away is none of last-known, error"),
        ({"ttl": "CANARY"}, "ttl is no number from 0 on"),
        ({"timeout": 0}, "timeout is no number from 1 on"),
        ({"insecure": "CANARY"}, "insecure is neither true nor false"),
        ({"ca_file": "/nowhere/ca.pem"}, "ca_file /nowhere/ca.pem can't be read"),
        ({"cache": "CANARY"}, "cache is no path"),
        ({"levels": "CANARY"}, "isn't like nodes=%{uid}"),
        ({"levels": 5}, "levels is no text"),
        ({"url": ["CANARY"]}, "url is no text"),
        ({"url": "https://a\nCANARY"}, "url has line breaks"),
        ({"levels": "a=b\u200b"}, "levels has line breaks or invisible characters"),
        ({"login": {**LOGIN, "username": ["CANARY"]}}, "login.username is no text"),
        ({"login": {**LOGIN, "username": 5}}, "login.username is no text"),
        ({"login": {**LOGIN, "password": 12345}}, "login.password is no text"),
        ({"login": {**LOGIN, "password": "CANARY\n"}}, "login.password has blanks or line breaks at its ends"),
        ({"login": {**LOGIN, "region": "a\tb"}}, "login.region has line breaks"),
        ({"files": "CANARY"}, "files is no list of names"),
        ({"data_sources": ["CANARY"]}, "data_sources is no mapping"),
    ],
)
def test_what_is_wrong_is_named(ruby: Driver, tmp_path: Path, changed: Any, reason: str) -> None:
    values = changed if isinstance(changed, str) else {**GOOD, **changed}
    answer = ruby("settings", settings=str(write(tmp_path, values)))
    assert answer["error"] == "SettingsError"
    assert reason in answer["text"]
    assert "password" not in reason or "CANARY" not in answer["text"]


@pytest.mark.parametrize("token", ["", "two words", "a\nb"])
def test_a_token_file_without_a_token_is_named(ruby: Driver, tmp_path: Path, token: str) -> None:
    file = private(tmp_path / "token", token)
    values = {**GOOD, "url": "http://127.0.0.1:9", "auth": "token", "token_file": str(file)}
    asked = {"settings": str(write(tmp_path, values)), "session": str(tmp_path), "levels": ["a"], "place": "1"}
    answer = ruby("data", **asked)
    assert answer["error"] == "SettingsError"
    assert answer["text"] == f"the token file {file} holds no token"
    file.chmod(0o644)
    assert "is open to others" in ruby("data", **asked)["text"]


def test_the_cache_of_others_is_below_their_home(ruby: Driver, tmp_path: Path) -> None:
    found = ruby.ok("settings", settings=str(write(tmp_path, {**GOOD, "cache": None})))
    home = f"{os.environ.get('HOME', '')}/.cache/configdb-sync-hiera"
    assert found["cache"] == ("/var/cache/configdb-sync-hiera" if os.geteuid() == 0 else home)
