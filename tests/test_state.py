"""The state folder (architecture, State)."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from configdb_sync.closed_files import read_closed
from configdb_sync.errors import SettingsError, StateError
from configdb_sync.keystone import clouds
from configdb_sync.state import SYSTEM_FOLDER, locate, open_state
from configdb_sync.tenants.service import write_usage


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


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="no root")
OTHER = 12345


@needs_root
def test_a_link_of_another_user_leads_nowhere(tmp_path: Path) -> None:
    """Neither one in the folder's own place, nor one on the way to it; this user's own are followed."""
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "way").symlink_to(".")
    (tmp_path / "link").symlink_to("real")
    for path in (tmp_path / "link", tmp_path / "way/real", tmp_path / "way/new/state"):
        assert open_state(path).folder == path
    for link in ("way", "link"):
        os.lchown(tmp_path / link, OTHER, 0)
    for path in (tmp_path / "link", tmp_path / "way/real", tmp_path / "way/newer/state"):
        with pytest.raises(StateError, match=rf"link of user {OTHER}.*--state"):
            open_state(path)
    assert not (tmp_path / "newer").exists()


def test_links_in_a_circle_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(StateError, match="link"):
        open_state(tmp_path / "a/state")


@needs_root
@pytest.mark.parametrize(
    ("owner", "group", "mode", "safe"),
    [
        (0, 0, 0o775, True),
        (0, 0, 0o1777, True),
        (0, OTHER, 0o755, True),
        (0, 0, 0o777, False),
        (0, OTHER, 0o775, False),
        (OTHER, 0, 0o755, False),
    ],
)
def test_nobody_else_may_put_another_folder_in_its_place(
    tmp_path: Path, owner: int, group: int, mode: int, safe: bool
) -> None:
    parent = tmp_path / "parent"
    (parent / "state").mkdir(mode=0o700, parents=True)
    os.chown(parent, owner, group)
    parent.chmod(mode)
    if safe:
        assert open_state(parent / "state")
    else:
        with pytest.raises(StateError, match=r"parent.*--state"):
            open_state(parent / "state")
        with pytest.raises(StateError, match="parent"):
            open_state(parent / "new")
        assert not (parent / "new").exists()


@needs_root
def test_a_file_of_secrets_is_this_users_or_roots(tmp_path: Path) -> None:
    """A settings file, a token, a password or a backup of another user is no word of ours."""
    path, link = tmp_path / "file", tmp_path / "link"
    path.touch(mode=0o600)
    link.symlink_to(path)
    for given in (path, link):
        assert read_closed(given, "the file", way_out="another") == b""
    os.lchown(link, OTHER, 0)
    with pytest.raises(SettingsError, match="another user"):
        read_closed(link, "the file", way_out="another")
    os.chown(path, OTHER, 0)
    with pytest.raises(SettingsError, match="belongs to"):
        read_closed(path, "the file", way_out="another")


@needs_root
def test_other_files_that_root_goes_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The usage log is appended to, and `clouds.yaml` of the working folder says where a password goes."""
    (tmp_path / "link").symlink_to("elsewhere.log")
    os.lchown(tmp_path / "link", OTHER, 0)
    with pytest.raises(SettingsError, match=f"link of user {OTHER}"):
        write_usage(tmp_path / "link")
    assert not (tmp_path / "elsewhere.log").exists()
    (tmp_path / "clouds.yaml").write_text("clouds: {here: {auth: {auth_url: http://127.0.0.1:9}}}")
    monkeypatch.chdir(tmp_path)
    assert clouds.read({"OS_CLOUD": "here"}).auth["auth_url"]
    os.chown(tmp_path / "clouds.yaml", OTHER, 0)
    with pytest.raises(SettingsError, match=r"clouds\.yaml belongs to another user"):
        clouds.read({"OS_CLOUD": "here"})
