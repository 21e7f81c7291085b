"""Atomic replacement in a folder (W01, W02, W05)."""

import errno
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from configdb_sync.errors import FileChangedError, NodeFileError
from configdb_sync.nodes import tree_writing

OLD = b"old: 1\n"
NEW = b"new: 2\n"


class Folder:
    """A folder with one file in it, open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / "x.yaml"
        self.file.write_bytes(OLD)
        self.file.chmod(0o640)
        self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        self.opened: list[int] = []

    def look(self) -> tree_writing.OpenFile:
        self.opened.append(os.open(self.file, os.O_RDONLY))
        return tree_writing.look(self.opened[-1], "x.yaml", 1000)

    def close(self) -> None:
        for descriptor in (self.descriptor, *self.opened):
            os.close(descriptor)

    def names(self) -> list[str]:
        return sorted(item.name for item in self.path.iterdir())


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    made = Folder(tmp_path)
    yield made
    made.close()


def test_content_changes_and_mode_stays(folder: Folder) -> None:
    found = tree_writing.replace(folder.descriptor, folder.look(), NEW)
    assert folder.file.read_bytes() == NEW
    assert stat.S_IMODE(found.st_mode) == stat.S_IMODE(folder.file.stat().st_mode) == 0o640
    assert found.st_ino == folder.file.stat().st_ino
    assert folder.names() == ["x.yaml"]


def test_a_link_that_took_the_files_name_is_left_alone(folder: Folder) -> None:
    """It leads to the very file that was read; a rename would put a file in its place all the same."""
    live = folder.look()
    folder.file.rename(folder.path / "moved")
    folder.file.symlink_to("moved")
    for change in (
        lambda: tree_writing.replace(folder.descriptor, live, NEW),
        lambda: tree_writing.remove(folder.descriptor, live),
    ):
        with pytest.raises(FileChangedError):
            change()
    assert folder.file.readlink() == Path("moved")
    assert folder.names() == ["moved", "x.yaml"]


@pytest.mark.skipif(os.geteuid() != 0, reason="no root")
def test_owner_and_group_stay(folder: Folder) -> None:
    """W02: 0640 root:puppet stays that."""
    os.chown(folder.file, 1234, 4321)
    folder.file.chmod(0o4640)
    found = tree_writing.replace(folder.descriptor, folder.look(), NEW)
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 4321, 0o4640)


def test_the_temporary_file_is_born_closed_and_beside(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """W02: at no moment may others read what is written; and Hiera reads no such name."""
    seen: list[tuple[str, int]] = []
    real = tree_writing._fill

    def look(descriptor: int, content: bytes) -> None:
        (name,) = [name for name in folder.names() if name != "x.yaml"]
        seen.append((name, stat.S_IMODE(os.fstat(descriptor).st_mode)))
        real(descriptor, content)

    monkeypatch.setattr(tree_writing, "_fill", look)
    previous = os.umask(0)
    try:
        tree_writing.replace(folder.descriptor, folder.look(), NEW)
    finally:
        os.umask(previous)
    ((name, mode),) = seen
    assert mode == 0o600
    assert name.startswith(".configdb-sync.")
    assert not name.endswith(".yaml")


@pytest.mark.parametrize("call", ["write", "fchmod", "fsync", "rename", "pread", "setxattr"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_when_a_step_fails_the_old_file_is_intact_and_nothing_is_beside_it(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    live = folder.look()
    if call == "setxattr":
        try:
            os.setxattr(folder.file, "user.x", b"1")
        except OSError:
            pytest.skip("the file system has no extended attributes")

    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match=os.strerror(code)):
        tree_writing.replace(folder.descriptor, live, NEW)
    monkeypatch.undo()
    assert folder.file.read_bytes() == OLD
    assert folder.names() == ["x.yaml"]


def test_an_interrupt_leaves_nothing_either(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        tree_writing.replace(folder.descriptor, folder.look(), NEW)
    assert folder.names() == ["x.yaml"]


def test_what_reads_back_differently_is_not_taken(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tree_writing, "_fill", lambda descriptor, content: os.write(descriptor, content[:-1] + b"?"))
    with pytest.raises(NodeFileError, match="reads back differently"):
        tree_writing.replace(folder.descriptor, folder.look(), NEW)
    assert folder.file.read_bytes() == OLD
    assert folder.names() == ["x.yaml"]


def _in_place(file: Path) -> None:
    file.write_bytes(b"theirs\n")


def _same_size_same_time(file: Path) -> None:
    state = file.stat()
    file.write_bytes(b"OLD: 1\n")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))


def _renamed_over(file: Path) -> None:
    other = file.with_name("theirs")
    other.write_bytes(OLD)
    other.rename(file)


def _removed(file: Path) -> None:
    file.unlink()


def _mode(file: Path) -> None:
    file.chmod(0o600)


def _longer(file: Path) -> None:
    with file.open("ab") as stream:
        stream.write(b"more: 1\n")


@pytest.mark.parametrize("change", [_in_place, _same_size_same_time, _renamed_over, _removed, _mode, _longer])
def test_a_change_just_before_the_rename_is_reported_and_never_overwritten(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], None]
) -> None:
    live = folder.look()
    real = tree_writing._verify

    def meanwhile(descriptor: int, content: bytes) -> None:
        real(descriptor, content)
        change(folder.file)

    monkeypatch.setattr(tree_writing, "_verify", meanwhile)
    with pytest.raises(FileChangedError, match="changed after it was read"):
        tree_writing.replace(folder.descriptor, live, NEW)
    assert not folder.file.exists() or folder.file.read_bytes() != NEW
    assert folder.names() in (["x.yaml"], [])
    with pytest.raises(FileChangedError):
        tree_writing.remove(folder.descriptor, live)


def test_a_file_with_two_names_is_refused(folder: Folder, tmp_path: Path) -> None:
    os.link(folder.file, tmp_path / "second")
    with pytest.raises(NodeFileError, match="has 2 names"):
        tree_writing.replace(folder.descriptor, folder.look(), NEW)
    assert (tmp_path / "second").read_bytes() == OLD


def test_a_new_file_never_replaces_one_that_came_meanwhile(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    real = tree_writing._verify

    def meanwhile(descriptor: int, content: bytes) -> None:
        real(descriptor, content)
        (folder.path / "y.yaml").write_bytes(b"theirs\n")

    monkeypatch.setattr(tree_writing, "_verify", meanwhile)
    with pytest.raises(FileChangedError, match="was created by someone else"):
        tree_writing.create(folder.descriptor, "y.yaml", NEW, 0o640)
    assert (folder.path / "y.yaml").read_bytes() == b"theirs\n"
    assert folder.names() == ["x.yaml", "y.yaml"]


def test_a_new_file_is_owned_as_its_folder(folder: Folder) -> None:
    if os.geteuid() == 0:
        os.chown(folder.path, 1234, 4321)
    found = tree_writing.create(folder.descriptor, "y.yaml", NEW, 0o640)
    parent = folder.path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (parent.st_uid, parent.st_gid, 0o640)
    assert (folder.path / "y.yaml").stat().st_nlink == 1


def test_labels_and_attributes_are_copied(folder: Folder) -> None:
    """W05: the daemon that could read the old file can read the new one."""
    try:
        os.setxattr(folder.file, "user.note", b"kept")
    except OSError as error:
        pytest.skip(f"the file system has no extended attributes: {error.strerror}")
    label = b"system_u:object_r:etc_t:s0\x00"
    names = {"user.note": b"kept"}
    try:
        os.setxattr(folder.file, "security.selinux", label)
        names["security.selinux"] = label
    except OSError:
        pass  # no SELinux label may be set here; the user's attribute goes the same way
    tree_writing.replace(folder.descriptor, folder.look(), NEW)
    assert {name: os.getxattr(folder.file, name) for name in names} == names


def test_a_label_that_cant_be_kept_keeps_the_old_file(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    live = folder.look()
    monkeypatch.setattr(
        tree_writing,
        "_attributes",
        lambda descriptor: {"security.selinux": b"x"} if descriptor == live.descriptor else {},
    )

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "setxattr", refuse)
    with pytest.raises(NodeFileError, match=r"its attribute security\.selinux can't be kept"):
        tree_writing.replace(folder.descriptor, live, NEW)
    assert folder.file.read_bytes() == OLD


@pytest.mark.parametrize("code", [errno.ENOTSUP, errno.ENOSYS])
def test_a_file_system_without_attributes_is_no_failure(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    def refuse(*_: object) -> list[str]:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "listxattr", refuse)
    tree_writing.replace(folder.descriptor, folder.look(), NEW)
    assert folder.file.read_bytes() == NEW


def test_a_folders_default_access_list_opens_no_file(folder: Folder) -> None:
    # Version 2, then (tag, permissions, id): owner rwx, user 1234 rwx, group -, mask rwx, others -.
    entries = [(1, 7, -1), (2, 7, 1234), (4, 0, -1), (16, 7, -1), (32, 0, -1)]
    packed = (2).to_bytes(4, "little") + b"".join(
        tag.to_bytes(2, "little") + rights.to_bytes(2, "little") + (who & 0xFFFFFFFF).to_bytes(4, "little")
        for tag, rights, who in entries
    )
    try:
        os.setxattr(folder.path, "system.posix_acl_default", packed)
    except OSError as error:
        pytest.skip(f"the file system has no access lists: {error.strerror}")
    tree_writing.replace(folder.descriptor, folder.look(), NEW)
    assert "system.posix_acl_access" not in os.listxattr(folder.file)
    assert stat.S_IMODE(folder.file.stat().st_mode) == 0o640


def test_leftovers_of_killed_runs_go_when_they_are_old(folder: Folder) -> None:
    now = time.time()
    names = {f".configdb-sync.{number:016x}.tmp": age for number, age in enumerate([0, 300, 601, 10_000])}
    kept = [".configdb-sync.folder", ".configdb-sync.short.tmp", "x.tmp"]
    for name, age in (*names.items(), *((name, 10_000) for name in kept)):
        (folder.path / name).write_bytes(b"half")
        os.utime(folder.path / name, (now - age, now - age))
    (folder.path / ".configdb-sync.00000000000000ff.tmp").symlink_to("x.yaml")
    tree_writing.clean(folder.descriptor, now, None)
    young = [name for name, age in names.items() if age < 600]
    assert folder.names() == sorted([*young, *kept, ".configdb-sync.00000000000000ff.tmp", "x.yaml"])


def test_a_second_name_left_by_a_killed_creation_goes_at_once(folder: Folder) -> None:
    os.link(folder.file, folder.path / ".configdb-sync.0123456789abcdef.tmp")
    tree_writing.clean(folder.descriptor, time.time(), folder.file.stat())
    assert folder.names() == ["x.yaml"]
    tree_writing.replace(folder.descriptor, folder.look(), NEW)


WRITER = """
    import os, sys
    from configdb_sync.nodes import tree_writing
    folder = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
    print("ready", flush=True)
    for number in range(int(sys.argv[2])):
        content = b"%08d: " % number + bytes([97 + number % 26]) * 100_000 + b"\\n"
        live = os.open("x.yaml", os.O_RDONLY, dir_fd=folder)
        tree_writing.replace(folder, tree_writing.look(live, "x.yaml", 1 << 20), content)
        os.close(live)
