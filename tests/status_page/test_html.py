"""From values to HTML: whatever it is, it is text."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError

from configdb_sync.status_page import html
from configdb_sync.status_page.queries import StampedCache
from configdb_sync.status_page.single_file import FileLinks

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_the_policy_names_what_stands_in_the_page_and_nothing_else() -> None:
    policy = html.policy()
    body = html.render(
        "error.html", policy=None, now=NOW, trail=[], sign_out=False, user="", title="t", what="w", request="r"
    )
    text = body
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        found = re.findall(rf"<{tag}>(.*?)</{tag}>", text, flags=re.DOTALL)
        assert len(found) == 1
        digest = base64.b64encode(hashlib.sha256(found[0].encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in policy
    for word in ("unsafe", "http:", "https:", "*", "'self' "):
        assert word not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert " style=" not in text
    assert not re.search(r"\son[a-z]+=", text)


@given(st.text(max_size=60))
def test_any_text_comes_out_as_it_is_or_escaped(text: str) -> None:
    values: dict[str, Any] = {"policy": None, "now": NOW, "trail": [], "sign_out": False, "user": "", "request": "r"}
    plain = tags(html.render("error.html", title="t", what="w", **values))
    found = tags(html.render("error.html", title=text, what=text, **values))
    assert found == plain


def tags(text: str) -> list[Any]:
    seen: list[Any] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            seen.append((tag, attrs))

        def handle_endtag(self, tag: str) -> None:
            seen.append(tag)

    Parser().feed(text)
    return seen


@pytest.mark.parametrize("text", ["\u202e", "\u2066", "\u200f", "\x00", "\x1b", "\r\n", "\x7f", "\u2028", "\ud800"])
def test_what_cant_be_seen_or_turns_writing_round_is_escaped(text: str) -> None:
    shown = html.printable(f"a{text}b")
    assert shown.isprintable()
    assert shown.startswith("a\\u")


def test_a_long_value_is_cut_and_says_how_long_it_is() -> None:
    assert len(html.value_text("x" * 1_000_000)) < 500
    assert "(1,000,002 characters)" in html.value_text("x" * 1_000_000)


def test_what_isnt_there_is_an_error() -> None:
    with pytest.raises(UndefinedError):
        html.render("error.html")


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, ""), (0.04, "0.0 s"), (12.4, "12 s"), (185, "3 min 5 s"), (7800, "2 h 10 min")]
)
def test_durations(seconds: float | None, text: str) -> None:
    assert html.duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, ""), (0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (20_000_000, "20.0 MB"), (10**17, "100000 TB")],
)
def test_sizes(number: int | None, text: str) -> None:
    assert html.size(number) == text


@pytest.mark.parametrize(
    ("before", "text"),
    [(5, "just now"), (300, "5 min ago"), (7200, "2 hours ago"), (86400, "1 day ago"), (-60, "just now")],
)
def test_how_long_ago(before: int, text: str) -> None:
    then = (NOW - timedelta(seconds=before)).replace(tzinfo=None)
    assert html.ago(f"{then.isoformat(timespec='microseconds')}Z", NOW) == text


def test_what_is_read_later_has_no_ages() -> None:
    run = {"environment": 1, "run": "r", "outcome": "OK", "started_at": "2026-11-30T11:58:00.000000Z", "seconds": None}
    parts: Any = html.environment().get_template("parts.html").module
    assert "2 min ago" in parts.last_run(run, NOW, FileLinks())
    told = parts.last_run(run, None, FileLinks())
    assert ("11:58:00" in told, "ago" in told, "(" in told) == (True, False, False)


def test_cells_of_alike_nodes_are_made_once_with_each_ones_address() -> None:
    columns: list[html.Column] = [({"name": "astute"}, "/a"), ({"name": "never"}, "/n"), ({"name": "x"}, None)]
    cells = html.Cells(columns, [("ACTIVE", None, "ERROR")], "?level=")
    assert [source["name"] for source, _ in cells.columns] == ["astute", "x"]
    assert [source["name"] for source, _ in cells.left] == ["never"]
    one, other = (cells(["ACTIVE", None, "ERROR"], f"nodes%3D{number}") for number in (1, 2))
    assert one.replace("nodes%3D1", "nodes%3D2") == other
    assert 'href="/a?level=nodes%3D1"' in one
    assert "href" not in cells(["ACTIVE", None, "ERROR"], None)


def test_what_is_kept_holds_until_its_stamp_changes() -> None:
    kept, made = StampedCache(most=2), []

    def make(value: int) -> int:
        made.append(value)
        return value

    assert [kept("a", 1, lambda: make(1)), kept("a", 1, lambda: make(2)), kept("a", 2, lambda: make(3))] == [1, 1, 3]
    kept("b", 1, lambda: make(4))
    kept("c", 1, lambda: make(5))
    kept("a", 2, lambda: make(6))
    assert made == [1, 3, 4, 5, 6]
