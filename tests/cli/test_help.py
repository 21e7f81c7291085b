"""The help of commands: complete, in one order, with an example that can be typed."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from configdb_sync.cli.help import HelpfulCommand
from configdb_sync.cli.main import COMMANDS, cli
from configdb_sync.cli.options import SETTINGS
from configdb_sync.configdb.model import OVERRIDES, VALUES
from configdb_sync.settings import READERS
from configdb_sync.sync.run_options import Stage
from configdb_sync.tenants.status_drivers import DEFAULT

HEADINGS = ["What", "Options", "Run", "ConfigDB", "State and database", "Nailgun", "MCollective", "General", "Example"]
LONGEST_SHORT_HELP = 60


def each(group: click.Group = cli, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield every command and group with its path."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from each(command, (*path, name))


ALL = dict(each())
LEAVES = {path: command for path, command in ALL.items() if not isinstance(command, click.Group)}


def help_of(*path: str) -> str:
    result = CliRunner().invoke(cli, [*path, "--help"], prog_name="configdb-sync")
    assert result.exit_code == 0
    return result.output


def first_line(command: click.Command) -> str:
    return (command.help or "").splitlines()[0]


def test_the_main_help_says_what_each_commands_own_help_says() -> None:
    texts = {name: text for commands in COMMANDS.values() for name, (_, text) in commands.items()}
    assert texts == {path[0]: first_line(command) for path, command in ALL.items() if len(path) == 1}


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_short_help_is_a_whole_sentence(path: tuple[str, ...]) -> None:
    text = first_line(ALL[path])
    assert len(text) <= LONGEST_SHORT_HELP
    assert text.endswith(".")
    assert text[0].isupper()
    assert text in help_of(*path[:-1])


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_headings_are_in_order(path: tuple[str, ...]) -> None:
    found = [line.rstrip(":") for line in help_of(*path).splitlines() if line.endswith(":") and line[0].isalpha()]
    assert found == [heading for heading in HEADINGS if heading in found]
    assert found[-1] == "Example"
    assert "General" in found


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_example_is_a_command_line(path: tuple[str, ...]) -> None:
    command = LEAVES[path]
    assert isinstance(command, HelpfulCommand)
    name, *words = shlex.split(command.example)
    assert name == "configdb-sync"
    assert tuple(words[: len(path)]) == path
    # Parsed as from a shell: unknown options, missing ones and wrong values are errors.
    command.make_context(path[-1], words[len(path) :])
    assert command.example in help_of(*path)


@pytest.mark.parametrize("path", LEAVES, ids=" ".join)
def test_every_option_has_a_text(path: tuple[str, ...]) -> None:
    options = [one for one in LEAVES[path].params if isinstance(one, click.Option)]
    assert [one.opts for one in options if not one.help] == []


def test_every_setting_has_an_option() -> None:
    assert SETTINGS.keys() == READERS.keys()
    assert SETTINGS["mco_timeout"].default_text == "60"
    assert SETTINGS["levels"].default_text == "nodes=%{uid}"
    assert SETTINGS["configdb_insecure"].default_text is None


def test_values_that_stand_in_the_help_are_the_real_ones() -> None:
    (stage,) = [one for one in LEAVES["sync",].params if one.name == "stage"]
    assert isinstance(stage.type, click.Choice)
    assert list(stage.type.choices) == [one.value for one in Stage]
    (drivers,) = [one for one in LEAVES["tenants", "serve"].params if one.name == "drivers"]
    assert drivers.default == ",".join(DEFAULT)
    kinds = {one.flag_value for one in LEAVES["get",].params if isinstance(one, click.Option) and one.name == "kind"}
    assert kinds == {OVERRIDES, VALUES}


@pytest.mark.parametrize(
    ("words", "suggested"),
    [
        (["snyc"], "Did you mean 'sync'?"),
        (["rm_override"], "Did you mean 'rm-override'?"),
        (["tenants", "creat"], "Did you mean 'create'?"),
        (["plan", "--evn", "1"], "--env"),
        (["xyzzy"], "No such command 'xyzzy'."),
    ],
)
def test_a_misspelt_word_gets_a_suggestion(words: list[str], suggested: str) -> None:
    result = CliRunner().invoke(cli, words)
    assert result.exit_code == 2
    assert suggested in result.output
