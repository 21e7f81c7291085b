"""Nailguns to ask: those of all four releases with stored answers, on loopback; and a small one of a test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from configdb_sync.http.connections import HttpTransport
from configdb_sync.http.session import RetryPolicy
from configdb_sync.http.tokens import FixedToken, TokenSource
from configdb_sync.http.transport import TransferLimits
from configdb_sync.nailgun.client import NAILGUN, NailgunClient
from tests.configdb.support import timing
from tests.support.keystone import ISSUED
from tests.support.nailgun import RELEASES, Nailgun, load, serving

Clients = Callable[..., NailgunClient]


@pytest.fixture(params=RELEASES)
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
        version={"release": "9.0", "api": "1"},
        cluster={"id": env, "name": "small", "status": "operational", "fuel_version": "9.0"},
        nodes=nodes,
        attributes={"editable": {}},
        deployment=[],
        first=True,
    )


@pytest.fixture
def client() -> Iterator[Clients]:
    """Give ``client(url, ...)``: a client that doesn't wait between attempts, with a token that Keystone gave it."""
    with ExitStack() as stack:

        def make(
            url: str,
            tokens: TokenSource | None = FixedToken(ISSUED),  # noqa: B008  # it doesn't change
            ca_file: Path | None = None,
            limits: TransferLimits = TransferLimits(answer=1 << 20),  # noqa: B008  # frozen
        ) -> NailgunClient:
            made = NailgunClient(
                url,
                lambda base: HttpTransport(base, limits=limits, ca_file=ca_file, authority=NAILGUN.authority),
                lambda _: tokens,
                RetryPolicy(attempts=2),
                timing(),
            )
            return stack.enter_context(made)

        yield make
