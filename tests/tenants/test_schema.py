"""Migrations make exactly the tables that the code works with (S5), in both databases, in any order of opening."""

from __future__ import annotations

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import func, inspect, select

from configdb_sync.sync.records import open_records
from configdb_sync.tenants import schema
from configdb_sync.tenants.opening import open_registry
from configdb_sync.tenants.paths import Place
from configdb_sync.tenants.registry import Registry
from tests.tenants.support import ME


def test_migrations_make_the_tables(database_url: str) -> None:
    database = open_registry(database_url)
    try:
        with database.reading() as connection:
            context = MigrationContext.configure(connection)
            found = compare_metadata(context, schema.metadata)
            tables = set(schema.metadata.tables)
            # The other rooms' tables in the same database aren't ours.
            assert [one for one in found if one[0] not in {"remove_table", "remove_index"}] == []
            assert tables <= set(inspect(connection).get_table_names())
    finally:
        database.close()


def test_the_status_is_a_nullable_enum(database_url: str) -> None:
    """S5."""
    database = open_registry(database_url)
    try:
        with database.reading() as connection:
            for table in ("tenants", "tenant_holdings", "tenant_resources"):
                columns = {column["name"]: column for column in inspect(connection).get_columns(table)}
                assert columns["status"]["nullable"]
                assert columns["status_details"]["nullable"]
                assert getattr(columns["status_details"]["type"], "length", None) == 4096
                if database.postgresql:
                    assert columns["status"]["type"].enums == ["active", "build", "error"]  # type: ignore[attr-defined]
                    assert columns["status"]["type"].name == "resource_status"  # type: ignore[attr-defined]
    finally:
        database.close()


def test_it_shares_a_database_with_the_records(database_url: str) -> None:
    open_records(database_url).close()
    open_registry(database_url).close()
    open_records(database_url).close()


def test_a_purge_leaves_no_word_of_former_homes(registry: Registry) -> None:
    """T5: the table has no foreign keys that would see to it."""
    for tenant in ("a", "b", "c"):
        registry.put(ME, tenant, None)
    registry.own(ME, "a", 7, {"one": None, "two": None})
    registry.move(ME, Place("a", 7, "one"), "b")
    registry.move(ME, Place("b", 7, "one"), "c")
    registry.move(ME, Place("a", 7, "two"), "b")

    def homes() -> int:
        homes = schema.former_homes
        return registry.read(lambda one: one.execute(select(func.count()).select_from(homes)).scalar_one())

    assert homes() == 3
    for tenant, left in (("c", 1), ("a", 0)):
        registry.mark(ME, tenant, 0)
        assert registry.purge(ME, tenant)
        assert homes() == left
