"""Writes the man page configdb-sync(1) and the completion for bash, both made from the commands themselves."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from configdb_sync import __version__
from configdb_sync.cli.completion import ConfigDBSyncBash
from configdb_sync.cli.help import GENERAL, HeadedOption, HelpfulCommand
from configdb_sync.cli.main import COMMANDS, VARIABLE, cli
from configdb_sync.exits import Exit

ROOT = Path(__file__).resolve().parents[2]
NAME = "configdb-sync"
MAN = Path("man/man1/configdb-sync.1")
COMPLETION = Path("bash-completion/completions/configdb-sync")
"""Where they lie below /usr/share."""
_SETTINGS = ("Run", "ConfigDB", "State and database", "Nailgun", "MCollective", GENERAL)
_FILES = {
    "/etc/configdb-sync/settings.yaml": "the settings, mode 0600; --settings or CONFIGDB_SYNC_SETTINGS name another",
    "/var/lib/configdb-sync": "root's state folder: databases, tokens, keys, locks; mode 0700",
    "~/.local/state/configdb-sync": "that of other users",
}
_VARIABLES = {
    "CONFIGDB_SYNC_<NAME>": "the setting of that name, such as CONFIGDB_SYNC_STATE",
    "OS_*": "the login to Keystone, as OpenStack's clients have it",
    "NO_COLOR": "any value: no colours",
}


def escaped(text: str) -> str:
    """Return a text as troff shows it: each line by itself, nothing in it a request."""
    shown = (
        text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga").replace("^", "\\(ha")
    )
    return "\n".join(f"\\&{line}" if line.startswith(".") else line for line in shown.replace("~", "\\(ti").split("\n"))


def page() -> str:
    """Return the man page."""
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield f'.TH {NAME.upper()} 1 "" "{NAME} {__version__}" "User Commands"'
    about = _first(cli).rstrip(".")
    yield from (".SH NAME", f"{NAME} \\- {escaped(about[0].lower() + about[1:])}")
    yield from (".SH SYNOPSIS", f".B {escaped(NAME)}", "[\\fIOPTIONS\\fR] \\fICOMMAND\\fR [\\fIARGUMENTS\\fR]")
    yield ".SH DESCRIPTION"
    for heading, commands in COMMANDS.items():
        yield f".SS {escaped(heading)}"
        for name, (_, text) in commands.items():
            yield from _item(name, text)
    yield ".SH OPTIONS OF ALL COMMANDS"
    yield from _options(cli, [one for one in cli.get_params(click.Context(cli)) if isinstance(one, click.Option)])
    settings: dict[str, dict[str, click.Option]] = {heading: {} for heading in _SETTINGS}
    yield ".SH COMMANDS"
    for name, command in cli.all_commands().items():
        yield from _command((name,), command, settings)
    yield ".SH SETTINGS"
    yield escaped("Each is also a line of the settings file and a variable. Not every command has each of them.")
    for heading, options in settings.items():
        yield f".SS {escaped(heading)}"
        yield from _options(cli, [*options.values()])
    for heading, items in (("ENVIRONMENT", _VARIABLES), ("FILES", _FILES)):
        yield f".SH {heading}"
        for name, text in items.items():
            yield from _item(name, text)
    yield from (".SH EXIT STATUS", escaped("docs/operations.md says what to do for each."))
    for code in Exit:
        yield from _item(str(int(code)), code.name)


def _command(
    path: tuple[str, ...], command: click.Command, settings: dict[str, dict[str, click.Option]]
) -> Iterator[str]:
    context = click.Context(command, info_name=" ".join((NAME, *path)))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            assert found is not None
            yield from _command((*path, name), found, settings)
        return
    yield f".SS {escaped(' '.join(path))}"
    yield from (f".B {escaped(' '.join((NAME, *path)))}", escaped(" ".join(command.collect_usage_pieces(context))))
    for part in (command.help or "").split("\n\n"):
        yield from (".PP", escaped(" ".join(part.split())))
    own = []
    for one in command.params:
        if not isinstance(one, click.Option) or not one.expose_value:
            continue  # those of all commands
        if isinstance(one, HeadedOption) and one.heading in settings:
            settings[one.heading].setdefault(one.opts[0], one)
        else:
            own.append(one)
    yield from _options(command, own)
    if isinstance(command, HelpfulCommand):
        yield from (".PP", "Example:", ".PP", ".nf", escaped(command.example), ".fi")


def _options(command: click.Command, options: Sequence[click.Option]) -> Iterator[str]:
    context = click.Context(command)
    for one in options:
        record = one.get_help_record(context)
        if record is not None:
            yield from _item(*record)


def _item(name: str, text: str) -> Iterator[str]:
    yield from (".TP", f"\\fB{escaped(name)}\\fR", escaped(" ".join(text.split())))


def _first(command: click.Command) -> str:
    return (command.help or "").splitlines()[0]


def write(folder: Path) -> None:
    """Write both files below ``folder``, which stands for /usr/share."""
    completion = ConfigDBSyncBash(cli, {}, NAME, VARIABLE).source()
    for path, text in ((MAN, page()), (COMPLETION, completion)):
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist/share"
    write(folder)
    print(f"{folder / MAN}\n{folder / COMPLETION}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
