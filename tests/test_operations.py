"""``docs/operations.md`` is complete and true: exit codes, settings, commands."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from pathlib import Path

from configdb_sync.cli.main import cli
from configdb_sync.exits import Exit
from configdb_sync.settings import ENVIRON_PREFIX, READERS, Settings

ROOT = Path(__file__).resolve().parents[1]
TEXT = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
DOCUMENTS = "\n".join(path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])


def rows(heading: str) -> list[list[str]]:
    section = re.split(r"^###? ", TEXT.split(f"\n## {heading}\n")[1], flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines]


def test_every_exit_code_is_in_the_table() -> None:
    assert [(int(code), name) for code, name, *_ in rows("Exit codes")] == [(code.value, code.name) for code in Exit]


def test_codes_that_nothing_gives_yet_are_marked() -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "configdb_sync").rglob("*.py"))
    for _, name, happened, _ in rows("Exit codes"):
        assert (f"Exit.{name}" in source) is ("not used yet" not in happened), name


def test_every_setting_is_in_the_table_with_its_names() -> None:
    listed = {name: (flag, variable) for name, flag, variable, *_ in rows("Settings")}
    assert listed == {name: (f"--{name.replace('_', '-')}", f"{ENVIRON_PREFIX}{name.upper()}") for name in READERS}


def test_defaults_are_as_the_table_says() -> None:
    listed = {name: default for name, _, _, default, *_ in rows("Settings")}
    for field in fields(Settings):
        if field.name in READERS and field.default not in {None, MISSING, ()} and field.name != "levels":
            said = READERS[field.name](listed[field.name])
            assert said == field.default, field.name
    assert READERS["levels"](listed["levels"]) == Settings().levels


def test_every_flag_of_the_table_exists() -> None:
    known = {option for command in cli.all_commands().values() for each in command.params for option in each.opts}
    assert {flag for _, flag, *_ in rows("Settings")} <= known


def test_every_command_is_in_the_list_of_commands() -> None:
    rows = "\n".join(line.split("|")[1] for line in TEXT.splitlines() if line.startswith("| `configdb-sync "))
    assert [name for name in cli.all_commands() if f"`configdb-sync {name.split()[0]}" not in rows] == []


def test_every_command_is_in_some_document() -> None:
    assert [name for name in cli.all_commands() if f"configdb-sync {name}" not in DOCUMENTS] == []
