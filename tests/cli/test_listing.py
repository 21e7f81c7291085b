"""U16: lists as tables, CSV, JSON and YAML, with chosen columns; what is in a cell is safe and exact."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.cli import listing
from configdb_sync.cli.listing import ListOutput, csv_text, list_options, table_text
from configdb_sync.configdb import typed
from configdb_sync.jsonvalues import loads
from tests.cli.test_help import LEAVES
from tests.cli.test_outputs import choices

ENTRIES = [
    {"node": "1", "key": ["a", "b.c"], "value": "=1+1", "run": {"outcome": "OK"}, "nodes": ["1", "2"]},
    {"node": "2", "key": ["x"], "value": -5, "run": None, "nodes": [], "more": {"z": True}},
]


@click.command()
@list_options("keys", "node", "key", "value", "run.outcome", "nodes", "more")
def shown(output: ListOutput) -> None:
    if output.is_own:
        click.echo("text")
    else:
        output.show(ENTRIES, {"environment": 5})


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(shown, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_a_table_is_as_wide_as_its_content_if_nobody_looks() -> None:
    assert run("--format", "table").stdout == (
        "node  key           value  run.outcome  nodes  more\n"
        '1     ["a", "b.c"]  =1+1   OK           1, 2\n'
        '2     x             -5                         {"z":true}\n'
    )
    (head, line) = table_text(["a"], [["x" * 500]]).splitlines()
    assert (head, line) == ("a", "x" * 500)


def test_a_cell_cannot_break_out_of_its_row() -> None:
    assert (
        table_text(["a", "b"], [["x\ny\x1b[31m[bold]", None]])
        == "a                         b\nx\\u000ay\\u001b[31m[bold]\n"
    )


def test_csv_is_exact_and_has_no_formula() -> None:
    assert run("--format", "csv").stdout.splitlines() == [
        '"node","key","value","run.outcome","nodes","more"',
        '"1","[""a"", ""b.c""]","\'=1+1","OK","[""1"",""2""]",""',
        '"2","x",-5,"","[]","{""z"":true}"',
    ]


def test_chosen_columns_are_shown_in_their_order_in_each_form() -> None:
    chosen = ("-c", "value", "-c", "run.outcome", "-f")
    assert run(*chosen, "csv").stdout == '"value","run.outcome"\n"\'=1+1","OK"\n-5,""\n'
    assert run(*chosen, "table").stdout == run(*chosen, "text").stdout
    expected = {"version": 1, "environment": 5, "keys": [{"value": "=1+1", "run.outcome": "OK"}, {"value": -5}]}
    assert loads(run(*chosen, "json").stdout) == typed.load_yaml(run(*chosen, "yaml").stdout) == expected
    assert loads(run("-f", "json").stdout)["keys"] == ENTRIES
    assert run().stdout == "text\n"


def test_an_unknown_column_is_refused_with_those_that_there_are() -> None:
    result = CliRunner().invoke(shown, ["-c", "nodee"])
    assert result.exit_code == 2
    assert "'nodee' is not one of 'node', 'key', 'value'" in result.output


texts = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["=1", "+1", "-1", "@a", "\t=", "\r\n", "'='"]
)
values = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts


@given(st.lists(st.tuples(values, texts), max_size=5))
def test_what_csv_holds_reads_back(rows: list[tuple[Any, str]]) -> None:
    found = list(csv.reader(io.StringIO(csv_text(["a", "b"], rows), newline="")))
    assert found[0] == ["a", "b"]
    for row, (value, text) in zip(found[1:], rows, strict=True):
        assert row[1].removeprefix("'") == text if text.startswith(listing._FORMULA) else row[1] == text
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            assert type(value)(row[0]) == value
        else:
            assert row[0][:1] not in tuple("=+-@\t\r\n")


LISTING = [path for path, command in LEAVES.items() if "csv" in choices(command)]


def test_every_list_can_be_a_table() -> None:
    """A command that prints a list as JSON and not as CSV is named here, with why."""
    others = {path for path, command in LEAVES.items() if "json" in choices(command)} - {*LISTING}
    assert others == {
        *(("plan",), ("sync",), ("gc",), ("doctor",), ("hiera-backend", "remove"), ("overrides", "apply")),  # reports
        *(("get",), ("lookup",), ("tenants", "show")),  # one thing
    }


@pytest.mark.parametrize("path", LISTING, ids=" ".join)
def test_the_formats_of_a_list_have_one_name(path: tuple[str, ...], tmp_path: Path) -> None:
    assert choices(LEAVES[path])[0] == "text"
    assert {"table", "json", "yaml", "csv"} <= {*choices(LEAVES[path])}
