"""Usage records summed for charge-back (T14)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from configdb_sync.tenants.metrics import Sum, Usage
from tests.tenants.support import called


def record(tenant: str | None, method: str = "GET", status: int = 200, day: int = 1, size: int = 10) -> bytes:
    told = {"time": f"2026-11-{day:02}T12:00:00.000000Z", "tenant": tenant, "method": method, "status": status}
    return json.dumps({**told, "bytes": size, "seconds": 0.25}).encode() + b"\n"


LINES = [
    record("a"),
    record("a", "HEAD", 204, day=2, size=0),
    record("a", "PUT", 202, day=3),
    record("\u2211", "DELETE", 410, day=30),
    record(None, status=400),
]


def test_by_tenant() -> None:
    found = Usage()
    found.add(LINES)
    assert found.ordered() == [
        ("a", Sum(3, changes=1, refused=0, bytes=20, seconds=0.75)),
        ("\u2211", Sum(1, changes=1, refused=1, bytes=10, seconds=0.25)),
        (None, Sum(1, changes=0, refused=1, bytes=10, seconds=0.25)),
    ]


@pytest.mark.parametrize(
    ("since", "until", "requests"),
    [
        (None, None, 3),
        ("2026-11", "2026-12", 3),
        ("2026-11-02", None, 2),
        (None, "2026-11-03", 2),
        ("2026-12", None, 0),
    ],
)
def test_a_period_holds_its_beginning_and_not_its_end(since: str | None, until: str | None, requests: int) -> None:
    found = Usage()
    found.add(LINES, since, until)
    assert found.tenants.get("a", Sum()).requests == requests


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b'{"time": "2026',
        b"[]\n",
        b"null\n",
        b'"x"\n',
        b"\xff\n",
        record("a").replace(b'"status": 200', b'"status": "x"'),
        record("a").replace(b'"bytes"', b'"octets"'),
        json.dumps({**json.loads(record("a")), "tenant": ["a"]}).encode(),
        b"[" * 100_000,
    ],
    ids=lambda line: ascii(line[:30]),
)
def test_lines_that_are_no_records_are_told_and_spoil_nothing(line: bytes) -> None:
    found = Usage()
    found.add([line, *LINES])
    assert (found.unreadable, found.tenants["a"].requests) == (1, 3)


def test_the_command(tmp_path: Path) -> None:
    old, new = tmp_path / "usage.1", tmp_path / "usage"
    old.write_bytes(b"".join(LINES))
    new.write_bytes(b"".join(LINES))
    told = called("tenants", "usage", old, new, "--since", "2026-11", "--format", "json")
    assert told.code == 0
    assert told.json["tenants"][0] == {
        "tenant": "a",
        "requests": 6,
        "changes": 2,
        "refused": 0,
        "bytes": 40,
        "seconds": 1.5,
    }
    text = called("tenants", "usage", old)
    assert text.out.splitlines()[:2] == ["tenant  requests  changes  refused  bytes  seconds", "'a'  3  1  0  20  0.75"]
    new.write_bytes(b"".join(LINES)[:-5])
    cut = called("tenants", "usage", new)
    assert (cut.code, "skipped 1 lines that are no usage records" in cut.err) == (3, True)
    assert called("tenants", "usage", old, "--since", "yesterday").code == 2
    assert called("tenants", "usage", tmp_path / "none").code == 2
