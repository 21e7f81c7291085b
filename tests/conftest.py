"""What every test may use: the real environments of the fixtures, and the rule about skips."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from xdist.scheduler import LoadFileScheduling

from tests.peers import postgresql
from tests.support import fixtures, skips
from tests.support.product import Product, make_product

pytest_plugins = ("pytester", "tests.lab.fixtures", "tests.peers.fixtures", "tests.tenants.fixtures")

# How long an example takes says something of the machine, not of the code.
hypothesis.settings.register_profile("untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run also the tests that take minutes (marked long)")


def pytest_configure(config: pytest.Config) -> None:
    # A shell that starts a suite in the background has it ignore an interrupt, and with it every process of the tests.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    strict = os.environ.get("CI") == "true"
    rules = skips.load(Path(__file__).with_name("skips.txt"))
    config.pluginmanager.register(skips.Plugin(rules, skips.conditions(), strict=strict), "skips")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long") or config.getoption("-m"):
        return
    long = [item for item in items if item.get_closest_marker("long")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]


def pytest_collection_finish() -> None:
    # What is collected stays until the end: the garbage collector needn't look through it again and again.
    gc.freeze()


class Rooms(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """Gives a file's tests to one worker, and all of the plugin's to one, which builds its package once for them."""

    def _split_scope(self, nodeid: str) -> str:
        file: str = super()._split_scope(nodeid)
        return "tests/plugin" if file.startswith("tests/plugin/") else file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Rooms:
    return Rooms(config, log)


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers() -> Generator[None, int, int]:
    # Tests wait a quarter of their time, for processes that start and nodes that do not answer. Others run meanwhile.
    cores = yield
    return -(-cores * 3 // 2)


@pytest.fixture
def environment(tmp_path: Path) -> Callable[[int], Path]:
    """Give ``environment(37)``: a writable copy of real environment 37, a folder of node trees; skips without it."""

    def copy(number: int) -> Path:
        return fixtures.copy_environment(number, tmp_path / f"env-{number}")

    return copy


@pytest.fixture(scope="session")
def cluster() -> Iterator[postgresql.Cluster]:
    """Give one PostgreSQL for all; each test, or each room, makes its own databases in it."""
    reason = postgresql.unavailable()
    if reason:
        pytest.skip(reason)
    with postgresql.running() as found:
        yield found


@pytest.fixture
def product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Product:
    """Give the command line with a state folder of its own."""
    return make_product(tmp_path / "state", monkeypatch)
