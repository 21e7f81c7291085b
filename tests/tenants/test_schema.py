"""What the registry's tables promise in both databases (S5)."""

from __future__ import annotations

from sqlalchemy import func, inspect, select

from configdb_sync.store import tenant_schema
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.registry import Registry, open_registry
from tests.tenants.support import ME


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


def test_a_purge_leaves_no_word_of_former_homes(registry: Registry) -> None:
    """T5: the table has no foreign keys that would see to it."""
    for tenant in ("a", "b", "c"):
        registry.put(ME, tenant, None)
    registry.own(ME, "a", 7, {"one": None, "two": None})
    registry.move(ME, ResourcePath("a", 7, "one"), "b")
    registry.move(ME, ResourcePath("b", 7, "one"), "c")
    registry.move(ME, ResourcePath("a", 7, "two"), "b")

    def homes() -> int:
        homes = tenant_schema.FORMER_HOMES
        return registry.read(lambda one: one.execute(select(func.count()).select_from(homes)).scalar_one())

    assert homes() == 3
    for tenant, left in (("c", 1), ("a", 0)):
        registry.mark(ME, tenant, 0)
        assert registry.purge(ME, tenant)
        assert homes() == left
