"""A lookup asks the driver itself: it sees what others commit, and where the driver complains all is as ever."""

from __future__ import annotations

import contextlib
import itertools
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from configdb_sync.errors import StateError
from configdb_sync.store.database import Database, Lookup
from tests.peers import postgresql

NUMBERS = itertools.count()
TABLE = sa.Table("things", sa.MetaData(), sa.Column("name", sa.Text, primary_key=True), sa.Column("size", sa.Integer))
OTHER = """
import sqlalchemy, sys
from configdb_sync.store.database import Database
database = Database(sys.argv[1], what="it")
for line in sys.stdin:
    database.write(lambda connection: connection.exec_driver_sql(line))
    print("done", flush=True)
"""


def lookup() -> Lookup:
    chosen = TABLE.c.size > sa.bindparam("least")
    return Lookup(sa.select(TABLE).where(chosen, TABLE.c.name != "hidden").order_by(TABLE.c.name).limit(2))


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'it.sqlite'}"
    cluster: postgresql.Cluster = request.getfixturevalue("cluster")
    return cluster.create(f"lookup_{next(NUMBERS)}")


@contextlib.contextmanager
def elsewhere(url: str) -> Iterator[Callable[[str], None]]:
    """Give what runs a statement in another process."""
    command = [sys.executable, "-c", OTHER, url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def run(statement: str) -> None:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(f"{statement}\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n"

        yield run
        process.stdin.close()


def test_the_next_call_sees_what_another_process_wrote(url: str) -> None:
    database, asked = Database(url, what="it"), lookup()
    database.write(TABLE.metadata.create_all)
    assert asked.rows(database, least=1) == []
    with elsewhere(url) as run:
        run("INSERT INTO things VALUES ('a', 2), ('b', 3), ('c', 4), ('hidden', 5)")
        assert asked.rows(database, least=1) == [("a", 2), ("b", 3)]
        run("UPDATE things SET size = 7 WHERE name = 'a'")
        assert asked.rows(database, least=1) == [("a", 7), ("b", 3)]
        run("DELETE FROM things WHERE name = 'a'")
        assert asked.rows(database, least=2) == [("b", 3), ("c", 4)]
        # The tables themselves change under the statement that was compiled.
        run("ALTER TABLE things ADD COLUMN more TEXT")
        assert asked.rows(database, least=2) == [("b", 3), ("c", 4)]
    database.close()
    assert asked.rows(database, least=3) == [("c", 4)]  # connections are made anew when they are needed
    database.close()


def test_a_driver_that_complains_is_asked_the_ordinary_way(url: str) -> None:
    database, asked = Database(url, what="it"), lookup()
    with pytest.raises(StateError):
        asked.rows(database, least=1)
    database.write(TABLE.metadata.create_all)
    assert asked.rows(database, least=1) == []
    database.close()


def test_lost_connections_are_replaced(cluster: postgresql.Cluster) -> None:
    database, asked = Database(cluster.create("lost"), what="it"), lookup()
    database.write(TABLE.metadata.create_all)
    assert asked.rows(database, least=1) == []
    other = Database(cluster.create("other"), what="it")
    gone = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'lost'"
    other.write(lambda connection: connection.execute(sa.text(gone)).all())
    assert asked.rows(database, least=1) == []
    database.close()
    other.close()


def test_many_threads_at_once(url: str) -> None:
    database, asked = Database(url, what="it", connections=1), lookup()
    database.write(TABLE.metadata.create_all)
    database.write(lambda connection: connection.execute(sa.insert(TABLE).values(name="a", size=2)))
    found: list[object] = []

    def ask() -> None:
        found.extend(asked.rows(database, least=1) for _ in range(50))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[("a", 2)]] * 300
    database.close()
