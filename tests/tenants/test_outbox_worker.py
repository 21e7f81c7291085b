"""ConfigDB follows the registry (T5, T7, T8): kill -9 at every step, then start or repair, and everything is whole."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from configdb_sync.clock import SystemClock
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.connect import connect
from configdb_sync.configdb.model import Definition, ServerKind
from configdb_sync.names import RECORDS, component_name, records_component
from configdb_sync.store import tenant_schema
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.queries import Located
from configdb_sync.tenants.registry import Registry, open_registry
from configdb_sync.tenants.rows import ChangeInfo
from configdb_sync.web.refusals import RefusalError
from tests.support.processes import command, environ, run
from tests.support.product import Product
from tests.tenants.support import serving

ENV = 7
NAMES = ("astute", "globals", "plugins/x")
NODE = (("nodes", "46"),)
ME = ChangeInfo("test", "here", "req", 10**15)
LONG = pytest.mark.long
MOVE_STEPS = [
    "tenant-moved",
    "component-attached",
    "definition-moved:2",
    *(pytest.param(step, marks=LONG) for step in ("component-made", "definition-moved", "outbox-done")),
]
PURGE_STEPS = [
    "tenant-purged",
    "definition-deleted:2",
    *(pytest.param(step, marks=LONG) for step in ("tenant-marked", "definition-deleted", "outbox-done")),
]


class World:
    """A registry and an embedded ConfigDB that agree: tenant ``a`` has three data sources, and values in each."""

    def __init__(self, state: Path) -> None:
        self.state = state
        state.mkdir(mode=0o700)
        self.registry = Registry(open_registry(f"sqlite:///{state / 'configdb-sync.sqlite'}"))
        self.client: ConfigDBClient = connect("embedded", database_url=f"sqlite:///{state / 'configdb.sqlite'}")
        ours = self.client.create_component(component_name("a", ENV), list(NAMES))
        records = self.client.create_component(records_component(ENV), [RECORDS])
        self.client.create_environment(ENV, [ours.id, records.id], ["nodes"])
        self.records = records.definitions[0].id
        self.client.put_values(ENV, (), self.records, {"tenant": "a"})
        self.ids = {one.name: one.id for one in ours.definitions}
        for name, number in self.ids.items():
            self.client.put_values(ENV, NODE, number, {"of": name})
        self.registry.settle_home(ME, ENV, "a")
        self.registry.own(ME, "a", ENV, dict(self.ids))
        self.registry.put(ME, "b", None)

    def close(self) -> None:
        self.registry.close()
        self.client.close()

    def placed(self) -> dict[str, list[Definition]]:
        return {one.name: list(one.definitions) for one in self.client.components()}

    def whole(self, owner: str) -> None:
        """The registry and ConfigDB agree that everything is one tenant's; no value is lost, doubled or orphaned."""
        for name, number in self.ids.items():
            _, found = self.registry.locate(ResourcePath(owner, ENV, name))
            assert isinstance(found, Located)
            assert found.resource is not None
            assert found.resource.definition == number
            assert self.client.values(ENV, NODE, number) == {"of": name}
        placed = self.placed()
        assert sorted(one.id for one in placed[component_name(owner, ENV)]) == sorted(self.ids.values())
        everywhere = [one.id for definitions in placed.values() for one in definitions]
        assert sorted(everywhere) == sorted([*self.ids.values(), self.records])
        environment = self.client.environment(ENV)
        assert environment is not None
        assert set(self.client.definitions(environment)) == {*NAMES, RECORDS}
        assert self.client.values(ENV, (), self.records)["tenant"] == owner


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name in [name for name in os.environ if name.startswith(("OS_", "CONFIGDB_SYNC_"))]:
        monkeypatch.delenv(name)
    found = World(tmp_path / "state")
    yield found
    found.close()


def cli(world: World, *arguments: object) -> tuple[int, str]:
    """Run a command in this process."""
    done = Product(world.state)("tenants", *arguments)
    return done.code, done.out + done.err


def killed(world: World, step: str, *arguments: object) -> None:
    """Run a command in a process that is killed at a step."""
    done = run(world.state, "tenants", *arguments, CONFIGDB_SYNC_FAILPOINT=step)
    assert done.returncode == -signal.SIGKILL, done.stderr


def test_a_move_is_followed(world: World) -> None:
    code, text = cli(world, "move", "a", "b", "--env", ENV)
    assert code == 0, text
    assert "moved definition" in text
    world.whole("b")
    assert cli(world, "repair")[1] == "all is in step\n"


