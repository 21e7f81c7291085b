"""U16, U20: what commands print for programs has a version and a schema, and is as the schema says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from configdb_sync.exits import Exit
from configdb_sync.jsonvalues import OUTPUT_VERSION
from tests.cli.test_help import LEAVES
from tests.support import outputs
from tests.support.product import MEANT, Product, make_product
from tests.support.trees import make_trees

VALUES = {"get", "lookup"}
"""Commands that print a value of any type, which is no form of ours."""


def choices(command: click.Command) -> tuple[str, ...]:
    found = [one.type for one in command.params if "--format" in one.opts]
    return tuple(found[0].choices) if found and isinstance(found[0], click.Choice) else ()


PRINTING = {" ".join(path) for path, command in LEAVES.items() if "json" in choices(command)}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two nodes with a run and an override behind them, which two tenants own."""
    folder = tmp_path_factory.mktemp("outputs")
    make_trees(folder / "trees", "1", "2")
    with pytest.MonkeyPatch.context() as patch:
        product = make_product(folder / "state", patch)
        place = ("--env", 5, "-r", "globals", "--level", "nodes=1", "-k", "use_syslog", "-t", "bool", "-v", "false")
        for command in (
            ("sync", "--env", 5, "--from", folder / "trees"),
            ("override", *MEANT, *place, "--reason", "why", "--for", "8h"),
            ("tenants", "create", "acme"),
        ):
            assert product(*command).code == Exit.OK
        yield product


def commands(folder: Path) -> dict[str, tuple[object, ...]]:
    run = ("--env", 5, "--from", folder / "trees")
    document = ("--env", 5, "-r", "globals", "--level", "nodes=1")
    return {
        "plan": run,
        "sync": run,
        "watch": ("--last",),
        "status": (),
        "runs": (),
        "gc": run,
        "lookup": ("use_syslog", "--env", 5, "--node", 1),
        "lookup --explain": ("use_syslog", "--env", 5, "--node", 1),
        "find": ("use_syslog", "--env", 5),
        "compare": ("--env", 5, "--key", "use_syslog"),
        "get": document,
        "overrides list": ("--env", 5),
        "overrides apply": ("--file", folder / "overrides.yaml"),
        "history": document,
        "diff": document,
        "doctor": (),
        "hiera-backend remove": ("--env", 5, "--from", folder / "trees", "--dry-run"),
        "tenants list": (),
        "tenants show": ("admin",),
        "tenants audit": (),
    }


ELSEWHERE = {"ping", "tenants usage"}
"""Commands that need more than this: their own tests check what they print."""


def test_every_command_that_prints_json_has_a_schema() -> None:
    Draft202012Validator.check_schema(outputs.SCHEMA)
    assert PRINTING - outputs.SCHEMA["$defs"].keys() == set()
    assert PRINTING | {"lookup --explain"} == commands(Path()).keys() | ELSEWHERE


@pytest.mark.parametrize("name", commands(Path()))
def test_a_real_output_is_as_the_schema_says(filled: Product, name: str) -> None:
    folder = filled.state.parent
    (folder / "overrides.yaml").write_text(
        "{version: 1, environment: 5, overrides: [{data_source: globals, key: use_syslog, value: false}]}"
    )
    done = filled(*name.split(), *commands(folder)[name], "--format", "json")
    assert done.code == Exit.OK, done.err
    assert name in VALUES or done.json["version"] == OUTPUT_VERSION
    # It was checked already; that it is what the schema describes, and not anything, shows with one field less or more.
    for wrong in ({**json.loads(done.out), "more": 1}, {}) if name not in VALUES else ():
        assert not outputs.validator(name).is_valid(wrong)


def test_one_run_and_the_parts_of_a_tenant_are_as_the_schema_says(filled: Product) -> None:
    assert filled("runs", "last", "--format", "json").json["report"]["version"] == OUTPUT_VERSION
    for more in (("--env", 5), ("--env", 5, "-r", "globals")):
        assert filled("tenants", "show", "admin", *more, "--format", "json").code == Exit.OK


def test_yaml_has_the_same_fields(filled: Product) -> None:
    from configdb_sync.configdb import typed

    for name in ("history", "overrides list"):
        asked = (*name.split(), *commands(filled.state.parent)[name])
        assert typed.load_yaml(filled(*asked, "-f", "yaml").out) == filled(*asked, "-f", "json").json
