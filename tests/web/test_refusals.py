"""What the log tells of refusals (R5)."""

from __future__ import annotations

from configdb_sync.web.worker import RefusalLog


def test_a_line_a_minute() -> None:
    lines: list[str] = []
    log = RefusalLog(lines.append)
    for second in range(150):
        log.note("400 not HTTP" if second % 2 else "408 too slow", f"10.0.0.{second}", float(second))
        log.tick(float(second))
    assert lines == [
        "requests refused before the service saw them: 1 x 408 too slow; the last from 10.0.0.0",
        "requests refused before the service saw them in 60 s: 30 x 400 not HTTP, 30 x 408 too slow; "
        "the last from 10.0.0.60",
        "requests refused before the service saw them in 60 s: 30 x 400 not HTTP, 30 x 408 too slow; "
        "the last from 10.0.0.120",
    ]
    log.tick(151.0, last=True)
    assert lines[-1].endswith("15 x 400 not HTTP, 14 x 408 too slow; the last from 10.0.0.149")


def test_the_next_after_a_quiet_minute_is_told_at_once() -> None:
    lines: list[str] = []
    log = RefusalLog(lines.append)
    log.note("400 not HTTP", "a", 0.0)
    log.tick(61.0)
    assert len(lines) == 1
    log.note("400 not HTTP", "b", 62.0)
    assert lines[1].endswith("from b")
