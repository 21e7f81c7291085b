"""What GET shows of a tenant is kept by the rows that it was made of: it is never older than these."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.tenants import representations
from configdb_sync.tenants.registry import Registry, open_registry
from configdb_sync.tenants.representations import TenantBody
from configdb_sync.tenants.status import Status
from configdb_sync.web.refusals import RefusalError
from tests.tenants.support import ME, serving


@pytest.fixture
def elsewhere(database_url: str) -> Iterator[Registry]:
    """The same registry by connections of its own, as another process has it."""
    found = Registry(open_registry(database_url))
    yield found
    found.close()


def look(registry: Registry, tenant: str, limit: int = 100) -> representations.TenantAnswer:
    return representations.tenant_answer(registry.tenant_rows(tenant, limit), tenant, limit)


def test_every_change_is_seen_by_the_next_look(registry: Registry, elsewhere: Registry) -> None:
    """T2: metadata, environments, counts, status, the home, deletion and recovery."""
    before = []

    def seen() -> Any:
        found = look(registry, "a")
        assert look(registry, "a") is found  # kept while the rows are the same
        assert (found.etag, found.body) not in before
        before.append((found.etag, found.body))
        return json.loads(found.body)

    elsewhere.put(ME, "a", None)
    assert seen()["metadata"] == {}
    elsewhere.put(ME, "a", TenantBody({"key": "value"}, {}))
    assert seen()["metadata"] == {"key": "value"}
    elsewhere.own(ME, "a", 7, {"astute": None, "globals": None})
    assert seen()["resource_count"] == 2
    elsewhere.tell(ME, 7, {"astute": (Status.ERROR, "broken")})
    assert seen()["status"] == "ERROR"
    elsewhere.settle_home(ME, 8, "a")
    assert [one["environment"] for one in seen()["resources"]] == [7, 8]
    elsewhere.mark(ME, "a", 1000)
    with pytest.raises(RefusalError) as gone:
        look(registry, "a")
    assert gone.value.status == 410
    elsewhere.recover(ME, "a")
    found = look(registry, "a")
    assert (found.etag, found.body) == before[-1]


def test_pages_and_tenants_are_told_apart(registry: Registry) -> None:
    for tenant in ("a", "A"):
        registry.put(ME, tenant, None)
    for environment in (1, 2, 3):
        registry.settle_home(ME, environment, "a")
    assert [len(look(registry, "a", limit).page.items) for limit in (1, 2, 100, 1)] == [1, 2, 3, 1]
    assert json.loads(look(registry, "A").body)["id"] == "A"
    with pytest.raises(RefusalError) as missing:
        look(registry, "b")
    assert missing.value.status == 404


def test_what_is_large_is_not_kept(registry: Registry) -> None:
    registry.put(ME, "large", TenantBody({f"key {number}": "x" * 1000 for number in range(20)}, {}))
    first, second = look(registry, "large"), look(registry, "large")
    assert first is not second
    assert first.body == second.body


def test_what_another_process_writes_is_in_the_services_next_answer(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serving(state, "--drivers", "none") as (api, _):
        registry = Registry(open_registry(f"sqlite:///{state / 'configdb-sync.sqlite'}"))
        assert api.put("/v1.0/a").status == 201
        for number in range(20):
            registry.put(ME, "a", TenantBody({"number": str(number)}, {}))
            assert api.get("/v1.0/a").json["metadata"] == {"number": str(number)}
            registry.own(ME, "a", number, {"astute": None})
            assert api.get("/v1.0/a").json["resource_count"] == number + 1
        registry.close()
