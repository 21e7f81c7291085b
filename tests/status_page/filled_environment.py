"""An environment of as many nodes as one likes, as runs would have recorded it, without running any."""

from __future__ import annotations

import uuid
from contextlib import closing
from pathlib import Path

import sqlalchemy as sa

from configdb_sync.state import StateFolder
from configdb_sync.store.opening import open_store
from configdb_sync.store.schema import NODES, OPEN_PROBLEMS, RECORDS, RUN_NODES, RUNS
from configdb_sync.tenants.registry import Registry, open_registry
from configdb_sync.tenants.rows import ChangeInfo
from configdb_sync.tenants.status import Status

SOURCES = (
    *("astute", "globals", "nodes", "override/common", "override/configuration/cluster"),
    *("override/configuration/role", "override/node", "override/plugins", "plugins/lbaas", "plugins/zabbix"),
)
BEGAN = 1_790_000_000.0


def fill(state: Path, environment: int, count: int, runs: int = 10) -> None:
    """As ``fill_database``, in a state folder, made if it isn't there."""
    state.mkdir(mode=0o700, exist_ok=True)
    fill_database(StateFolder(state).database_url, environment, count, runs)


def fill_database(url: str, environment: int, count: int, runs: int = 10) -> None:
    """Make an environment of so many nodes with ten data sources: the third node failed in the last of its runs."""
    change = ChangeInfo("test", "here", "req-test", 1)
    with closing(Registry(open_registry(url))) as registry:
        registry.settle_home(change, environment, "admin")
        registry.own(change, "admin", environment, dict.fromkeys(SOURCES))
        registry.tell(change, environment, dict.fromkeys(SOURCES, (Status.ACTIVE, None)))
        registry.tell(change, environment, {"globals": (Status.ERROR, "node 3: the file changed")})
    nodes = [str(number) for number in range(1, count + 1)]
    here = {"place": "made", "environment": environment}

    def work(connection: sa.Connection) -> None:
        names = [{**here, "node": node, "fqdn": f"node-{node}.cloud.example.com", "run": "r"} for node in nodes]
        connection.execute(sa.insert(NODES), names)
        rows = [
            {**here, "node": node, "data_source": name, "run": "r", "body": b"x" * 200}
            for node in nodes
            for name in SOURCES
            if name != "override/node" or int(node) % 7
        ]
        connection.execute(sa.insert(RECORDS), rows)
        for number in range(runs):
            failed = nodes[2:3] if number == runs - 1 else []
            _run(connection, environment, number, nodes, failed)

    with closing(open_store(url)) as database:
        database.write(work)


def _run(connection: sa.Connection, environment: int, number: int, nodes: list[str], failed: list[str]) -> None:
    identity = f"req-{uuid.UUID(int=environment << 32 | number)}"
    began = BEGAN + 3600 * number
    about = {
        "environment": environment,
        "number": number,
        "place": "made",
        "author": "root",
        "host": "fuel",
        "pid": 1,
        "kind": "sync",
    }
    counts = {
        "nodes": len(nodes),
        "uploads": number,
        "writes": 1,
        "problems": len(failed),
        "bytes": 1000 * (number + 1),
    }
    outcome = {"outcome": "PARTIAL", "exit": 3} if failed else {"outcome": "OK", "exit": 0}
    ended = {"started": began, "finished": began + 10 + number}
    connection.execute(sa.insert(RUNS).values(identity=identity, **about, **counts, **outcome, **ended))
    rows = [
        {"run": identity, "node": node, "outcome": "failed" if node in failed else "done", "uploads": 0, "writes": 0}
        | {"problems": int(node in failed)}
        for node in nodes
    ]
    connection.execute(sa.insert(RUN_NODES), rows)
    for node in failed:
        told = {"node": node, "number": 0, "data_source": "globals", "what": "the file changed", "run": identity}
        connection.execute(sa.insert(OPEN_PROBLEMS).values(environment=environment, place="made", **told))
