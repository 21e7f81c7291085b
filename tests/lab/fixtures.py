"""The laboratory for tests: one for the whole run, started by the first test that wants it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.lab.laboratory import Laboratory, running, unavailable


@pytest.fixture(scope="session")
def shared_laboratory() -> Iterator[Laboratory]:
    """Give a laboratory of four nodes. Use ``laboratory``, which mends what a test has broken."""
    reason = unavailable()
    if reason is not None:
        pytest.skip(reason)
    with running() as found:
        yield found


@pytest.fixture
def laboratory(shared_laboratory: Laboratory) -> Laboratory:
    """Give the laboratory with broker and nodes up and the nodes' folders empty."""
    shared_laboratory.mend()
    return shared_laboratory
