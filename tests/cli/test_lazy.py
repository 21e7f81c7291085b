"""The command starts without what it doesn't need (``docs/operations.md``, Commands)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from configdb_sync.cli.main import cli

HEAVY = ("alembic", "gunicorn", "keystoneauth1", "requests", "rich", "sqlalchemy", "stomp", "werkzeug", "yaml")


def loaded(*arguments: str) -> set[str]:
    code = (
        "import sys\nfrom configdb_sync.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize("arguments", [("--version",), ("nonsense",)])
def test_what_needs_no_command_loads_none(arguments: tuple[str, ...]) -> None:
    assert not loaded(*arguments) & set(HEAVY)


def test_a_command_loads_no_other() -> None:
    assert not loaded("get", "--help") & {"alembic", "gunicorn", "keystoneauth1", "stomp"}


def test_every_command_is_where_it_is_said_to_be() -> None:
    assert all(command.name == name for name, command in cli.all_commands().items())
