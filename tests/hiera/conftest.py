"""What the tests of documents share: one Ruby for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.hiera.ruby_oracle import RubyOracle, ruby_oracle


@pytest.fixture(scope="session")
def ruby() -> Iterator[RubyOracle]:
    with ruby_oracle() as oracle:
        yield oracle
