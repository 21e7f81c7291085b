"""U18: a backup's file. Whatever it holds, nothing but its known parts ever leaves it."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import tarfile
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from configdb_sync.backup import archive, state_copy
from configdb_sync.backup.archive import BackupFile, Manifest
from configdb_sync.configdb_server.schema import open_configdb
from configdb_sync.errors import StateError
from configdb_sync.exits import Exit
from configdb_sync.store.opening import STORE, open_store
from tests.support.product import Product

TEXT = b"sixteen characters and more\n"


def archived(path: Path, members: list[tuple[tarfile.TarInfo, bytes]]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for info, content in members:
            info.size = len(content) if info.isreg() else 0
            tar.addfile(info, io.BytesIO(content))
    path.chmod(0o600)
    return path


def described(**changed: Any) -> bytes:
    part = archive_part(TEXT)
    content = {
        "format": 1,
        "version": "0.1.0",
        "created": "2026-11-30T00:00:00+00:00",
        "parts": {"mask.key": {"size": part.size, "sha256": part.sha256}},
        "elsewhere": {},
    }
    return json.dumps(content | changed).encode()


def archive_part(content: bytes) -> BackupFile:
    import hashlib

    return BackupFile(len(content), hashlib.sha256(content).hexdigest())


def file(name: str, content: bytes = TEXT) -> tuple[tarfile.TarInfo, bytes]:
    return tarfile.TarInfo(name), content


def special(name: str, kind: bytes, target: str = "") -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info, b""


MANIFEST = ("manifest.json", described())
HOSTILE: dict[str, list[tuple[tarfile.TarInfo, bytes]]] = {
    "above": [file(*MANIFEST), file("../mask.key")],
    "absolute": [file(*MANIFEST), file("/etc/cron.d/x")],
    "another name": [file(*MANIFEST), file("mask.key"), file("environment-5.lock")],
    "below a folder": [file(*MANIFEST), file("a/mask.key")],
    "a link": [file(*MANIFEST), special("mask.key", tarfile.SYMTYPE, "/etc/shadow")],
    "a hard link": [file(*MANIFEST), special("mask.key", tarfile.LNKTYPE, "manifest.json")],
    "a device": [file(*MANIFEST), special("mask.key", tarfile.BLKTYPE)],
    "a pipe": [file(*MANIFEST), special("mask.key", tarfile.FIFOTYPE)],
    "a folder": [file(*MANIFEST), special("mask.key", tarfile.DIRTYPE)],
    "a sparse file": [file(*MANIFEST), special("mask.key", tarfile.GNUTYPE_SPARSE)],
    "twice": [file(*MANIFEST), file("mask.key"), file("mask.key", b"another one of sixteen")],
    "the manifest last": [file("mask.key"), file(*MANIFEST)],
    "no manifest": [file("mask.key")],
    "two manifests": [file(*MANIFEST), file(*MANIFEST), file("mask.key")],
    "another content": [file(*MANIFEST), file("mask.key", TEXT.upper())],
    "a longer one": [file(*MANIFEST), file("mask.key", TEXT * 2)],
    "a shorter one": [file(*MANIFEST), file("mask.key", TEXT[:-1])],
    "less": [file(*MANIFEST)],
    "nothing": [],
    "a manifest that is none": [file("manifest.json", b"[]"), file("mask.key")],
    "a huge manifest": [file("manifest.json", b" " * (archive.LONGEST + 1) + described()), file("mask.key")],
    "a newer format": [file("manifest.json", described(format=2)), file("mask.key")],
    "a part that nobody knows": [
        file("manifest.json", described(parts={"../x": {"size": 1, "sha256": "0" * 64}})),
        file("../x"),
    ],
    "a size that is none": [
        file("manifest.json", described(parts={"mask.key": {"size": -1, "sha256": "0" * 64}})),
        file("mask.key"),
    ],
}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_backup_that_others_can_read_or_write_is_refused(mode: int, tmp_path: Path, product: Product) -> None:
    path = archived(tmp_path / "a.tgz", [file(*MANIFEST), file("mask.key")])
    path.chmod(mode)
    done = product("restore", path)
    assert done.code == Exit.USAGE
    assert f"chmod 0600 {path}" in done.err
    assert list(product.state.iterdir()) == []
    path.chmod(0o600)
    assert product("restore", path).code == Exit.OK


@pytest.mark.parametrize("what", HOSTILE)
def test_what_is_no_backup_is_refused_whole(what: str, tmp_path: Path, product: Product) -> None:
    path = archived(tmp_path / "a.tgz", HOSTILE[what])
    done = product("restore", path)
    assert done.code == Exit.USAGE, done.out
    assert list(product.state.iterdir()) == []
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["a.tgz", "state"]


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK])
def test_headers_of_headers_are_not_even_read(kind: bytes, tmp_path: Path, product: Product) -> None:
    info = tarfile.TarInfo("x")
    info.type = kind
    info.size = 1 << 40  # would all be read into memory
    (tmp_path / "large.tgz").write_bytes(gzip.compress(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024)))
    info.size = 0  # each one is a step deeper
    (tmp_path / "deep.tgz").write_bytes(gzip.compress(info.tobuf() * 3000 + bytes(1024)))
    for name in ("large.tgz", "deep.tgz"):
        (tmp_path / name).chmod(0o600)
        done = product("restore", tmp_path / name)
        assert (done.code, "no whole backup" in done.err, "Traceback" in done.err) == (Exit.USAGE, True, False)
    assert list(product.state.iterdir()) == []


def test_the_good_one_beside_them_is_taken(tmp_path: Path, product: Product) -> None:
    path = archived(tmp_path / "a.tgz", [file(*MANIFEST), file("mask.key")])
    assert product("restore", path).code == Exit.OK
    assert (product.state / "mask.key").read_bytes() == TEXT


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: path.write_bytes(b"no archive"), "whole backup"),
        (lambda path: path.write_bytes(gzip.compress(b"no tar at all" * 100)), "whole backup"),
        (lambda path: path.write_bytes(archived(path, HOSTILE["twice"]).read_bytes()[:80]), "whole backup"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: None, "No such file"),
    ],
)
def test_a_file_that_is_none(make: Callable[[Path], Any], words: str, tmp_path: Path, product: Product) -> None:
    make(tmp_path / "a.tgz")
    if (tmp_path / "a.tgz").is_file():
        (tmp_path / "a.tgz").chmod(0o600)
    done = product("restore", tmp_path / "a.tgz")
    assert done.code == Exit.USAGE
    assert words in done.err


@settings(max_examples=80, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 10**6), new=st.integers(0, 255), end=st.booleans())
@example(place=220, new=12, end=False)  # the checksum at gzip's end
def test_a_broken_one_is_refused_or_as_it_was(tmp_path_factory: Any, place: int, new: int, *, end: bool) -> None:
    folder = tmp_path_factory.mktemp("broken")
    raw = bytearray(archived(folder / "a.tgz", [file(*MANIFEST), file("mask.key")]).read_bytes())
    place %= len(raw)
    raw = raw[:place] if end else raw[:place] + bytes([new]) + raw[place + 1 :]
    (folder / "a.tgz").write_bytes(raw)
    (folder / "out").mkdir()
    try:
        archive.unpack(folder / "a.tgz", folder / "out")
    except StateError:
        return
    assert {path.name: path.read_bytes() for path in (folder / "out").iterdir()} == {"mask.key": TEXT}


@given(
    version=st.text(st.characters(codec="ascii", categories=("L", "N")), max_size=9),
    parts=st.dictionaries(st.sampled_from(archive.PARTS), st.builds(BackupFile, st.integers(0), st.just("a" * 64))),
    elsewhere=st.dictionaries(st.sampled_from(archive.PARTS), st.just("postgresql://h/n")),
)
def test_a_manifest_says_the_same_when_it_is_read(
    version: str, parts: dict[str, BackupFile], elsewhere: dict[str, str]
) -> None:
    made = Manifest(version, "2026-11-30T00:00:00+00:00", parts, elsewhere)
    assert archive.decode(archive.encode(made)) == made


@given(st.binary(max_size=200) | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps))
def test_anything_else_is_no_manifest(content: bytes | str) -> None:
    with pytest.raises(StateError):
        archive.decode(content if isinstance(content, bytes) else content.encode())


def test_databases_are_copied_as_of_one_moment(tmp_path: Path) -> None:
    """A writer goes on: first the one, then the other. Whatever is copied when, the second is never ahead."""
    paths = [tmp_path / "one.sqlite", tmp_path / "two.sqlite"]
    for path in paths:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("CREATE TABLE t (n INTEGER)")
            connection.execute("INSERT INTO t VALUES (0)")
            connection.commit()
    stop = threading.Event()

    def write() -> None:
        with closing(sqlite3.connect(paths[0])) as one, closing(sqlite3.connect(paths[1])) as two:
            number = 0
            while not stop.is_set():
                number += 1
                for connection in (one, two):
                    connection.execute("UPDATE t SET n = ?", (number,))
                    connection.commit()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        seen = []
        for turn in range(20):
            copies = [tmp_path / f"{turn}-{path.name}" for path in paths]
            state_copy.copy_all(dict(zip(paths, copies, strict=True)))
            found = []
            for copy in copies:
                assert copy.stat().st_mode & 0o777 == 0o600
                with closing(sqlite3.connect(copy)) as connection:
                    found.append(connection.execute("SELECT n FROM t").fetchone()[0])
            seen.append(tuple(found))
    finally:
        stop.set()
        writer.join()
    assert all(one - two in {0, 1} for one, two in seen), seen
    assert not list(tmp_path.glob("*-*.sqlite-*"))


def packed(folder: Path, name: str, source: Path) -> Path:
    parts = {name: archive.part_of(source)}
    archive.write(folder / "a.tgz", Manifest("0.1.0", "2026-11-30T00:00:00+00:00", parts, {}), {name: source})
    return folder / "a.tgz"


def test_a_database_is_brought_up_to_date(tmp_path: Path, product: Product) -> None:
    source = tmp_path / "old.sqlite"
    with closing(sqlite3.connect(source)) as connection:
        connection.execute("CREATE TABLE older (n)")
    assert product("restore", packed(tmp_path, archive.DATABASE, source)).code == Exit.OK
    with closing(sqlite3.connect(product.state / "configdb-sync.sqlite")) as connection:
        assert connection.execute(f"SELECT version_num FROM {STORE.table}").fetchone() == (STORE.head,)
        assert connection.execute("SELECT * FROM older").fetchall() == []
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@pytest.mark.parametrize("name", [archive.DATABASE, archive.CONFIGDB])
def test_a_newer_schema_is_refused(tmp_path: Path, product: Product, name: str) -> None:
    source = tmp_path / "new.sqlite"
    opened = open_store if name == archive.DATABASE else open_configdb
    with closing(opened(f"sqlite:///{source}")):
        pass
    table = STORE.table if name == archive.DATABASE else "configdb_schema"
    with closing(sqlite3.connect(source)) as connection:
        connection.execute(f"UPDATE {table} SET version_num = '9999'")
        connection.commit()
        connection.execute("PRAGMA journal_mode=DELETE")
    done = product("restore", packed(tmp_path, name, source))
    assert done.code == Exit.USAGE
    assert "another version" in done.err
    assert list(product.state.iterdir()) == []


def test_a_database_that_is_none_is_refused(tmp_path: Path, product: Product) -> None:
    (tmp_path / "x").write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    done = product("restore", packed(tmp_path, archive.CONFIGDB, tmp_path / "x"))
    assert done.code == Exit.USAGE
    assert "no sound database" in done.err
    assert list(product.state.iterdir()) == []


def test_a_backup_takes_no_files_place_and_leaves_nothing_half(tmp_path: Path) -> None:
    source = tmp_path / "mask.key"
    source.write_bytes(TEXT)
    described = Manifest("0.1.0", "now", {"mask.key": BackupFile(len(TEXT) + 5, "0" * 64)}, {})
    with pytest.raises(StateError):
        archive.write(tmp_path / "a.tgz", described, {"mask.key": source})
    assert [path.name for path in tmp_path.iterdir()] == ["mask.key"]
    (tmp_path / "a.tgz").symlink_to("elsewhere")
    with pytest.raises(StateError):
        archive.write(tmp_path / "a.tgz", Manifest("0.1.0", "now", {}, {}), {})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tgz", "mask.key"]
