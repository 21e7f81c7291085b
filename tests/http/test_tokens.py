"""Tokens and their renewal (S06)."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from configdb_sync.cli.serve import read_token
from configdb_sync.errors import SettingsError
from configdb_sync.http import tokens


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A token file, closed to others."""
    path = tmp_path / "token"
    path.touch(mode=0o600)
    return path


def test_a_file_is_read_anew_when_its_token_was_refused(file: Path) -> None:
    file.write_text("one\n")
    source = tokens.from_file(file)
    assert source.token() == "one"
    file.write_text("two")
    assert source.token() == "one"
    assert source.renewed("one") == "two"
    assert source.renewed("one") == "two"
    assert source.renewed("two") is None


def test_many_threads_renew_once() -> None:
    fetched: list[int] = []

    def fetch() -> str:
        fetched.append(1)
        return f"token-{len(fetched)}"

    source = tokens.RenewedToken(fetch)
    assert source.token() == "token-1"
    got: list[str | None] = []
    threads = [threading.Thread(target=lambda: got.append(source.renewed("token-1"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == ["token-2"] * 8
    assert len(fetched) == 2


@pytest.mark.parametrize("content", [b"", b"\n", b"CANARY two", b"CANARY\x00", "CANARYé".encode(), b"CANARY" * 4000])
def test_what_is_no_token_is_refused_and_not_shown(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(SettingsError, match="is no token") as caught:
        tokens.from_file(file).token()
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o622, 0o666])
def test_a_file_that_is_open_to_others_is_refused_as_the_server_does(file: Path, mode: int) -> None:
    """U12: whoever reads it reads every password of the cloud."""
    file.write_text("CANARY-0123456789")
    file.chmod(mode)
    for read in (tokens.from_file(file).token, lambda: read_token(file)):
        with pytest.raises(SettingsError, match=f"is open to others .mode {mode:04o}.*chmod 0600 {file}") as caught:
            read()
        assert "CANARY" not in str(caught.value)
    file.chmod(0o400)
    assert tokens.from_file(file).token() == read_token(file) == "CANARY-0123456789"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        tokens.from_file(tmp_path / "none").token()


def test_a_fixed_token_has_no_other() -> None:
    source = tokens.FixedToken("CANARY")
    assert source.renewed("CANARY") is None
    assert "CANARY" not in repr(source)
