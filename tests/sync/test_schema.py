"""The product's own database: what queries name is what its migrations make, on both databases."""

from __future__ import annotations

import itertools
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from configdb_sync.database.commits import TABLE as COMMITS
from configdb_sync.sync import tables
from configdb_sync.sync.records import SCHEMA, open_records
from tests.peers import postgresql

NUMBERS = itertools.count()
KINDS = (sa.BigInteger, sa.Integer, sa.Double, sa.LargeBinary, sa.Text)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'own.sqlite'}"
    cluster: postgresql.Cluster = request.getfixturevalue("cluster")
    return cluster.create(f"own_schema_{next(NUMBERS)}")


def kind(column: sa.types.TypeEngine[object]) -> str:
    """The type as queries see it: floats of any width are one, a text is a text."""
    found = (column.impl_instance if isinstance(column, sa.types.TypeDecorator) else column).as_generic()
    if isinstance(found, sa.Float):
        return "Double"
    return next((one.__name__ for one in KINDS if isinstance(found, one)), repr(found))


def test_queries_name_the_tables_that_the_migrations_make(url: str) -> None:
    with closing(open_records(url)):
        engine = sa.create_engine(url)
        try:
            found = sa.inspect(engine)
            made = {
                table: {column["name"]: kind(column["type"]) for column in found.get_columns(table)}
                for table in found.get_table_names()
                if table not in {SCHEMA.table, COMMITS.name}
            }
        finally:
            engine.dispose()
    named = {
        table.name: {column.name: kind(column.type) for column in table.c}
        for table in vars(tables).values()
        if isinstance(table, sa.TableClause)
    }
    assert named == made