@pytest.mark.parametrize("step", MOVE_STEPS)
def test_a_move_killed_at_any_step(world: World, step: str) -> None:
    killed(world, step, "move", "a", "b")
    for name, number in world.ids.items():
        # The registry's transaction was the move: either state of ConfigDB is right for every reader.
        _, found = world.registry.locate(ResourcePath("b", ENV, name))
        assert isinstance(found, Located)
        assert world.client.values(ENV, NODE, number) == {"of": name}
    code, text = cli(world, "repair")
    assert code == 0, text
    world.whole("b")
    assert cli(world, "repair")[1] == "all is in step\n"


@pytest.mark.parametrize("step", PURGE_STEPS)
def test_a_purge_killed_at_any_step(world: World, step: str) -> None:
    if step == "tenant-marked":
        killed(world, step, "delete", "a", "--retention", 0)
    else:
        assert cli(world, "delete", "a", "--retention", 0)[0] == 0
        killed(world, step, "purge")
    code, text = cli(world, "purge")
    assert code == 0, text
    assert cli(world, "repair")[0] == 0
    with pytest.raises(RefusalError) as refusal:
        world.registry.recover(ME, "a")
    assert refusal.value.status == 404
    everywhere = [one.id for definitions in world.placed().values() for one in definitions]
    assert everywhere == [world.records], "our own records stay"
    assert component_name("a", ENV) not in world.placed()
    environment = world.client.environment(ENV)
    assert environment is not None
    assert len(environment.components) == 1


def test_an_id_that_is_another_data_source_by_now_is_left_alone(world: World) -> None:
    component = next(one for one in world.client.components() if one.name == component_name("a", ENV))
    other = world.client.create_component("older", ["theirs"])
    world.registry.own(ME, "a", ENV, {"ghost": other.definitions[0].id})
    assert cli(world, "delete", "a", "--retention", 0)[0] == 0
    code, text = cli(world, "purge")
    assert code == 0, text
    assert "left definition" in text
    assert [one.name for one in world.placed()["older"]] == ["theirs"]
    assert component.name not in world.placed()


def test_what_was_put_into_the_emptied_component_stays_with_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """T5: the ID may be a new tenant's already, whose run makes its data source this moment."""
    delete = ConfigDBClient.delete_empty_component

    def late(client: ConfigDBClient, component: int) -> bool:
        world.client.add_definition(component, "new")
        return delete(client, component)

    monkeypatch.setattr(ConfigDBClient, "delete_empty_component", late)
    assert cli(world, "delete", "a", "--retention", 0)[0] == 0
    code, text = cli(world, "purge")
    assert (code, "deleted component" in text) == (0, False), text
    assert [one.name for one in world.placed()[component_name("a", ENV)]] == ["new"]


def test_a_server_that_cannot_delete_just_an_empty_component_keeps_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ConfigDBClient, "server", lambda _client: ServerKind.MASTER)
    assert cli(world, "delete", "a", "--retention", 0)[0] == 0
    code, text = cli(world, "purge")
    assert code == 0, text
    assert "left component" in text
    assert world.placed()[component_name("a", ENV)] == []
    assert cli(world, "repair")[1] == "all is in step\n"


