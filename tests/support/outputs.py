"""What commands print for programs, checked against the schema that ships with them."""

from __future__ import annotations

import functools
import itertools
import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

import click
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from configdb_sync.cli.main import cli

SCHEMA: dict[str, Any] = json.loads(
    resources.files("configdb_sync.cli").joinpath("outputs.schema.json").read_text("utf-8")
)
LONGEST = 500_000
"""Longer outputs, those of a thousand nodes, are checked by none: it takes longer than making them."""


def command_of(arguments: Sequence[str]) -> str:
    """Return the name of the command that arguments call, as the schema has it."""
    command: click.Command | None = cli
    words: list[str] = []
    for word in arguments:
        if not isinstance(command, click.Group):
            break
        found = command.get_command(click.Context(command), word)
        if found is None:
            break
        command = found
        words.append(word)
    if words == ["overrides"]:
        words.append("list")
    if words == ["lookup"] and "--explain" in arguments:
        words.append("--explain")
    return " ".join(words)


@functools.cache
def validator(name: str) -> Draft202012Validator:
    """Return what checks the output of a command."""
    assert name in SCHEMA["$defs"], f"{name} prints JSON that outputs.schema.json does not describe"
    return Draft202012Validator(SCHEMA | {"$ref": f"#/$defs/{name.replace(' ', '%20')}"})


def check(arguments: Sequence[str], text: str) -> None:
    """Fail if a command printed JSON that isn't as the schema says. Other outputs pass."""
    asked = any(pair in {("--format", "json"), ("-f", "json")} for pair in itertools.pairwise(arguments))
    if asked and text and len(text) < LONGEST and not {"--column", "-c", "--stage"} & {*arguments}:
        validator(command_of(arguments)).validate(json.loads(text))
