"""Errors about documents are facts that the caller adds its own to, on one line, without content."""

from __future__ import annotations

from configdb_sync.errors import DocumentError
from configdb_sync.hiera.documents import Reader
from configdb_sync.hiera.errors import fault, path_text, printable
from tests.hiera.ruby_oracle import outcome


def test_the_caller_adds_node_and_file() -> None:
    error = outcome(Reader(), b"a: 1\nb: !x y\n")
    assert isinstance(error, DocumentError)
    located = error.located(node="7", file="globals.yaml")
    assert str(located).startswith("node 7, file globals.yaml: line 2: the tag !x ")
    assert (located.line, located.reason) == (2, error.reason)  # type: ignore[attr-defined]


def test_names_are_short_and_printable() -> None:
    assert printable("a" * 100, 10) == "aaaaaaa..."
    assert printable("a\nb\x00\u2028") == "a\\nb\\x00\\u2028"
    assert path_text(["a", 0, "b"]) == "a.0.b"
    assert str(fault("reason", line=3, path=["k"], way_out="mend it")) == "line 3: reason, at key k (mend it)"
