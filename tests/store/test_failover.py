"""The primary is killed under load and the standby promoted: what was acknowledged is there, and all goes on (R2)."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import requests
import sqlalchemy as sa
from psycopg import OperationalError as Lost

from configdb_sync.configdb_server.schema import open_configdb
from configdb_sync.errors import ConfigDBError, StateError
from configdb_sync.failpoints import VARIABLE
from configdb_sync.store import engine
from configdb_sync.store.database import Database
from configdb_sync.store.opening import open_store
from configdb_sync.tenants.registry import open_registry
from tests.peers import postgresql, standby
from tests.support import processes
from tests.support.product import contents
from tests.support.service import fill, serving
from tests.support.trees import make_trees

WRITERS = 3
DEADLINE_S = 120
COUNTERS = sa.Table("counters", sa.MetaData(), sa.Column("name", sa.Text, primary_key=True), sa.Column("n", sa.Integer))


@pytest.fixture
def pair() -> Iterator[standby.Pair]:
    reason = postgresql.unavailable()
    if reason:
        pytest.skip(reason)
    with standby.running() as found:
        yield found


@dataclass
class Load:
    """Writers at work while the primary dies: each ``step`` gets the number of the writer and of its write."""

    step: Callable[[int, int], None]
    done: list[int] = field(default_factory=lambda: [0] * WRITERS)
    enough: threading.Event = field(default_factory=threading.Event)

    def run(self, writer: int) -> None:
        for turn in itertools.count(1):
            self.step(writer, turn)
            self.done[writer] = turn
            if self.enough.is_set():
                return

    def wait(self, more: int) -> None:
        """Return when each writer has done so many more."""
        wanted = [done + more for done in self.done]
        end = time.monotonic() + DEADLINE_S
        while any(done < want for done, want in zip(self.done, wanted, strict=True)):
            assert time.monotonic() < end, (self.done, wanted)
            time.sleep(0.02)


@contextmanager
def at_work(*loads: Load) -> Iterator[None]:
    """Have the loads written; each has written before this begins, and goes on to write after it."""
    with ThreadPoolExecutor(WRITERS * len(loads)) as pool:
        writers = [pool.submit(load.run, number) for load in loads for number in range(WRITERS)]
        try:
            for load in loads:
                load.wait(3)
            yield
            for load in loads:
                load.wait(3)
        finally:
            for load in loads:
                load.enough.set()
        for writer in writers:
            writer.result()


class Served(Load):
    """Conditional writes to a service: each writer has a document of its own."""

    def __init__(self, url: str) -> None:
        super().__init__(self._put)
        self.path = f"{url}/environments/5/cluster/c/nodes/{{}}/resources/globals/overrides"
        self.tags = ["*"] * WRITERS

    def _put(self, writer: int, turn: int) -> None:
        condition = "If-None-Match" if self.tags[writer] == "*" else "If-Match"
        headers = {condition: self.tags[writer]}
        answer = requests.put(self.path.format(writer), json={"turn": turn}, headers=headers, timeout=60)
        # None is refused because of what it did itself before its connection was lost.
        assert (answer.status_code, answer.headers.get("X-Configdb-Version")) == (204, str(turn)), answer.text
        self.tags[writer] = answer.headers["ETag"]

    def check(self) -> None:
        for writer in range(WRITERS):
            found = requests.get(self.path.format(writer), timeout=20)
            assert (found.json(), found.headers["ETag"]) == ({"turn": self.done[writer]}, self.tags[writer])


class Counted(Load):
    """Counts in a database: a change that is done twice, or lost, shows."""

    def __init__(self, database: Database) -> None:
        super().__init__(self._count)
        self.database = database
        database.write(COUNTERS.metadata.create_all)
        rows = [{"name": str(writer), "n": 0} for writer in range(WRITERS)]
        database.write(lambda connection: connection.execute(sa.insert(COUNTERS), rows))

    def _count(self, writer: int, turn: int) -> None:
        here = COUNTERS.c.name == str(writer)
        one_more = sa.update(COUNTERS).where(here).values(n=COUNTERS.c.n + 1).returning(COUNTERS.c.n)
        assert self.database.write(lambda connection: connection.scalar(one_more)) == turn
        asked = sa.select(COUNTERS.c.n).where(here)
        assert self.database.read(lambda connection: connection.scalar(asked)) == turn


def fail_over(pair: standby.Pair, folder: Path, point: str) -> None:
    """Have a service, the three kinds of database and a run at work while the primary dies."""
    trees = make_trees(folder / "trees", *map(str, range(1, 5)))
    before = contents(trees)
    state = folder / "state"
    places = ("--configdb-database", pair.create("configdb"), "--database", pair.create("own"))
    arguments = ("--env", 5, "--from", trees, *places)
    if point == "after-write":
        assert processes.run(state, "sync", *arguments).returncode == 0
        override = ("-r", "astute", "--level", "nodes=2", "--key", "nova.debug", "--type", "bool", "--value", "true")
        done = processes.run(state, "override", "--env", 5, *override, *places)
        assert done.returncode == 0, done.stderr
    with ExitStack() as stack:
        url, _ = stack.enter_context(serving("--auth", "none", "--configdb-database", pair.create("served")))
        fill(url)
        served = Served(url)
        kinds = (open_configdb, open_registry, open_store)
        databases = [opened(pair.create(f"counted_{number}")) for number, opened in enumerate(kinds)]
        counted = [Counted(stack.enter_context(closing(database))) for database in databases]
        run = stack.enter_context(stopped(state, point, "sync", *arguments, "--parallel", 1))
        with at_work(served, *counted):
            pair.kill_primary()
            run.send_signal(signal.SIGCONT)
            pair.promote()
        served.check()
        out, err = run.communicate(timeout=DEADLINE_S)
        assert run.returncode == 0, out + err
        again = processes.run(state, "plan", "--exit-code", *arguments)
        assert again.returncode == 0, again.stdout + again.stderr
        assert (contents(trees) == before) is (point != "after-write")


def test_nothing_is_lost_or_done_twice_and_all_go_on(pair: standby.Pair, tmp_path: Path) -> None:
    fail_over(pair, tmp_path, "before-record")


@pytest.mark.long
@pytest.mark.parametrize("point", ["run-begun", "before-upload", "after-upload", "after-record", "after-write"])
def test_nor_at_other_steps_of_a_run(pair: standby.Pair, tmp_path: Path, point: str) -> None:
    fail_over(pair, tmp_path, point)


@contextmanager
def stopped(state: Path, point: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A command that stands still at a step; it goes on when it gets SIGCONT."""
    process = processes.start(state, *arguments, **{VARIABLE: f"{point}:1:STOP"})
    try:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), process.communicate()
        yield process
    finally:
        process.kill()
        process.communicate()