"""


def start_writer(path: Path, count: int) -> subprocess.Popen[bytes]:
    writer = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WRITER), str(path), str(count)], stdout=subprocess.PIPE
    )
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"ready\n"
    return writer


def whole(content: bytes) -> bool:
    head, _, tail = content.partition(b": ")
    return content == OLD or (len(tail) == 100_001 and tail == bytes([97 + int(head) % 26]) * 100_000 + b"\n")


def test_a_reader_sees_old_or_new_and_nothing_between(folder: Folder) -> None:
    """W01: a thousand writes under a reader's eyes."""
    writer = start_writer(folder.path, 1000)
    reads = 0
    while writer.poll() is None or reads < 1000:
        assert whole(folder.file.read_bytes())
        reads += 1
    assert writer.wait() == 0
    assert writer.stdout is not None
    writer.stdout.close()
    assert folder.file.read_bytes().startswith(b"00000999: ")
    assert folder.names() == ["x.yaml"]


def test_a_killed_writer_leaves_a_whole_file_and_a_leftover_that_goes(folder: Folder) -> None:
    """W01: killed at any moment."""
    for pause in (0.0, 0.005, 0.011, 0.017, 0.023, 0.031):
        writer = start_writer(folder.path, 1_000_000)
        time.sleep(pause)
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        assert writer.stdout is not None
        writer.stdout.close()
        assert whole(folder.file.read_bytes())
        assert all(name == "x.yaml" or tree_writing._TEMPORARY.fullmatch(name) for name in folder.names())
    tree_writing.clean(folder.descriptor, time.time() + 700, None)
    assert folder.names() == ["x.yaml"]
