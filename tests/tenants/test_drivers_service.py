"""A driver of an operator's own (S6), found by its entry point, asked by the running service; what GET shows of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.registry import Registry, open_registry
from configdb_sync.tenants.rows import ChangeInfo
from configdb_sync.tenants.status import Status
from tests.tenants.support import Api, serving

CODE = """
from pathlib import Path

from configdb_sync.tenants.status_drivers import StatusDriver
from configdb_sync.tenants.rows import Status

HERE = Path(__file__).parent


class Noting(StatusDriver):
    def _noted(self, kind, context):
        with (HERE / "asked").open("a") as file:
            file.write(f"{kind} {context.place.url} {context.status and context.status.name}\\n")
        said = (HERE / kind).read_text() if (HERE / kind).exists() else ""
        return context if not said else context.told(Status[said], "said so" * 1000)

    def get_tenant_status(self, context):
        return self._noted("tenant", context)

    def get_environment_status(self, context):
        return self._noted("environment", context)

    def get_data_source_status(self, context):
        return self._noted("source", context)
"""
CHANGE = ChangeInfo("test", "here", "req", 10**15)
TENANT, ENVIRONMENT = ResourcePath("a"), ResourcePath("a", 1)
ONE, TWO = ResourcePath("a", 1, "astute"), ResourcePath("a", 1, "plugins/x")


@dataclass(frozen=True)
class World:
    """A service with the driver behind another one; what it says and was asked stands in files of ``folder``."""

    api: Api
    registry: Registry
    folder: Path

    def says(self, kind: str, status: str) -> None:
        (self.folder / kind).write_text(status)

    def asked(self) -> list[str]:
        """What it was asked since the last call."""
        file = self.folder / "asked"
        lines = file.read_text().splitlines() if file.exists() else []
        file.write_text("")
        return lines


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    folder = tmp_path / "drivers"
    (folder / "own_driver-1.dist-info").mkdir(parents=True)
    (folder / "own_driver.py").write_text(CODE)
    (folder / "own_driver-1.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: own_driver\nVersion: 1\n")
    entry = "[configdb_sync.status_drivers]\nown = own_driver:Noting\n"
    (folder / "own_driver-1.dist-info/entry_points.txt").write_text(entry)
    state = tmp_path / "state"
    arguments = ("--drivers", "sync, own", "--max-age", "0", "--workers", "1")
    with serving(state, *arguments, PYTHONPATH=str(folder)) as (api, _):
        registry = Registry(open_registry(f"sqlite:///{state / 'configdb-sync.sqlite'}"))
        for tenant in ("a", "b"):
            registry.put(CHANGE, tenant, None)
        registry.own(CHANGE, "a", 1, {"astute": None, "plugins/x": None})
        yield World(api, registry, folder)
        registry.close()


def test_a_get_asks_it_and_shows_and_keeps_what_it_says(world: World) -> None:
    """S1, S3, S6, S7."""
    assert world.api.get(ONE.url).json["status"] is None
    assert world.asked() == [f"source {ONE.url} None"]
    for said in ("BUILD", "ERROR", "ACTIVE"):
        world.says("source", said)
        shown = world.api.get(ONE.url)
        assert (shown.status, shown.json["status"], len(shown.json["status_details"])) == (200, said, 4096)
        assert shown.json["status_details"].endswith("(cut)")
        assert shown.headers["x-resource-status"] == said
    before = world.api.get(ONE.url)
    assert world.api.get(ONE.url).etag == before.etag, "nothing changed, nothing is written"
    (world.folder / "source").unlink()
    world.asked()
    assert world.api.get(TENANT.url).json["status"] == "ACTIVE"
    assert sorted(world.asked()) == sorted(
        [f"source {ONE.url} ACTIVE", f"source {TWO.url} None", f"tenant {TENANT.url} ACTIVE"]
    )
    world.registry.tell(CHANGE, 1, {"plugins/x": (Status.BUILD, None)})
    for place in (TENANT, ENVIRONMENT):
        shown = world.api.get(place.url).json
        assert (shown["status"], shown["status_details"]) == ("BUILD", "1 of 2 data sources: BUILD")
    world.registry.tell(CHANGE, 1, {"astute": (Status.ERROR, "x")})
    assert [world.api.get(place.url).json["status"] for place in (TENANT, ENVIRONMENT)] == ["ERROR", "ERROR"]


def test_what_is_not_asked_for_asks_nobody(world: World) -> None:
    """S6: fields without the two; T10: a move action; lists."""
    for place in (TENANT, ENVIRONMENT, ONE):
        for query in ("?fields=id", "?fields=metadata,created_at", "?fields="):
            assert world.api.get(place.url + query).status == 200
        assert world.api.get(place.move_url("b")).status == 200
    for target in ("/v1.0", "/v1.0/a/environments", "/v1.0/a/resources", "/audit", "/healthz"):
        assert world.api.get(target).status == 200
    assert world.asked() == []
    for query in ("?fields=id,status", "?fields=status_details", ""):
        assert world.api.get(ONE.url + query).status == 200
        assert len(world.asked()) == 1
    assert world.api("HEAD", ONE.url).status == 204
    assert len(world.asked()) == 1, "the status is among the headers"


def test_a_move_action_and_a_move_take_the_stored_state(world: World) -> None:
    """T10, T11: what a driver would say now changes neither."""
    tag = world.api.get(ONE.move_url("b")).etag
    world.says("source", "BUILD")
    assert world.api.get(ONE.move_url("b")).etag == tag
    assert world.api.get(ONE.url).json["status"] == "BUILD"
    assert world.api.post(ONE.move_url("b"), f"If-Match: {tag}").status == 412
    assert world.api.post(ONE.move_url("b")).status == 409
