"""U30: the key file, and what its keys seal."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.errors import SettingsError
from configdb_sync.store import keyring
from configdb_sync.store.keyring import MAGIC, EncryptionKeyError, Keyring, is_sealed, sealed_with

WHAT = "the database"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    keyring.make(tmp_path / "keys")
    return tmp_path / "keys"


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Keyring:
    path = tmp_path_factory.mktemp("keys") / "keys"
    keyring.make(path)
    return Keyring(path)


@given(st.binary(max_size=300))
def test_what_is_sealed_is_opened_again(shared: Keyring, content: bytes) -> None:
    sealed = shared.seal(content)
    assert is_sealed(sealed)
    assert sealed_with(sealed) == shared.primary.id
    assert shared.open(sealed, WHAT) == content
    assert len(content) < 8 or content not in sealed
    assert shared.seal(content) != sealed


@given(st.binary(min_size=1, max_size=80), st.data())
def test_no_changed_byte_is_taken_for_content(shared: Keyring, content: bytes, data: st.DataObject) -> None:
    sealed = bytearray(shared.seal(content))
    place = data.draw(st.integers(len(MAGIC), len(sealed) - 1))
    sealed[place] ^= data.draw(st.integers(1, 255))
    with pytest.raises(EncryptionKeyError, match="key"):
        shared.open(bytes(sealed), WHAT)


@given(st.integers(0, 200))
def test_a_cut_one_is_no_content(shared: Keyring, length: int) -> None:
    sealed = shared.seal(b"x" * 60)
    with pytest.raises(EncryptionKeyError, match="key"):
        shared.open(sealed[: min(len(MAGIC) + 4 + length, len(sealed) - 1)], WHAT)


def test_a_new_file_is_its_owners_alone_and_takes_no_other_ones_place(path: Path) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    before = path.read_bytes()
    with pytest.raises(SettingsError, match="exists"):
        keyring.make(path)
    assert path.read_bytes() == before


def test_a_file_in_a_folder_that_is_not_there_is_not_said_to_be_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="folder that is there") as caught:
        keyring.make(tmp_path / "none" / "keys")
    assert "keys add" not in str(caught.value)


def test_a_file_that_is_open_to_others_is_refused(path: Path) -> None:
    path.chmod(0o640)
    with pytest.raises(SettingsError, match="open to others"):
        Keyring(path)


@pytest.mark.parametrize(
    ("content", "words"), [("", "no key"), ("# none\n", "no key"), ("SECRET-LINE\n", "line 1.*your copy")]
)
def test_a_file_without_keys_is_refused_and_not_shown(path: Path, content: str, words: str) -> None:
    path.write_text(content)
    with pytest.raises(SettingsError, match=words) as caught:
        Keyring(path)
    assert "SECRET" not in str(caught.value)


def test_a_lost_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="keys make"):
        Keyring(tmp_path / "lost")


def test_a_key_that_was_added_seals_at_once(path: Path) -> None:
    running = Keyring(path)
    old = running.seal(b"old")
    new = keyring.add(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sealed_with(running.seal(b"new")) == new.id
    assert running.open(old, WHAT) == b"old"


def test_a_key_that_was_dropped_is_named_where_it_is_missed(path: Path) -> None:
    first = Keyring(path).primary
    old = Keyring(path).seal(b"old")
    keyring.add(path)
    keyring.drop(path, first.id, lambda: None)
    with pytest.raises(
        EncryptionKeyError, match=f"the database is encrypted with key {first.id}, which is not in {path}"
    ):
        Keyring(path).open(old, WHAT)


def test_the_first_key_is_not_dropped_nor_one_in_use(path: Path) -> None:
    first = Keyring(path).primary
    with pytest.raises(SettingsError, match="the one that encrypts"):
        keyring.drop(path, first.id, lambda: None)
    keyring.add(path)
    before = path.read_bytes()

    def in_use() -> None:
        raise EncryptionKeyError("in use", way_out="wait")

    with pytest.raises(EncryptionKeyError, match="in use"):
        keyring.drop(path, first.id, in_use)
    with pytest.raises(SettingsError, match="no key 'unknown'"):
        keyring.drop(path, "unknown", lambda: None)
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == ["keys"]


def test_a_file_that_is_away_for_a_moment_takes_no_key_away(path: Path) -> None:
    running = Keyring(path)
    sealed = running.seal(b"x")
    path.unlink()
    assert running.open(sealed, WHAT) == b"x"
    assert running.open(running.seal(b"y"), WHAT) == b"y"


def test_addresses_are_the_same_for_a_text_under_a_key_alone(path: Path) -> None:
    running = Keyring(path)
    plain = "0" * 64
    address = running.address(plain)
    assert (address, len(address), address[0]) == (running.address(plain), 64, "k")
    assert address != running.address("1" * 64)
    keyring.add(path)
    assert running.address(plain) != address


def test_no_key_is_shown(path: Path) -> None:
    assert Keyring(path).primary.text.decode() not in repr(Keyring(path).primary)


def test_a_link_to_a_key_file_stays_one(tmp_path: Path) -> None:
    file, link = tmp_path / "there/keys", tmp_path / "keys"
    file.parent.mkdir()
    old = keyring.make(file)
    link.symlink_to(file)
    new = keyring.add(link)
    assert link.is_symlink()
    assert [key.id for key in keyring.read(file)] == [new.id, old.id]
    keyring.drop(link, old.id, lambda: None)
    assert link.is_symlink()
    assert [key.id for key in keyring.read(file)] == [new.id]
