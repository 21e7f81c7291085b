"""Masking (U20, Y20): a secret is in no output, report, log, argument list or row but where values
belong."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from configdb_sync.failpoints import VARIABLE
from tests.support import processes
from tests.support.product import Product
from tests.support.trees import make_trees

CANARY = "CANARY"


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    """Node 1 as it should be, node 2 with a broken file that holds a secret, node 3 to be emptied."""
    return make_trees(tmp_path / "trees", "1", "2", "3")


def every_text(database: Path) -> Iterator[tuple[str, bytes]]:
    """Yield what every cell of a database holds, with its table and column; what is compressed is unpacked."""
    with closing(sqlite3.connect(database)) as connection:
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            cursor = connection.execute(f"SELECT * FROM {table}")
            for row in cursor:
                for column, cell in zip(cursor.description, row, strict=True):
                    raw = cell if isinstance(cell, bytes) else str(cell).encode()
                    with contextlib.suppress(zlib.error):
                        raw = zlib.decompress(raw)
                    yield f"{table}.{column[0]}", raw


@pytest.mark.parametrize("plain", [False, True], ids=["embedded", "a server without versions"])
def test_a_secret_shows_nowhere(product: Product, tmp_path: Path, trees: Path, *, plain: bool) -> None:
    product.plain = plain
    state, said = product.state, []
    shared = ("--env", 5, "--from", trees)

    def run(*arguments: object) -> int:
        done = product(*arguments)
        said.append(done.out + done.err)
        return done.code

    def reports(command: str) -> None:
        for form, ending in (("text", "txt"), ("json", "json"), ("markdown", "md")):
            path = tmp_path / f"{command}.{ending}"
            run(command, *shared, "--format", form, "--report", path)
            said.append(path.read_text())

    assert run("sync", *shared) == 0
    astute = trees / "node-1/etc/fuel/cluster/5/astute.yaml"
    astute.write_text(astute.read_text().replace("CANARY-old", "CANARY-8a1"))
    (trees / "node-2/etc/hiera/globals.yaml").write_text("password: CANARY-x\nbroken: [CANARY-y\n")
    (trees / "node-3/etc/hiera/globals.yaml").write_text("# CANARY-z\n")
    secret = tmp_path / "secret"
    secret.write_text("CANARY-override")
    place = ("--env", 5, "-r", "astute", "--level", "nodes=1", "--key", "nova.db_password", "--type", "str")
    assert run("override", *place, "--value-file", secret) == 0
    reports("plan")
    assert run("sync", *shared, "--stage", "main") == 3
    reports("sync")
    run("sync", *shared, "--digest", "0" * 16)
    astute.write_text(astute.read_text().replace("workers: 4", "workers: 5"))
    killed = processes.run(state, "sync", *shared, **{VARIABLE: "after-upload"})
    assert killed.returncode < 0
    said.append(killed.stdout + killed.stderr)
    for more in ((), ("last",), ("last", "--format", "json")):
        assert run("runs", *more) == 0
    found = "\n".join(said)
    assert CANARY not in found
    assert "db_password" in found
    assert "<masked" in found
    cells = list(every_text(state / "configdb-sync.sqlite"))
    assert len({name for name, _ in cells}) > 20
    # What the product remembers of hidden keys is values, and needs them as they are; so are versions.
    versions = {"document_blobs.body"} if plain else set()
    assert {name for name, raw in cells if CANARY.encode() in raw} == {"records.body"} | versions
    for path in state.iterdir():
        assert path.stat().st_mode & 0o077 == 0
        if "sqlite" not in path.name:
            assert CANARY.encode() not in path.read_bytes()


def test_a_secret_is_in_no_argument_list(tmp_path: Path, trees: Path) -> None:
    """The product starts no other programs, so its own command line is the only one there is."""
    process = processes.start(
        tmp_path / "state", "sync", "--env", 5, "--from", trees, **{VARIABLE: "after-upload:1:STOP"}
    )
    try:
        assert process.stdout is not None

        os.waitpid(process.pid, os.WUNTRACED)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        assert not children.exists() or children.read_text() == ""
        assert CANARY.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert CANARY.encode() not in Path(f"/proc/{process.pid}/environ").read_bytes()
    finally:
        process.kill()
        process.communicate()
