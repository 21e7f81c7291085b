"""schemathesis, from PyPI, in a virtual environment of its own."""

from __future__ import annotations

from pathlib import Path

from tests.peers import environments

# Its checks and its settings file are of this generation.
WANTED = "schemathesis>=4,<5"


def program() -> Path:
    """Return its command, installed if it isn't there."""
    return environments.interpreter("schemathesis", [WANTED]).with_name("schemathesis")
