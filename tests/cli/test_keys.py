"""U30: ``configdb-sync keys``, and the whole product with encrypted databases."""

from __future__ import annotations

import re
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import requests

from configdb_sync.exits import Exit
from configdb_sync.failpoints import VARIABLE
from configdb_sync.store import keyring
from tests.support import processes
from tests.support.product import MEANT, Product, contents, make_product
from tests.support.service import serving
from tests.support.trees import make_trees

OVERRIDE = ("--env", 5, "-r", "astute", "--level", "nodes=2", "--key", "nova.user_password")
CANARY = "canary-Passw0rd-in-no-file"
STORED: dict[str, dict[str, tuple[str, ...]]] = {
    "configdb-sync.sqlite": {
        "records": ("body",),
        "quiet": ("body",),
        "run_reports": ("body",),
        "withheld": ("changes",),
        "finding_changes": ("body",),
        "document_blobs": ("body",),
        "document_versions": ("digest",),
        "override_notes": ("body",),
    },
    "configdb.sqlite": {
        "contents": ("body", "key_digests", "digest"),
        "documents": ("values_digest", "overrides_digest"),
    },
}


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    return make_trees(tmp_path / "trees", "1", "2")


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def sealed(product: Product, keys: Path, monkeypatch: pytest.MonkeyPatch) -> Product:
    """A product whose settings name a new key file."""
    keyring.make(keys)
    monkeypatch.setenv("CONFIGDB_SYNC_KEY_FILE", str(keys))
    return product


def good(product: Product, *arguments: object, stdin: str = "") -> str:
    done = product(*arguments, stdin=stdin)
    assert done.code == Exit.OK, done.out + done.err
    return done.out


def in_clear(state: Path) -> list[str]:
    """Return the stored values that no key is needed for."""
    found = []
    for name, tables in STORED.items():
        with closing(sqlite3.connect(state / name)) as connection:
            for table, columns in tables.items():
                for column in columns:
                    for (value,) in connection.execute(f"SELECT {column} FROM {table} WHERE {column} IS NOT NULL"):
                        if not (value.startswith("sealed:") if isinstance(value, str) else keyring.is_sealed(value)):
                            found.append(f"{table}.{column}")
    return found


def story(product: Product, trees: Path) -> dict[str, tuple[object, ...]]:
    """A node's life: upload, override, its way to the node and back."""
    run = ("sync", "--env", 5, "--from", trees)
    start = contents(trees)
    good(product, *run)
    good(product, "override", *MEANT, *OVERRIDE, "--type", "str", "--value-file", "-", stdin=CANARY)
    assert product("watch", "--env", 5, "--from", trees).code == Exit.DRIFT
    good(product, *run)
    assert CANARY.encode() in b"".join(path.read_bytes() for path in trees.rglob("*.yaml"))
    assert good(product, "get", *OVERRIDE).strip() == CANARY
    good(product, "rm-override", *OVERRIDE)
    good(product, *run)
    assert contents(trees) == start
    assert "0 documents uploaded, 0 files written" in good(product, *run, "--stage", "main")
    good(product, "history", *OVERRIDE[:-2])
    good(product, "runs", "--env", 5)
    return start


