"""Nailguns to ask: the stored answers of 9.0.1 and newton, served on loopback; and a small one of a test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from configdb_sync.configdb.http import HttpExchange
from configdb_sync.configdb.model import Limits
from configdb_sync.configdb.retry import RetryPolicy
from configdb_sync.configdb.tokens import TokenSource
from configdb_sync.nailgun.client import NailgunClient
from tests.configdb.support import surroundings
from tests.support.nailgun import Nailgun, load, serving

Clients = Callable[..., NailgunClient]


@pytest.fixture(params=["9.0.1", "newton"])
def nailgun(request: pytest.FixtureRequest) -> Iterator[Nailgun]:
    """A Nailgun of each release, serving."""
    found = load(request.param)
    with serving(found):
        yield found


@pytest.fixture
def small() -> Iterator[Nailgun]:
    """A Nailgun of three nodes that needs no data, serving."""
    found = make_small()
    with serving(found):
        yield found


def make_small(env: int = 5) -> Nailgun:
    nodes = [
        {
            "id": number,
            "cluster": env,
            "fqdn": f"node-{number}.example.com",
            "status": "ready",
            "online": True,
            "pending_deletion": False,
            "pending_addition": False,
            "roles": ["compute"],
        }
        for number in (1, 2, 3)
    ]
    return Nailgun(
        version={"release": "9.0", "api": "1", "auth_required": False},
        cluster={"id": env, "name": "small", "status": "operational", "fuel_version": "9.0"},
        nodes=nodes,
        attributes={"editable": {}},
        deployment=[],
    )


@pytest.fixture
def client() -> Iterator[Clients]:
    """Give ``client(url, tokens=None, ...)``: a client that doesn't wait between attempts."""
    with ExitStack() as stack:

        def make(
            url: str,
            tokens: TokenSource | None = None,
            ca_file: Path | None = None,
            limits: Limits = Limits(answer=1 << 20),  # noqa: B008  # frozen
        ) -> NailgunClient:
            made = NailgunClient(
                url,
                lambda base: HttpExchange(base, limits=limits, ca_file=ca_file),
                lambda _: tokens,
                RetryPolicy(attempts=2),
                surroundings(),
            )
            return stack.enter_context(made)

        yield make
