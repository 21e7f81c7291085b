"""Tables by migrations: equal to the schema, made once by whoever starts first."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from configdb_sync.configdb_server import schema
from configdb_sync.configdb_server.app import create_app
from configdb_sync.errors import StateError
from configdb_sync.store.database import COMMITS, Database
from tests.peers.postgresql import Cluster


def ours(name: str | None, kind: str, _parents: object) -> bool:
    return kind != "table" or name != COMMITS.name


def test_migrations_make_the_schema(database_url: str) -> None:
    database = Database(database_url, what="the database")
    try:
        with database.reading() as connection:
            context = MigrationContext.configure(
                connection, opts={"version_table": "configdb_schema", "include_name": ours}
            )
            assert compare_metadata(context, schema.metadata) == []
            inspector = sqlalchemy.inspect(connection)
            for table in schema.metadata.sorted_tables:
                constraints = {item["name"] for item in inspector.get_unique_constraints(table.name)}
                expected = {item.name for item in table.constraints if isinstance(item, sqlalchemy.UniqueConstraint)}
                assert constraints == expected
                found = {
                    (item["name"], item["options"].get("ondelete")) for item in inspector.get_foreign_keys(table.name)
                }
                assert found == {(key.name, key.ondelete) for key in table.foreign_key_constraints}
    finally:
        database.close()


START = "import sys; from configdb_sync.configdb_server import create_app; create_app(sys.argv[1]).close()"


def test_many_processes_start_at_once_on_an_empty_database(
    backend: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if backend == "postgresql":
        cluster: Cluster = request.getfixturevalue("cluster")
        url = cluster.create("empty_for_many")
    else:
        url = f"sqlite:///{tmp_path / 'new.sqlite'}"
    command = [sys.executable, "-W", "error", "-c", START, url]
    processes = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    errors = [process.communicate(timeout=60)[1] for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, errors
    assert not any(errors)


def test_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "new.sqlite"
    create_app(f"sqlite:///{path}").close()
    assert {file.name: file.stat().st_mode & 0o777 for file in tmp_path.iterdir()} == {
        "new.sqlite": 0o600,
        "new.sqlite.lock": 0o600,
    }


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("nonsense", "can't be read"),
        ("mysql://localhost/x", "mysql"),
        ("sqlite://", "memory"),
        ("sqlite:///:memory:", "memory"),
        ("sqlite:////nonexistent/folder/x.sqlite", "No such file"),
        ("sqlite:////etc/hostname", "not a database"),
        ("postgresql://user:pass-word@127.0.0.1:1/x", "refused"),
    ],
)
def test_an_unusable_database_is_named_without_its_password(url: str, words: str) -> None:
    with pytest.raises(StateError) as caught:
        create_app(url)
    assert words in str(caught.value)
    assert "pass-word" not in str(caught.value)