@dataclass
class Sleeper:
    """A clock that goes on only when something sleeps."""

    seconds: float = 0.0
    sleeps: list[float] = field(default_factory=list)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.seconds, UTC)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.seconds += seconds


def test_who_finds_a_database_away_waits_and_those_who_come_later_do_not(cluster: postgresql.Cluster) -> None:
    clock = Sleeper()
    name = "goes_away"
    database = Database(cluster.create(name), what="it", clock=clock)
    one = sa.select(sa.literal(1))
    assert database.read(lambda connection: connection.scalar(one)) == 1
    cluster.drop(name)
    with pytest.raises(StateError):
        database.read(lambda connection: connection.scalar(one))
    assert 18 < clock.seconds <= 20
    waited = len(clock.sleeps)
    for ask in (database.read, database.write):
        with pytest.raises(StateError):
            ask(lambda connection: connection.scalar(one))
    assert len(clock.sleeps) == waited
    cluster.create(name)
    assert database.read(lambda connection: connection.scalar(one)) == 1
    database.close()


def test_a_database_that_never_was_there_is_told_at_once(cluster: postgresql.Cluster) -> None:
    clock = Sleeper()
    with closing(Database(cluster.url("never_made"), what="it", clock=clock)) as database:
        with pytest.raises(StateError):
            database.read(lambda connection: connection.scalar(sa.select(sa.literal(1))))
        assert clock.sleeps == []


