"""What goes to standard error, when, and in which colours: --quiet, --debug, NO_COLOR, PYTHONUNBUFFERED."""

from __future__ import annotations

import io
import logging
import os
import pty
import re
import select
import sys
from pathlib import Path

import pytest

from configdb_sync.cli import output
from configdb_sync.cli.main import main
from configdb_sync.exits import Exit
from tests.support import processes
from tests.support.product import Product
from tests.support.trees import make_trees


@pytest.fixture
def run(product: Product, tmp_path: Path) -> tuple[object, ...]:
    return ("--env", 5, "--from", make_trees(tmp_path / "trees", *map(str, range(1, 12))))


@pytest.mark.parametrize("flag", ["-q", "--quiet"])
def test_quiet_leaves_results_and_errors(product: Product, run: tuple[object, ...], flag: str) -> None:
    loud = product("sync", *run)
    assert "11 of 11 nodes done" in loud.err
    for words in ((flag, "plan", *run), ("plan", *run, flag), ("plan", flag, *run)):
        done = product(*words)
        assert (done.code, done.err, "Digest of this plan" in done.out) == (Exit.OK, "", True)
    failed = product("plan", flag, *run, "--node", 77)
    assert (failed.code, failed.err) == (Exit.PARTIAL, "")
    assert "77" in failed.out
    assert "no key in environment 5" in product("find", "none", "--env", 5).err
    assert product(flag, "find", "none", "--env", 5).err == ""
    assert "there is no node" in product(flag, "find", "none", "--env", 5, "--node", "x").err


def test_it_may_stand_before_and_after_each_name(product: Product, run: tuple[object, ...]) -> None:
    assert product("sync", "-q", *run).code == Exit.OK
    for words in (("-q", "tenants", "list"), ("tenants", "-q", "list"), ("tenants", "list", "-q")):
        assert product(*words).out.startswith("'admin'")
    for more in (("export",), ()):
        assert product("overrides", "-q", *more, "--env", 5).code == Exit.OK
    assert logging.getLogger().level != logging.ERROR


def test_debug_shows_requests_and_times_and_no_secret(
    product: Product, run: tuple[object, ...], caplog: pytest.LogCaptureFixture
) -> None:
    place = ("--env", 5, "-r", "globals", "--level", "nodes=1", "-k", "nova_hash.user_password")
    assert product("sync", *run).code == Exit.OK
    assert not caplog.records
    done = product("override", "--debug", *place, "-t", "str", "--value-file", "-", stdin="CANARY-mine")
    assert done.code == Exit.OK, done.err
    assert product("--debug", "get", *place).out == "CANARY-mine\n"
    lines = [record.getMessage() for record in caplog.records]
    assert any(
        re.fullmatch(r"PUT embedded:/environments/5/.*/overrides: 204, 0 bytes, \d+\.\d{3} s", one) for one in lines
    )
    assert "CANARY" not in caplog.text
    assert logging.getLogger("configdb_sync").level == logging.NOTSET


def test_a_line_has_time_and_run(tmp_path: Path) -> None:
    done = processes.run(tmp_path / "state", "find", "none", "--env", 5, "--debug")
    assert done.returncode == Exit.USAGE
    first = done.stderr.splitlines()[0]
    assert re.match(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} DEBUG req-[0-9a-f-]{36} configdb_sync\.http\.session: GET ", first
    )


@pytest.mark.parametrize(
    ("variables", "coloured"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "0"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_colours_are_the_environments_choice(
    product: Product, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], *, coloured: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert product("sync", "--env", 5, "--from", make_trees(tmp_path / "trees", "1")).code == Exit.OK
    file = tmp_path / "overrides.yaml"
    file.write_text("{version: 1, environment: 5, overrides: [{data_source: globals, key: more, value: 1}]}")
    reader, writer = pty.openpty()
    with os.fdopen(writer, "w", encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        monkeypatch.setattr(sys, "stderr", io.StringIO())
        with pytest.raises(SystemExit):
            main(["overrides", "apply", "--new-key", "--dry-run", "-f", str(file), "--state", str(product.state)])
        terminal.flush()
        shown = b""
        while b"Nothing was written" not in shown:
            assert select.select([reader], [], [], 5)[0]
            shown += os.read(reader, 1 << 16)
    os.close(reader)
    assert b"+ more: 1" in shown
    assert (b"\x1b[" in shown) is coloured


@pytest.mark.parametrize("unbuffered", [True, False])
def test_a_line_of_progress_comes_at_once(*, unbuffered: bool) -> None:
    """As Python makes standard error: with PYTHONUNBUFFERED nothing is buffered by lines, and so not flushed either."""
    reader, writer = os.pipe()
    kept = os.dup(writer)
    stream = io.TextIOWrapper(
        os.fdopen(writer, "wb", 0 if unbuffered else -1), write_through=unbuffered, line_buffering=not unbuffered
    )
    with stream, output._wrapped(stream, kept, heed=False) as guarded:
        print("1 of 2 nodes done", file=guarded)
        assert select.select([reader], [], [], 5)[0]
        assert os.read(reader, 100) == b"1 of 2 nodes done\n"
    os.close(reader)
    os.close(kept)
