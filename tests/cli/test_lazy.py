"""The command starts without what it doesn't need (``docs/operations.md``, Commands)."""

from __future__ import annotations

import subprocess
import sys

import pytest

from configdb_sync.cli.main import cli

EVERY = (
    *(("plan",), ("sync",), ("status",), ("get",), ("override",), ("history",), ("doctor",)),
    *(("services", "apply"), ("configdb", "serve"), ("tenants",), ("tenants", "serve"), ("keystone", "register")),
    ("hiera-backend", "remove"),
    *(("backup",), ("dump",), ("keys", "drop")),
)
HEAVY = ("alembic", "gunicorn", "keystoneauth1", "requests", "rich", "sqlalchemy", "stomp", "werkzeug", "yaml")


def loaded(*arguments: str) -> set[str]:
    code = (
        "import sys\nfrom configdb_sync.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("nonsense",)])
def test_what_needs_no_command_loads_none(arguments: tuple[str, ...]) -> None:
    assert not loaded(*arguments) & set(HEAVY)


@pytest.mark.parametrize("arguments", EVERY, ids=" ".join)
def test_help_loads_only_the_settings_reader(arguments: tuple[str, ...]) -> None:
    assert not loaded(*arguments, "--help") & (set(HEAVY) - {"yaml"})


def test_every_command_is_where_it_is_said_to_be() -> None:
    assert all(command.name == name for name, command in cli.all_commands().items())
