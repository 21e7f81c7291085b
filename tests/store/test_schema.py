"""The product's own database: the tables are those that its migrations make, on both databases (S5)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from configdb_sync.errors import StateError
from configdb_sync.store import keyring, schema, tenant_schema
from configdb_sync.store.database import COMMITS, Database
from configdb_sync.store.encryption import MARKERS
from configdb_sync.store.engine import with_key_file
from configdb_sync.store.opening import STORE, open_store
from configdb_sync.store.records import Record, Records


def ours(name: str | None, kind: str, _parents: object) -> bool:
    return kind != "table" or name not in {COMMITS.name, MARKERS.name}


def differences(database: Database) -> list[object]:
    with database.reading() as connection:
        options = {"version_table": STORE.table, "include_name": ours}
        return list(
            compare_metadata(MigrationContext.configure(connection, opts=options), tenant_schema.TENANTS.metadata)
        )


def test_migrations_make_the_schema(own_url: str) -> None:
    with closing(open_store(own_url)) as database:
        assert differences(database) == []


LATER = (schema.OVERRIDE_NOTES, schema.FINDINGS, schema.FINDING_CHANGES, schema.WATCH_ROUNDS)


def halve(database: Database, halves: Sequence[str], version: str = "v0001") -> None:
    """Make a database what it was before 0.1.0: each half of it with a history of its own, or not there."""
    runs = {table.name for table in schema.metadata.tables.values() if not table.name.startswith("tenant")}
    with database.transaction() as connection:
        for table in reversed(schema.metadata.sorted_tables):
            half = "sync_schema" if table.name in runs else "tenants_schema"
            if half not in halves or table in LATER:
                connection.execute(sa.text(f"DROP TABLE {table.name}"))
        connection.execute(sa.text(f"DROP TABLE {STORE.table}"))
        if "sync_schema" in halves:
            connection.execute(sa.text("DROP TABLE leases"))
            connection.execute(sa.text("CREATE TABLE leases (environment INTEGER, run TEXT, host TEXT, until FLOAT)"))
            connection.execute(sa.text("INSERT INTO leases VALUES (5, 'req-1', 'one', 1.5)"))
        if "tenants_schema" in halves:
            connection.execute(sa.text("CREATE TABLE tenant_leases (name TEXT)"))
        for half in halves:
            connection.execute(sa.text(f"CREATE TABLE {half} (version_num VARCHAR(32) NOT NULL)"))
            connection.execute(sa.text(f"INSERT INTO {half} VALUES ('{version}')"))
        if sa.inspect(connection).has_table(MARKERS.name):
            connection.execute(sa.update(MARKERS).values(tables="sync_schema"))


@pytest.mark.parametrize("halves", [("sync_schema",), ("tenants_schema",), ("sync_schema", "tenants_schema")])
def test_a_database_of_two_histories_goes_on_in_one(own_url: str, halves: Sequence[str]) -> None:
    record = Record("digest", ("sha",))
    with closing(open_store(own_url)) as database:
        Records(database, "/x", 5, "req-1").store("1", {"astute": record})
        halve(database, halves)
    with closing(open_store(own_url)) as database:
        assert differences(database) == []
        kept = {"astute": record} if "sync_schema" in halves else {}
        assert Records(database, "/x", 5, "req-2").of_node("1") == kept
        leases = database.read(lambda connection: connection.execute(schema.LEASES.select()).all())
        assert leases == ([("environment 5", "req-1", "one", 1.5)] if kept else [])
    open_store(own_url).close()


def test_a_half_from_before_is_left_alone(own_url: str) -> None:
    with closing(open_store(own_url)) as database:
        halve(database, ["sync_schema"], "0007")
    with pytest.raises(StateError, match=r"another version.*'0007'.*before 0\.1\.0 .*dump.*load"):
        open_store(own_url)


def test_an_encrypted_database_of_two_histories_stays_encrypted(own_url: str, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    key = keyring.make(keys)
    url = with_key_file(own_url, keys)
    with closing(open_store(url)) as database:
        halve(database, ["sync_schema", "tenants_schema"])
    with closing(open_store(url)) as database:
        Records(database, "/x", 5, "req-1").store("1", {"astute": Record("digest", ("sha",))})
        with database.reading() as connection:
            body: bytes = connection.execute(sa.text("SELECT body FROM records")).scalar_one()
        assert bytes(body).startswith(key.prefix)
