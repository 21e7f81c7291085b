"""``script/demo FOLDER`` on real environments, and what it says of folders that it can't use. (The example itself runs
as the README prints it.)"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from configdb_sync.hiera.data_source_config import DEFAULT
from configdb_sync.hiera.data_sources import map_node
from configdb_sync.hiera.documents import Reader
from configdb_sync.hiera.layouts import Layout
from tests.hiera_backend.backend import require

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 180


def demo(*arguments: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "script/support/demo.py", *arguments],
        env=os.environ | more,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def contents(top: Path) -> dict[str, bytes | str]:
    return {
        str(path.relative_to(top)): str(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in top.rglob("*")
        if path.is_symlink() or path.is_file()
    }


def assert_arrives(printed: str) -> None:
    """The override is what Puppet reads: by ``lookup``, and by Hiera's own answer."""
    before, after = re.findall(r"^\S+ on node \d+: (\w+)$", printed, flags=re.MULTILINE)
    assert {before, after} == {"true", "false"}
    require("ruby", "hiera")
    assert re.findall(r"^\$ hiera --config hiera.yaml \S+\n(\w+)$", printed, flags=re.MULTILINE) == [before, after]


@pytest.mark.parametrize("number", [16, 7])
def test_real_environments(environment: Callable[[int], Path], number: int, tmp_path: Path) -> None:
    folder = environment(number)
    before = contents(folder)
    done = demo(folder, TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"configdb-sync sync --env {number} --from nodes" in done.stdout
    assert "byte for byte the same as at the start" in done.stdout
    assert contents(folder) == before
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    assert_arrives(done.stdout)


def test_the_example_overrides_what_puppet_reads() -> None:
    """U25: of the data sources that have the key, in Hiera's order, the first is the one that the README overrides."""
    key, named = "debug", "globals"
    hiera = ROOT / "examples/small-cloud/node-2/etc/hiera"
    files = {path.relative_to(hiera).as_posix(): path for path in hiera.rglob("*.yaml")}
    read = {path: Reader().read(file.read_bytes()).values for path, file in files.items()}
    order = map_node(DEFAULT[Layout.FUEL9], read["astute.yaml"], files).sources
    having = [name for name, path in order.items() if key in read.get(path, {})]
    assert having == [named, "astute"]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"--data-source (\S+) --key (\S+)", readme)) == {(named, key)}


def test_the_copy_can_be_kept(tmp_path: Path) -> None:
    done = demo("--keep", TMPDIR=str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    (kept,) = tmp_path.iterdir()
    assert kept.stat().st_mode & 0o077 == 0
    lines = [line.strip() for line in done.stdout.splitlines()[-2:]]
    script = "\n".join([*lines, "configdb-sync plan --env 1 --from nodes"])
    again = subprocess.run(["bash", "-ec", script], capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert again.returncode == 0, again.stderr
    assert "0 documents to upload, 0 files to write" in again.stdout


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "has no node-<id>/etc/hiera in it"),
        ({"node-1/etc/hiera/astute.yaml": "fqdn: node-1\n"}, "deployment_id"),
        ({"node-1/etc/hiera/astute.yaml": "deployment_id: 4\nuid: '9'\n"}, "exit code"),
    ],
)
def test_a_folder_that_will_not_do(tmp_path: Path, files: dict[str, str], said: str) -> None:
    folder = tmp_path / "trees"
    folder.mkdir()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text(text, encoding="utf-8")
    done = demo(folder)
    assert done.returncode == 1
    assert said in done.stdout
    assert "Traceback" not in done.stderr


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    done = demo(tmp_path / "nowhere")
    assert done.returncode == 1
    assert "is not a folder" in done.stdout
