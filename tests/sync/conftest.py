"""The product's own database, a clock that stands still, and a small environment in Nailgun."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.configdb.legacy import legacy_url
from tests.nailgun.conftest import make_small
from tests.store.conftest import clock, own_url
from tests.support.nailgun import Nailgun, at_work

__all__ = ["clock", "legacy_url", "own_url"]


@pytest.fixture
def nailgun() -> Iterator[Nailgun]:
    """Give a Nailgun with a small environment, serving, and a login to it."""
    found = make_small()
    with at_work(found):
        yield found
