"""A ConfigDB that can't move definitions refuses moves clearly (PyPI's 0.1.0); nothing is half moved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from configdb_sync.configdb.model import ServerKind
from configdb_sync.errors import UnavailableError
from configdb_sync.tenants.outbox_worker import check_movable
from configdb_sync.web.refusals import RefusalError


class Kind:
    def __init__(self, answer: Callable[[], ServerKind]) -> None:
        self.server_now = answer


def away() -> ServerKind:
    raise UnavailableError("nobody answers")


@pytest.mark.parametrize(("answer", "status"), [(lambda: ServerKind.LEGACY, 501), (away, 503)])
def test_refused(answer: Callable[[], ServerKind], status: int) -> None:
    client: Any = Kind(answer)
    with pytest.raises(RefusalError) as refusal:
        check_movable(lambda: client)
    assert refusal.value.status == status


@pytest.mark.parametrize("kind", [ServerKind.EMBEDDED, ServerKind.MASTER])
def test_let_through(kind: ServerKind) -> None:
    client: Any = Kind(lambda: kind)
    check_movable(lambda: client)