def test_the_whole_story_with_keys_leaves_nothing_in_clear(sealed: Product, trees: Path) -> None:
    story(sealed, trees)
    assert in_clear(sealed.state) == []
    with closing(sqlite3.connect(sealed.state / "configdb-sync.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM finding_changes").fetchone() == (1,)
    for path in sealed.state.rglob("*"):
        assert not path.is_file() or CANARY.encode() not in path.read_bytes()
    assert "encrypts" in good(sealed, "keys", "list")
    assert "in clear" not in good(sealed, "keys", "list")
    assert "configdb-sync.sqlite (encrypted)" in good(sealed, "doctor")


def test_on_a_server_without_versions_they_are_encrypted_too(sealed: Product, trees: Path) -> None:
    sealed.plain = True
    good(sealed, "sync", "--env", 5, "--from", trees)
    for value in ("a", "b", "a"):
        good(sealed, "override", *MEANT, *OVERRIDE, "--type", "str", "--value-file", "-", stdin=value)
    assert in_clear(sealed.state) == []
    with closing(sqlite3.connect(sealed.state / "configdb-sync.sqlite")) as connection:
        assert connection.execute("SELECT count(*) FROM document_versions").fetchone()[0] > 3
        addresses = [address for (address,) in connection.execute("SELECT address FROM document_blobs")]
    assert addresses
    assert all(address.startswith("k") for address in addresses)
    assert "3" in good(sealed, "history", *OVERRIDE[:-2])


@pytest.mark.parametrize("point", ["database-marked:1", "rows-converted:1", "rows-converted:4", "database-converted:1"])
def test_a_conversion_that_was_killed_is_gone_on_with(
    product: Product, keys: Path, trees: Path, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    good(product, "sync", "--env", 5, "--from", trees)
    good(product, "override", *MEANT, *OVERRIDE, "--type", "str", "--value-file", "-", stdin=CANARY)
    shown = good(product, "overrides", "--env", 5)
    keyring.make(keys)
    monkeypatch.setenv("CONFIGDB_SYNC_KEY_FILE", str(keys))
    killed = processes.run(product.state, "keys", "convert", **{VARIABLE: point, "CONFIGDB_SYNC_KEY_FILE": str(keys)})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    # Half of it is as good as all of it.
    assert good(product, "overrides", "--env", 5) == shown
    good(product, "sync", "--env", 5, "--from", trees)
    good(product, "keys", "convert")
    assert in_clear(product.state) == []
    good(product, "rm-override", *OVERRIDE)
    assert "in clear" not in good(product, "keys", "list")


def test_the_key_is_changed_while_a_service_runs(sealed: Product, keys: Path, trees: Path) -> None:
    good(sealed, "sync", "--env", 5, "--from", trees)
    first = keyring.read(keys)[0].id
    environ = processes.environ(sealed.state, CONFIGDB_SYNC_KEY_FILE=str(keys))
    with serving(environ=environ) as (url, _process):
        headers = {"Authorization": f"Bearer {(sealed.state / 'configdb.token').read_text()}"}

        def ask(method: str, **body: object) -> requests.Response:
            place = "/environments/5/nodes/2/resources/globals/overrides"
            return requests.request(method, url + place, headers=headers, timeout=20, **body)  # type: ignore[arg-type]

        assert ask("PUT", json={"a": 1}).status_code == 204
        good(sealed, "keys", "add")
        assert ask("PUT", json={"a": 2}).status_code == 204
        refused = sealed("keys", "drop", first)
        assert (refused.code, "keys convert" in refused.err) == (Exit.USAGE, True)
        good(sealed, "keys", "convert")
        assert ask("GET").json() == {"a": 2}
        good(sealed, "keys", "drop", first)
        assert ask("PUT", json={"a": 3}).status_code == 204
        assert ask("GET").json() == {"a": 3}
    assert first not in good(sealed, "keys", "list")
    assert in_clear(sealed.state) == []


def test_without_the_key_every_command_says_which_one_is_missing(
    sealed: Product, keys: Path, trees: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good(sealed, "sync", "--env", 5, "--from", trees)
    number = keyring.read(keys)[0].id
    keyring.make(tmp_path / "other")
    monkeypatch.setenv("CONFIGDB_SYNC_KEY_FILE", str(tmp_path / "other"))
    commands: list[tuple[object, ...]] = [("sync", "--env", 5, "--from", trees), ("runs", "--env", 5)]
    commands += [("get", *OVERRIDE[:-2]), ("status", "--env", 5), ("keys", "convert")]
    for command in commands:
        done = sealed(*command)
        assert (done.code, f"key {number}, which is not in {tmp_path}/other" in done.err) == (Exit.USAGE, True), done
    assert f"with key {number}, which is not in the file" in good(sealed, "keys", "list")
    monkeypatch.setenv("CONFIGDB_SYNC_KEY_FILE", str(tmp_path / "lost"))
    assert "keys make" in sealed("runs", "--env", 5).err
    monkeypatch.delenv("CONFIGDB_SYNC_KEY_FILE")
    assert f"encrypted with key {number}, and no key file is set" in sealed("runs", "--env", 5).err


def test_a_backup_is_encrypted_as_the_databases_are_and_has_no_key(
    sealed: Product, keys: Path, trees: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story(sealed, trees)
    good(sealed, "backup", tmp_path / "a.tgz")
    other = make_product(tmp_path / "other", monkeypatch)
    refused = other("restore", tmp_path / "a.tgz")
    assert refused.code == Exit.USAGE
    assert re.search(r"in the backup .* is encrypted with key \w+, and no key file is set; nothing was", refused.err)
    monkeypatch.setenv("CONFIGDB_SYNC_KEY_FILE", str(keys))
    good(other, "restore", tmp_path / "a.tgz")
    assert in_clear(other.state) == []
    assert "0 documents uploaded, 0 files written" in good(
        other, "sync", "--env", 5, "--from", trees, "--stage", "main"
    )


def test_a_backup_in_clear_is_encrypted_by_restore_where_a_key_file_is_set(
    product: Product, keys: Path, trees: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good(product, "sync", "--env", 5, "--from", trees)
    good(product, "backup", tmp_path / "a.tgz")
    keyring.make(keys)
    monkeypatch.setenv("CONFIGDB_SYNC_KEY_FILE", str(keys))
    good(product, "restore", "--replace", tmp_path / "a.tgz")
    assert in_clear(product.state) == []
    good(product, "keys", "convert", "--to-clear")
    monkeypatch.delenv("CONFIGDB_SYNC_KEY_FILE")
    good(product, "sync", "--env", 5, "--from", trees)


def test_a_dump_is_encrypted_on_request(
    sealed: Product, keys: Path, trees: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good(sealed, "sync", "--env", 5, "--from", trees)
    good(sealed, "dump", "--env", 5, "--encrypt", tmp_path / "dump")
    assert all(keyring.is_sealed(path.read_bytes()) for path in (tmp_path / "dump").iterdir())
    other = make_product(tmp_path / "other", monkeypatch)
    refused = other("load", tmp_path / "dump")
    assert f"the dump {tmp_path}/dump is encrypted with key {keyring.read(keys)[0].id}" in refused.err
    assert "needs a key file" in other("dump", "--env", 5, "--encrypt", tmp_path / "no").err
    good(other, "load", "--key-file", keys, tmp_path / "dump")
    monkeypatch.setenv("CONFIGDB_SYNC_KEY_FILE", str(keys))
    assert good(other, "get", "--env", 5, "-r", "globals", "--level", "nodes=2") == good(
        sealed, "get", "--env", 5, "-r", "globals", "--level", "nodes=2"
    )


def test_commands_that_need_a_key_file_say_so(product: Product) -> None:
    for command in (("add",), ("convert",), ("drop", "ab12cd34")):
        done = product("keys", *command)
        assert (done.code, "keys make FILE" in done.err) == (Exit.USAGE, True)
    assert "No key file is set" in good(product, "keys", "list")


def test_make_says_what_is_to_be_done_next(tmp_path: Path) -> None:
    done = processes.run(tmp_path / "state", "keys", "make", tmp_path / "keys")
    assert done.returncode == 0, done.stderr
    (key,) = keyring.read(tmp_path / "keys")
    assert f"holds key {key.id}" in done.stdout
    assert "keys convert" in done.stdout
    assert key.text.decode() not in done.stdout
    again = processes.run(tmp_path / "state", "keys", "make", tmp_path / "keys")
    assert (again.returncode, "File exists" in again.stderr) == (Exit.USAGE, True)


def test_a_key_is_not_dropped_while_another_process_keeps_a_database_to_itself(
    sealed: Product, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = keyring.read(keys)[0]
    good(sealed, "runs")
    good(sealed, "keys", "add")
    good(sealed, "keys", "convert")
    monkeypatch.setattr("configdb_sync.store.engine._BUSY_SECONDS", 0.1)
    with closing(sqlite3.connect(sealed.state / "configdb-sync.sqlite", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        refused = sealed("keys", "drop", old.id)
    assert (refused.code, "can't be used now" in refused.err) == (Exit.USAGE, True)
    assert len(keyring.read(keys)) == 2
    good(sealed, "keys", "drop", old.id)
