"""The state folder (architecture, State)."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from configdb_sync.errors import StateError
from configdb_sync.state import SYSTEM_FOLDER, locate, open_state


def test_where_it_is() -> None:
    assert locate("/x", {"CONFIGDB_SYNC_STATE": "/y"}, root=True) == Path("/x")
    assert locate(None, {"CONFIGDB_SYNC_STATE": "/y"}, root=True) == Path("/y")
    assert locate(None, {}, root=True) == SYSTEM_FOLDER
    assert locate(None, {"XDG_STATE_HOME": "/s", "HOME": "/h"}, root=False) == Path("/s/configdb-sync")
    assert locate(None, {"HOME": "/h"}, root=False) == Path("/h/.local/state/configdb-sync")
    with pytest.raises(StateError, match="--state"):
        locate(None, {}, root=False)


def test_it_is_for_its_owner_alone(tmp_path: Path) -> None:
    state = open_state(tmp_path / "a" / "state")
    assert stat.S_IMODE(state.folder.stat().st_mode) == 0o700
    state.folder.chmod(0o750)
    with pytest.raises(StateError, match="chmod 0700"):
        open_state(state.folder)


def test_secrets_are_made_once_even_by_many_at_a_time(tmp_path: Path) -> None:
    state = open_state(tmp_path / "state")
    with ThreadPoolExecutor(8) as pool:
        tokens = {future.result() for future in [pool.submit(state.token) for _ in range(16)]}
    assert len(tokens) == 1
    assert stat.S_IMODE(state.token_file.stat().st_mode) == 0o600
    assert [path.name for path in state.folder.iterdir()] == [state.token_file.name]
    assert state.mask_key() == state.mask_key() != state.token().encode()


def test_an_open_or_empty_secret_is_refused(tmp_path: Path) -> None:
    state = open_state(tmp_path / "state")
    state.token()
    state.token_file.chmod(0o640)
    with pytest.raises(StateError, match="chmod 0600"):
        state.token()
    state.token_file.chmod(0o600)
    state.token_file.write_text("")
    with pytest.raises(StateError, match="remove it"):
        state.token()


def test_a_file_in_its_place_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(StateError, match=r"state can't be used.*--state"):
        open_state(tmp_path / "state")