class Broken:
    """Has the next COMMITs fail as a lost connection does: before the server does them, or after."""

    def __init__(self, database: Database, monkeypatch: pytest.MonkeyPatch, *done: bool) -> None:
        self._done = list(done)
        dialect: Any = database._engine.dialect
        commit = dialect.do_commit

        def broken(connection: Any) -> None:
            if not self._done:
                commit(connection)
                return
            if self._done.pop(0):
                commit(connection)
            connection.dbapi_connection.close()
            raise Lost("the connection is lost")

        monkeypatch.setattr(dialect, "do_commit", broken)


@pytest.mark.parametrize("done", [(True,), (False,), (False, True), (False, False, True)])
def test_a_change_whose_commit_was_lost_is_done_once(
    cluster: postgresql.Cluster, monkeypatch: pytest.MonkeyPatch, done: tuple[bool, ...]
) -> None:
    name = f"lost_commit_{''.join(str(int(one)) for one in done)}"
    with closing(open_store(cluster.create(name))) as database:
        database.write(COUNTERS.metadata.create_all)
        Broken(database, monkeypatch, *done)
        made = sa.insert(COUNTERS).values(name="a", n=1).returning(COUNTERS.c.n)
        assert database.write(lambda connection: connection.scalar(made)) == 1
        assert database.read(lambda connection: connection.execute(sa.select(COUNTERS)).all()) == [("a", 1)]


def test_without_a_mark_a_lost_commit_is_no_success_and_not_repeated(
    cluster: postgresql.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Database(cluster.create("unmarked"), what="it")) as database:
        database.write(COUNTERS.metadata.create_all)
        database.write(lambda connection: connection.execute(sa.insert(COUNTERS).values(name="a", n=1)))
        Broken(database, monkeypatch, True)
        with pytest.raises(StateError):
            database.write(lambda connection: connection.execute(sa.update(COUNTERS).values(n=COUNTERS.c.n + 1)))
        assert database.read(lambda connection: connection.scalar(sa.select(COUNTERS.c.n))) == 2


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("postgresql://u:p%2Cw@one:5432,two:5433/name", "one,two", "5432,5433"),
        ("postgresql://u:p@one,two/name?sslmode=require", "one,two", ","),
        ("postgresql://u@/name?host=one:5432&host=two:5433", "one,two", "5432,5433"),
        ("postgresql://one:1,two:2", "one,two", "1,2"),
        ("postgresql://u@/name?host=/a&host=/b", "/a,/b", ","),
    ],
)
def test_several_servers_in_a_url(text: str, host: str, port: str) -> None:
    url = engine.parsed(text, "it")
    _, told = url.get_dialect()().create_connect_args(url)
    assert (told["host"], told["port"]) == (host, port)
    assert engine.several(url)
    assert engine.connection_parameters(url)["target_session_attrs"] == "read-write"


def test_the_urls_own_parameters_have_the_last_word() -> None:
    url = engine.parsed("postgresql://a,b/name?target_session_attrs=primary&connect_timeout=2", "it")
    assert {"target_session_attrs", "connect_timeout"}.isdisjoint(engine.connection_parameters(url))
    one = engine.parsed("postgresql://a/name", "it")
    assert not engine.several(one)
    assert "target_session_attrs" not in engine.connection_parameters(one)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://u:secret@a:1:2/n",
        "postgresql://u:secret@a:1,b:2x/n",
        "postgresql://u:secret@/n?host=a:1&host=b:2x",
        "mysql://a,b/n",
    ],
)
def test_a_url_that_cannot_be_read_shows_no_password(text: str) -> None:
    with pytest.raises((StateError, ConfigDBError)) as caught:
        engine.connection_parameters(engine.parsed(text, "the database"))
    assert "secret" not in str(caught.value)