def test_a_purge_by_a_clock_that_may_be_wrong_waits_for_a_word(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli(world, "delete", "a", "--retention", 30)[0] == 0
    real = datetime.now(UTC)
    monkeypatch.setattr(SystemClock, "now", lambda _: real + timedelta(days=31))
    code, text = cli(world, "purge")
    assert (code, "--clock-is-right" in text, "'a' would be deleted for good" in text) == (2, True, True), text
    world.registry.recover(ME, "a")
    assert cli(world, "purge")[0] == 0, "nothing is late: nothing is asked"
    world.whole("a")
    assert cli(world, "delete", "a", "--retention", 30)[0] == 0
    monkeypatch.setattr(SystemClock, "now", lambda _: real + timedelta(days=62))
    code, text = cli(world, "purge", "--clock-is-right")
    assert (code, "'a' was deleted for good" in text) == (0, True), text


def test_adopted(world: World) -> None:
    older = world.client.create_component("older", ["nova", "cinder"])
    environment = world.client.environment(ENV)
    assert environment is not None
    world.client.attach_component(environment, older.id)
    world.client.put_values(ENV, NODE, older.definitions[0].id, {"kept": 1})
    code, text = cli(world, "adopt", "c", "--env", ENV, "-r", "nova")
    assert code == 0, text
    assert [one.name for one in world.placed()[component_name("c", ENV)]] == ["nova"]
    assert [one.name for one in world.placed()["older"]] == ["cinder"]
    assert world.client.values(ENV, NODE, older.definitions[0].id) == {"kept": 1}
    assert cli(world, "adopt", "c", "--env", ENV, "-r", "nova")[0] == 2
    assert cli(world, "adopt", "c", "--env", ENV)[0] == 0
    assert world.placed()["older"] == []


def test_a_shared_component_is_not_adopted(world: World) -> None:
    older = world.client.create_component("older", ["nova"])
    world.client.create_environment(8, [older.id], ["nodes"])
    environment = world.client.environment(ENV)
    assert environment is not None
    world.client.attach_component(environment, older.id)
    code, text = cli(world, "adopt", "c", "--env", ENV)
    assert (code, "shared by the environments [7, 8]" in text) == (2, True)


@pytest.mark.parametrize(
    "step", ["component-attached", *(pytest.param(step, marks=LONG) for step in ("tenant-moved", "definition-moved:2"))]
)
def test_a_service_killed_in_a_move_goes_on(world: World, step: str) -> None:
    """The worker is killed; the one that takes its place finishes what was cut off."""
    with serving(world.state, "--workers", "1", CONFIGDB_SYNC_FAILPOINT=step) as (api, _):
        try:
            assert api.post(ResourcePath("a", ENV).move_url("b")).status == 303
        except (IndexError, ValueError, OSError):
            assert step == "tenant-moved", "the answer had gone before"
        until(lambda: world.registry.tenant("b").counts.size == 3)
    with serving(world.state, "--workers", "1"):
        until(lambda: len(world.placed().get(component_name("b", ENV), [])) == 3)
        until(lambda: world.client.values(ENV, (), world.records)["tenant"] == "b")
    world.whole("b")


def until(true: object) -> None:
    deadline = time.monotonic() + 90
    while not true():  # type: ignore[operator]
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_the_service_purges_what_is_due(world: World) -> None:
    with serving(world.state, "--retention", "0") as (api, _):
        assert api.delete(ResourcePath("a").url).status == 204
        until(lambda: api.get(ResourcePath("a").url).status == 404)
        until(lambda: component_name("a", ENV) not in world.placed())
        assert api.put(ResourcePath("a").url).status == 201


def test_configdb_away(world: World) -> None:
    """T2: 203 with the stored state; a move isn't begun while it isn't known whether it can be followed."""
    arguments = ("--configdb", "http://127.0.0.1:1", "--max-age", "0")
    with serving(world.state, *arguments) as (api, _):
        shown = api.get(ResourcePath("a").url)
        assert (shown.status, shown.json["resource_count"]) == (203, 3)
        assert api.get(ResourcePath("a", ENV).url).status == 203
        level = api.get(f"{ResourcePath('a', ENV, 'astute').url}?level=nodes=46")
        assert (level.status, "effective" in level.json) == (203, False)
        assert api.get(f"{ResourcePath('a').url}?fields=id").status == 200
        assert api.get(ResourcePath("a").move_url("b")).status == 200, "the stored state"
        assert api.post(ResourcePath("a").move_url("b")).status == 503
        assert api.delete(ResourcePath("a").url).status == 204
        assert api.post(f"{ResourcePath('a').url}/action/recover").status == 204
    world.whole("a")


@pytest.mark.parametrize("before", ["nothing", "reading", "moving"])
def test_a_move_while_configdb_is_away_is_the_same_in_every_worker(world: World, before: str) -> None:
    """What the workers did before, and so remember of ConfigDB, changes nothing: 503, and nothing has moved."""
    configdb = subprocess.Popen(
        command("configdb", "serve", "--listen", "127.0.0.1:0", "--auth", "none"),
        env=environ(world.state),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert configdb.stdout is not None
        url = re.search(r"http://127\.0\.0\.1:\d+\S*", configdb.stdout.readline())
        assert url is not None
        arguments = ("--configdb", url[0], "--workers", "2", "--drivers", "none")
        with serving(world.state, *arguments) as (api, _):
            if before == "reading":
                target = f"{ResourcePath('a', ENV, 'astute').url}?level=nodes=46"
                assert {api.get(target).status for _ in range(8)} == {200}
            if before == "moving":
                for one, other in [("a", "b"), ("b", "a")] * 3:
                    assert api.post(ResourcePath(one).move_url(other)).status == 303
            until(lambda: not world.registry.read(lambda one: one.execute(sa.select(tenant_schema.OUTBOX)).first()))
            configdb.terminate()
            configdb.wait(60)
            answers = [api.post(ResourcePath("a").move_url("b")) for _ in range(6)]
            assert {(one.status, one.headers.get("retry-after")) for one in answers} == {(503, "5")}
            assert len({one.json["error"]["message"] for one in answers}) == 1
            assert world.registry.tenant("a").counts.size == 3
    finally:
        configdb.terminate()
        configdb.communicate(timeout=60)
    world.whole("a")
