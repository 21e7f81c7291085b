"""Tables by migrations: an older version's are brought up to date, those of an unknown version are left alone."""

from __future__ import annotations

import itertools
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.config import Config
from alembic.script import ScriptDirectory

from configdb_sync.configdb_server import schema as configdb
from configdb_sync.errors import StateError
from configdb_sync.store.database import Database
from configdb_sync.store.opening import STORE, TableSet, open_store, opened
from tests.peers import postgresql

NUMBERS = itertools.count()
ROOMS = [
    pytest.param(open_store, STORE, id="store"),
    pytest.param(configdb.open_configdb, configdb.SCHEMA, id="configdb"),
]
MIGRATION = """
from alembic import op
revision, down_revision = {revision!r}, {before!r}
def upgrade():
    op.execute({statement!r})
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'it.sqlite'}"
    cluster: postgresql.Cluster = request.getfixturevalue("cluster")
    return cluster.create(f"schema_{next(NUMBERS)}")


@pytest.mark.parametrize(("_open", "schema"), ROOMS)
def test_head_is_the_newest_migration(_open: object, schema: TableSet) -> None:
    config = Config()
    config.set_main_option("script_location", str(schema.folder))
    config.set_main_option("path_separator", "os")
    assert ScriptDirectory.from_config(config).get_heads() == [schema.head]


@pytest.mark.parametrize("revision", ["0001", "9999"])
@pytest.mark.parametrize(("open_it", "schema"), ROOMS)
def test_an_unknown_version_is_left_alone(
    url: str, open_it: Callable[[str], Database], schema: TableSet, revision: str
) -> None:
    with closing(open_it(url)) as database, database.transaction() as connection:
        connection.exec_driver_sql(f"UPDATE {schema.table} SET version_num = '{revision}'")
    with pytest.raises(StateError, match=rf"another version.*'{revision}'.*before 0\.1\.0 .*dump.*load"):
        open_it(url)


def test_an_older_version_is_brought_up_to_date(url: str, tmp_path: Path) -> None:
    folder = tmp_path / "migrations"
    (folder / "versions").mkdir(parents=True)
    (folder / "env.py").write_bytes((STORE.folder / "env.py").read_bytes())

    def add(revision: str, before: str | None, statement: str) -> TableSet:
        text = MIGRATION.format(revision=revision, before=before, statement=statement)
        (folder / "versions" / f"{revision}.py").write_text(text)
        return TableSet(folder, revision, "its_schema")

    first = add("v0001", None, "CREATE TABLE things (name TEXT)")
    with closing(opened(url, first, what="it")) as database, database.transaction() as connection:
        connection.exec_driver_sql("INSERT INTO things VALUES ('one')")
    second = add("v0002", "v0001", "ALTER TABLE things ADD COLUMN size INTEGER DEFAULT 3")
    for _ in range(2):
        with closing(opened(url, second, what="it")) as database, database.reading() as connection:
            assert connection.execute(sa.text("SELECT name, size FROM things")).all() == [("one", 3)]
            assert connection.execute(sa.text("SELECT version_num FROM its_schema")).scalar() == "v0002"


@pytest.mark.parametrize("begin", ["BEGIN IMMEDIATE", "BEGIN; SELECT count(*) FROM sqlite_master"])
def test_a_backup_that_reads_a_new_database_is_waited_for(tmp_path: Path, begin: str) -> None:
    """SQLite switches to WAL only if no one reads or writes, and doesn't wait for that of itself."""
    path = tmp_path / "it.sqlite"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as backup:
        for statement in begin.split(";"):
            backup.execute(statement).fetchall()
        end = threading.Timer(0.1, backup.execute, ["ROLLBACK"])
        end.start()
        open_store(f"sqlite:///{path}").close()
        end.join()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
