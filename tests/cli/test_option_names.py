"""One name for one thing: an option means the same in all commands, and the same thing has the same option."""

from __future__ import annotations

from collections import defaultdict

import click

from tests.cli.test_help import LEAVES

OPTIONS = [
    (" ".join(path), one) for path, command in LEAVES.items() for one in command.params if isinstance(one, click.Option)
]
KINDS = {
    "--env": {"N", "N[,M]"},  # compare takes two
    "--node": {"LIST", "NAME"},  # lookup takes one
    "--from": {"mcollective|DIR|nailgun", "mcollective|DIR", "DIR"},  # where nodes are read, as far as the command can
    "--since": {"DURATION", "TIME"},  # of runs how long ago, of the audit from when
    "-f": {"choice", "FILE"},  # of clients of OpenStack a format, of `apply` a file, as other tools have it
}
"""Options that take different things, with why."""
THINGS = {
    "KEY": {"--key"},
    "NAME=VALUE": {"--level"},
    "VERSION": {"--old", "--new", "--to"},
    "DURATION": {"--for", "--expiring", "--interval", "--jitter", "--run-age", "--since"},
    "DIGEST": {"--digest", "--force"},
    "N[,M]": {"--env"},
    "LIST": {"--node", "--data-sources", "--writable", "--failure-policy", "--drivers"},
}
"""What an option takes, and the options that may take it."""


def kind(one: click.Option) -> str:
    return "flag" if one.is_flag else str(one.metavar or one.type.name)


def test_an_option_takes_the_same_in_all_commands() -> None:
    found = defaultdict(set)
    for _, one in OPTIONS:
        for name in one.opts:
            found[name].add(kind(one))
    assert {name: kinds for name, kinds in found.items() if len(kinds) > 1} == KINDS


def test_the_same_thing_has_the_same_option() -> None:
    found = defaultdict(set)
    for _, one in OPTIONS:
        found[kind(one)].add(one.opts[0])
    assert {thing: found[thing] for thing in THINGS} == THINGS


def test_a_short_name_stands_for_one_long_name() -> None:
    found = defaultdict(set)
    for _, one in OPTIONS:
        for name in one.opts:
            if not name.startswith("--"):
                found[name].add(one.opts[0] if one.opts[0].startswith("--") else one.opts[1])
    assert {name: long for name, long in found.items() if len(long) > 1} == {"-f": {"--format", "--file"}}


def test_every_format_has_its_short_name() -> None:
    lacking = [path for path, one in OPTIONS if "--format" in one.opts and "-f" not in one.opts]
    assert lacking == ["overrides apply"]
