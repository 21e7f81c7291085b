"""The lifecycle as a state machine (T2-T8, S1): the registry against a model that knows every resource's whole past."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from configdb_sync.store.database import Database
from configdb_sync.tenants.moves import MoveAction
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.queries import Located, Moved
from configdb_sync.tenants.registry import Registry, open_registry
from configdb_sync.tenants.representations import TenantBody
from configdb_sync.tenants.rows import ChangeInfo, Tenant
from configdb_sync.tenants.status import Status, StatusCounts, counted
from configdb_sync.web.refusals import RefusalError, refuse
from tests.tenants.fixtures import emptied
from tests.tenants.support import Api, Reply, serving

IDS = ("a", "b", "..", "\U0001f600")
ENVIRONMENTS = (1, 2)
NAMES = ("astute", "plugins/x", "q")
RETENTION = 1000


@dataclass(eq=False)
class Life:
    """One incarnation of a tenant."""

    id: str
    deleted: int | None = None
    homes: set[int] = field(default_factory=set)


@dataclass(eq=False)
class Source:
    owner: Life
    status: Status | None = None
    past: set[Life] = field(default_factory=set)


def status_of(call: Any, *arguments: Any) -> int:
    try:
        call(*arguments)
    except RefusalError as refusal:
        return refusal.status
    return 200


class OverHttp(Registry):
    """The registry, asked and changed by way of a running service wherever it has a call for it."""

    def __init__(self, database: Database, api: Api) -> None:
        super().__init__(database, listed=3)
        self._api = api

    def _done(self, answer: Reply, *good: int) -> Reply:
        if answer.status not in good:
            assert answer.json["error"]["code"] == answer.status if answer.status >= 400 else answer.status == 301
            raise refuse(answer.status, "as the service says")
        return answer

    def put(self, change: ChangeInfo, tenant: str, body: TenantBody | None, *_: Any, **__: Any) -> tuple[Tenant, bool]:
        told: Any = ... if body is None else {"metadata": body.metadata}
        made = self._done(self._api.put(ResourcePath(tenant).url, json=told), 201, 202).status == 201
        return super().tenant(tenant), made

    def mark(self, change: ChangeInfo, tenant: str, *_: Any) -> None:
        self._done(self._api.delete(ResourcePath(tenant).url), 204)

    def recover(self, change: ChangeInfo, tenant: str) -> None:
        self._done(self._api.post(f"{ResourcePath(tenant).url}/action/recover"), 204)

    def tenant(self, tenant: str) -> Tenant:
        shown = self._done(self._api.get(ResourcePath(tenant).url), 200)
        found = super().tenant(tenant)
        assert (shown.json["resource_count"], shown.etag) == (found.counts.size, f'"{found.etag}"')
        return found

    def locate(self, place: ResourcePath) -> tuple[Tenant, Located | Moved]:
        answer = self._done(self._api.get(place.url), 200, 301)
        tenant, found = super().locate(place)
        assert isinstance(found, Located) is (answer.status == 200)
        if isinstance(found, Moved):
            assert answer.headers["location"] == place.under(found.owner.id).url
        return tenant, found

    def move_action(self, place: ResourcePath, destination: str) -> MoveAction:
        self._done(self._api.get(place.move_url(destination)), 200)
        return super().move_action(place, destination)

    def move(self, change: ChangeInfo, place: ResourcePath, destination: str, *_: Any) -> ResourcePath:
        location = self._done(self._api.post(place.move_url(destination)), 303).headers["location"]
        assert location == place.under(destination).url
        return place.under(destination)


class Lifecycle(RuleBasedStateMachine):
    database: Database
    begins = 1
    retention = RETENTION

    def __init__(self) -> None:
        super().__init__()
        self.registry = self.made()
        self.time = self.begins
        self.lives: dict[str, Life] = {}
        self.sources: dict[tuple[int, str], Source] = {}
        self.pointers: dict[tuple[Life, int], Life] = {}
        self.start()

    def start(self) -> None:
        raise NotImplementedError

    def made(self) -> Registry:
        return Registry(self.database, listed=3)

    def change(self) -> ChangeInfo:
        self.time += 1
        return ChangeInfo("me", "here", "req-1", self.time)

    def owned(self, life: Life, environment: int) -> list[Source]:
        return [one for (env, _), one in self.sources.items() if env == environment and one.owner is life]

    def live(self, life: Life, environment: int) -> bool:
        return environment in life.homes or bool(self.owned(life, environment))

    @rule(tenant=st.sampled_from(IDS), meta=st.sampled_from([None, {}, {"tier": "1"}]))
    def put(self, tenant: str, meta: dict[str, str] | None) -> None:
        life = self.lives.get(tenant)
        body = None if meta is None else TenantBody(meta, {})
        if life is not None and (life.deleted is not None or body is None):
            assert status_of(self.registry.put, self.change(), tenant, body) == 409
            return
        _, made = self.registry.put(self.change(), tenant, body)
        assert made is (life is None)
        self.lives.setdefault(tenant, Life(tenant))

    @rule(tenant=st.sampled_from(IDS))
    def delete(self, tenant: str) -> None:
        life = self.lives.get(tenant)
        expected = 404 if life is None else 410 if life.deleted is not None else 200
        change = self.change()
        assert status_of(self.registry.mark, change, tenant, self.retention) == expected
        if expected == 200 and life is not None:
            life.deleted = change.time

    @rule(tenant=st.sampled_from(IDS))
    def recover(self, tenant: str) -> None:
        life = self.lives.get(tenant)
        expected = 404 if life is None else 409 if life.deleted is None else 200
        assert status_of(self.registry.recover, self.change(), tenant) == expected
        if life is not None:
            life.deleted = None

    @precondition(lambda self: any(life.deleted is not None for life in self.lives.values()))
    @rule()
    def time_passes_and_all_due_are_purged(self) -> None:
        self.time += self.retention + 1
        due = {life.id for life in self.lives.values() if life.deleted is not None}
        assert set(self.registry.due(self.time)) == due
        for tenant in due:
            assert self.registry.purge(self.change(), tenant)
            gone = self.lives.pop(tenant)
            self.sources = {key: one for key, one in self.sources.items() if one.owner is not gone}
            self.pointers = {
                key: life for key, life in self.pointers.items() if life is not gone and key[0] is not gone
            }

    @rule(tenant=st.sampled_from(IDS), environment=st.sampled_from(ENVIRONMENTS))
    def settle_home(self, tenant: str, environment: int) -> None:
        home = next((life for life in self.lives.values() if environment in life.homes), None)
        if home is None and tenant in self.lives and self.lives[tenant].deleted is not None:
            return
        assert self.registry.settle_home(self.change(), environment, tenant).id == (tenant if home is None else home.id)
        if home is None:
            self.lives.setdefault(tenant, Life(tenant)).homes.add(environment)

    @rule(tenant=st.sampled_from(IDS), environment=st.sampled_from(ENVIRONMENTS), names=st.sets(st.sampled_from(NAMES)))
    def own(self, tenant: str, environment: int, names: set[str]) -> None:
        if tenant not in self.lives:
            return
        new = {name for name in names if (environment, name) not in self.sources}
        given = self.registry.own(self.change(), tenant, environment, dict.fromkeys(names, 7))
        assert given == sorted(new)
        self.sources |= {(environment, name): Source(self.lives[tenant]) for name in new}

    @rule(
        environment=st.sampled_from(ENVIRONMENTS),
        told=st.dictionaries(st.sampled_from(NAMES), st.sampled_from([None, *Status])),
    )
    def tell(self, environment: int, told: dict[str, Status | None]) -> None:
        self.registry.tell(self.change(), environment, {name: (status, None) for name, status in told.items()})
        for name, status in told.items():
            if (environment, name) in self.sources:
                self.sources[environment, name].status = status

    @rule(
        ids=st.permutations(IDS),
        environment=st.sampled_from((None, *ENVIRONMENTS)),
        name=st.sampled_from((None, None, *NAMES)),
        conditional=st.booleans(),
    )
    def move(self, ids: list[str], environment: int | None, name: str | None, conditional: bool) -> None:
        source, destination = ids[0], ids[1]
        place = ResourcePath(source, environment, name if environment else None)
        expected = self.foreseen(place, destination)
        if conditional and expected in (200, 409):
            assert self.registry.move_action(place, destination).json()
        assert status_of(self.registry.move, self.change(), place, destination) == expected
        if expected == 200:
            self.moved(place, self.lives[source], self.lives[destination])

    def foreseen(self, place: ResourcePath, destination: str) -> int:
        life, target = self.lives.get(place.tenant), self.lives.get(destination)
        if life is None or life.deleted is not None:
            return 404 if life is None else 410
        if place.environment is not None:
            found = self.where(life, place.environment, place.data_source)
            if found is None:
                return 404
            if found is not life:
                return 301 if found.deleted is None else 410
        if target is None or target.deleted is not None:
            return 404 if target is None else 410
        touched = self.touched(life, place)
        return 409 if any(one.status is Status.BUILD for one in touched) else 200

    def touched(self, life: Life, place: ResourcePath) -> list[Source]:
        if place.data_source is not None and place.environment is not None:
            return [self.sources[place.environment, place.data_source]]
        environments = ENVIRONMENTS if place.environment is None else (place.environment,)
        return [one for environment in environments for one in self.owned(life, environment)]

    def moved(self, place: ResourcePath, life: Life, target: Life) -> None:
        environments = ENVIRONMENTS if place.environment is None else (place.environment,)
        live = [environment for environment in environments if self.live(life, environment)]
        for one in self.touched(life, place):
            one.past.add(life)
            one.owner = target
        if place.data_source is not None:
            return
        for environment in live:
            if environment in life.homes:
                life.homes.remove(environment)
                target.homes.add(environment)
            self.pointers.pop((target, environment), None)
            for (who, env), to in list(self.pointers.items()):
                if to is life and env == environment:
                    self.pointers[who, env] = target
            self.pointers[life, environment] = target

    def where(self, life: Life, environment: int, name: str | None) -> Life | None:
        if name is not None:
            one = self.sources.get((environment, name))
            if one is None:
                return None
            return one.owner if one.owner is life or life in one.past else None
        if self.live(life, environment):
            return life
        to = self.pointers.get((life, environment))
        return to if to is not None and self.live(to, environment) else None

    @invariant()
    def every_path_is_as_it_should_be(self) -> None:
        for tenant in IDS:
            life = self.lives.get(tenant)
            if life is None or life.deleted is not None:
                assert status_of(self.registry.tenant, tenant) == (404 if life is None else 410)
                continue
            for environment in ENVIRONMENTS:
                for name in (None, *NAMES):
                    where = self.where(life, environment, name)
                    place = ResourcePath(tenant, environment, name)
                    if where is None:
                        assert status_of(self.registry.locate, place) == 404, place
                        continue
                    _, found = self.registry.locate(place)
                    if isinstance(found, Located):
                        assert where is life, place
                    else:
                        assert found.owner.id == where.id, place
                        assert where is not life

    @invariant()
    def counters_are_true(self) -> None:
        for tenant, life in self.lives.items():
            if life.deleted is not None:
                continue
            total = StatusCounts()
            for environment in ENVIRONMENTS:
                counts = sum((counted(one.status) for one in self.owned(life, environment)), StatusCounts())
                total += counts
                if self.live(life, environment):
                    _, found = self.registry.locate(ResourcePath(tenant, environment))
                    assert isinstance(found, Located)
                    assert (found.holding.counts, found.holding.status) == (counts, counts.status)
                    assert found.holding.home is (environment in life.homes)
            found_tenant = self.registry.tenant(tenant)
            assert (found_tenant.counts, found_tenant.status) == (total, total.status)


@contextlib.contextmanager
def on_sqlite(template: Path) -> Iterator[type[Lifecycle]]:
    with tempfile.TemporaryDirectory() as folder:
        numbers = iter(range(10**9))

        class Machine(Lifecycle):
            @property
            def database(self) -> Database:  # type: ignore[override]
                if not hasattr(self, "_opened"):
                    path = Path(folder) / f"{next(numbers)}.sqlite"
                    shutil.copy(template, path)
                    self._opened = open_registry(f"sqlite:///{path}", connections=1)
                return self._opened

            def start(self) -> None:
                pass

            def teardown(self) -> None:
                self._opened.close()

        yield Machine


def options(examples: int) -> settings:
    return settings(
        max_examples=examples, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
    )


def test_on_sqlite(sqlite_template: Path) -> None:
    with on_sqlite(sqlite_template) as machine:
        run_state_machine_as_test(machine, settings=options(5))


@pytest.mark.long
def test_on_sqlite_for_long(sqlite_template: Path) -> None:
    with on_sqlite(sqlite_template) as machine:
        run_state_machine_as_test(machine, settings=options(400))


@pytest.mark.parametrize("examples", [2, pytest.param(60, marks=pytest.mark.long)])
def test_on_postgresql(postgresql_url: str, examples: int) -> None:
    opened = open_registry(postgresql_url)

    class Machine(Lifecycle):
        database = opened

        def start(self) -> None:
            emptied(opened)

    try:
        run_state_machine_as_test(Machine, settings=options(examples))
    finally:
        opened.close()


@pytest.mark.long
def test_over_the_service(database_url: str, tmp_path: Path) -> None:
    """The same against a running service's answers, with two workers, on either database."""
    opened = open_registry(database_url)
    with serving(tmp_path / "state", "--drivers", "none", "--listed", "3", "--database", database_url) as (api, _):

        class Machine(Lifecycle):
            database = opened
            begins = 10**17  # later than the service's clock, whose retention counts from the newest change
            retention = 10**16

            def start(self) -> None:
                emptied(opened)

            def made(self) -> Registry:
                return OverHttp(opened, api)

        try:
            run_state_machine_as_test(Machine, settings=options(8))
        finally:
            opened.close()
