"""The error for an unreadable document: it names the line, the key's path and the reason, never a value (U19, U12)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from configdb_sync.errors import DocumentError


@dataclass(eq=False)
class UnreadableDocumentError(DocumentError):
    """A document that can't be read. ``line`` counts from 1; None if no single line is wrong."""

    line: int | None = None
    reason: str = ""


def fault(
    reason: str, *, line: int | None = None, path: Iterable[object] = (), way_out: str | None = None
) -> UnreadableDocumentError:
    """Return the error for ``reason`` at a line (from 1) and below the keys of ``path``."""
    name = path_text(path)
    full = f"{reason}, at key {name}" if name else reason
    return UnreadableDocumentError(
        full if line is None else f"line {line}: {full}", way_out=way_out, line=line, reason=full
    )


def path_text(path: Iterable[object]) -> str:
    """Return keys and list indexes as one short printable text, ``nodes.0.fqdn``."""
    return printable(".".join(str(step) for step in path), 200)


def printable(text: str, limit: int = 80) -> str:
    """Return ``text`` on one line, escaped where it can't be shown and cut at ``limit`` characters."""
    shown = text if text.isprintable() else text.encode("unicode_escape", "replace").decode("ascii")
    return shown if len(shown) <= limit else shown[: limit - 3] + "..."
