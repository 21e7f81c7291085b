"""Tokens and their renewal (S06)."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from configdb_sync.configdb import tokens
from configdb_sync.errors import SettingsError


def test_a_file_is_read_anew_when_its_token_was_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
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
def test_what_is_no_token_is_refused_and_not_shown(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    file.write_bytes(content)
    with pytest.raises(SettingsError, match="is no token") as caught:
        tokens.from_file(file).token()
    assert "CANARY" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="No such file"):
        tokens.from_file(tmp_path / "none").token()


def test_a_fixed_token_has_no_other() -> None:
    source = tokens.FixedToken("CANARY")
    assert source.renewed("CANARY") is None
    assert "CANARY" not in repr(source)
