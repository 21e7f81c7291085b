"""The command starts without what it doesn't need (``docs/operations.md``, Commands)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from configdb_sync.cli.main import LazyGroup, cli
from configdb_sync.exits import Exit
from tests.support.product import Product

HEAVY = ("alembic", "gunicorn", "keystoneauth1", "mako", "requests", "rich", "sqlalchemy", "stomp", "werkzeug", "yaml")

NEVER = (
    *("alembic", "mako", "requests", "keystoneauth1", "gunicorn", "rich", "jinja2", "stomp", "psycopg"),
    *("sqlalchemy.dialects.postgresql", "sqlalchemy.orm"),
    *(f"configdb_sync.{room}" for room in ("tenants", "status_page", "mcollective", "nailgun", "backup")),
)
"""What a command on single values needs none of."""
ON_VALUES = (
    ("get", "--level", "nodes=1", "--resource", "globals", "--key", "debug"),
    ("override", "--level", "nodes=1", "--resource", "globals", "--key", "debug", "--type", "bool", "--value", "true"),
    ("lookup", "--node", "1", "debug"),
)


def loaded(*arguments: str) -> set[str]:
    return {name.partition(".")[0] for name in modules(*arguments)}


def modules(*arguments: str) -> set[str]:
    code = (
        "import sys\nfrom configdb_sync.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [("--version",), ("--help",), ("nonsense",)])
def test_what_needs_no_command_loads_none(arguments: tuple[str, ...]) -> None:
    assert not loaded(*arguments) & set(HEAVY)


def test_no_help_loads_more_than_the_settings_reader() -> None:
    code = (
        "import sys\nfrom configdb_sync.cli.main import main\n"
        "for words in sys.argv[1:]:\n"
        "    try:\n        main([*words.split(), '--help'])\n    except SystemExit:\n        pass\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-c", code, *(" ".join(words) for words in words_of(cli))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = {name.partition(".")[0] for name in done.stderr.split()}
    assert "configdb_sync.cli.queries" in done.stderr.split()
    assert not found & (set(HEAVY) - {"yaml"})


def words_of(group: click.Group, *before: str) -> Iterator[tuple[str, ...]]:
    """The words of each command below a group, subcommands included."""
    found = group.all_commands() if isinstance(group, LazyGroup) else group.commands
    for name, one in found.items():
        yield (*before, name)
        if isinstance(one, click.Group):
            yield from words_of(one, *before, name)


def test_every_command_is_where_it_is_said_to_be() -> None:
    assert all(command.name == name for name, command in cli.all_commands().items())


@pytest.fixture
def state(product: Product, tmp_path: Path) -> Path:
    """The state of a product that has run once."""
    node = tmp_path / "trees/node-1/etc/hiera"
    node.mkdir(parents=True)
    (node / "astute.yaml").write_text("uid: 1\nfqdn: n.example.com\ndeployment_id: 5\nrole: compute\n")
    (node / "globals.yaml").write_text("debug: false\n")
    assert product("sync", "--env", 5, "--from", tmp_path / "trees").code == Exit.OK
    return product.state


def test_a_command_on_single_values_loads_nothing_else(state: Path) -> None:
    for arguments in ON_VALUES:
        found = modules(*arguments, "--env", "5", "--state", str(state))
        assert "sqlalchemy.dialects.sqlite" in found  # it did its work
        wrong = {name for name in found for never in NEVER if name == never or name.startswith(f"{never}.")}
        assert not wrong, arguments
