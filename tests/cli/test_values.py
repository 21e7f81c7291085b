"""get, set, del, override, rm-override on an embedded ConfigDB (U16)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from configdb_sync.errors import MissingError, ProductError, SettingsError
from tests.cli.support import ENV, Run


def test_get_prints_what_the_node_gets(run: Run) -> None:
    assert json.loads(run("get").stdout) == {
        "debug": False,
        "region": "é",
        "block": {"x": 1, "y": [1, 2]},
        "admin": {"password": "p"},
    }
    assert json.loads(run("get", node=None).stdout) == {"debug": True, "region": "é"}
    assert run("get", "--key", "region").stdout == "é\n"
    assert run("get", "--key", "block.y.1").stdout == "2\n"
    assert yaml.safe_load(run("get", "-k", "block", "--format", "yaml").stdout) == {"x": 1, "y": [1, 2]}
    assert run("get", "--key", "region", "-f", "json").stdout == '"é"\n'


def test_get_shows_the_level_and_the_raw_documents(run: Run) -> None:
    assert run("get", "--show-lookup", "--key", "region").stdout == '/\tregion\t"é"\n'
    assert json.loads(run("get", "-s", "-f", "json").stdout)["debug"] == [False, "/nodes/46/"]
    assert json.loads(run("get", "--values", node=None).stdout) == {"debug": True, "region": "é"}
    assert json.loads(run("get", "--overrides").stdout) == {}
    with pytest.raises(SettingsError, match="--show-lookup"):
        run("get", "-s", "--values")


def test_what_is_missing_is_named_with_what_there_is(run: Run) -> None:
    with pytest.raises(SettingsError, match=r"no key nothing \(the keys there: admin, block, debug, region\)"):
        run("get", "--key", "nothing")
    with pytest.raises(MissingError, match=r"no data source nope \(it has globals, override/plugins\)"):
        run("get", source="nope")
    with pytest.raises(MissingError, match=r"environment 8 isn't in ConfigDB \S*[^: ] \(see --env"):
        run("get", "--env", "8")
    with pytest.raises(SettingsError, match="its levels, outermost first: nodes"):
        run("get", "--level", "role=x", node=None)
    with pytest.raises(SettingsError, match="give its id"):
        run("get", node="node-46.domain.tld")


@pytest.mark.parametrize("text", ['"\\ud800"', '"\\u0000"', '{"a\\udcff": 1}', '[["\\u0000"]]'])
def test_what_no_file_can_hold_is_refused_when_it_is_given(run: Run, text: str) -> None:
    for command in ("set", "override"):
        with pytest.raises(SettingsError, match="no file can hold it"):
            run(command, "--key", "new", "--type", "json", "--value", text)
        with pytest.raises(SettingsError, match="no file can hold it"):
            run(command, "--key", '["a", "\\ud800"]', "--type", "int", "--value", "1")
    assert json.loads(run("get", "--overrides").stdout) == {}


def test_an_override_of_a_key_and_back(run: Run) -> None:
    result = run("override", "--key", "debug", "--value", "true", "--type", "bool")
    assert result.stdout == (
        "globals at /nodes/46/, environment 7: overridden: debug. The nodes get it at the next `configdb-sync sync`.\n"
    )
    assert run("get", "--key", "debug").stdout == "true\n"
    assert json.loads(run("get", "--values", "--key", "debug").stdout) is False
    again = run("override", "--key", "debug", "--value", "true", "--type", "bool")
    assert "nothing to do" in again.stdout
    assert "no longer overridden: debug" in run("rm-override", "--key", "debug").stdout
    assert run("get", "--key", "debug").stdout == "false\n"
    with pytest.raises(
        SettingsError, match=r"debug isn't overridden \(nothing is overridden there; `configdb-sync overrides` lists"
    ):
        run("rm-override", "--key", "debug")


def test_an_override_below_a_key_pins_the_block_and_says_so(run: Run) -> None:
    result = run("override", "--key", "block.x", "--value", "9", "--type", "int")
    assert "overridden: block. " in result.stdout
    assert "The whole block 'block' keeps" in result.stdout
    assert json.loads(run("get", "--overrides").stdout) == {"block": {"x": 9, "y": [1, 2]}}
    run("override", "--key", '["block","z.z"]', "--type", "null")
    assert json.loads(run("get", "--overrides").stdout) == {"block": {"x": 9, "y": [1, 2], "z.z": None}}
    run("rm-override", "--key", '["block","z.z"]')
    run("rm-override", "--key", "block.x")
    assert json.loads(run("get", "--overrides").stdout) == {}


def test_all_overrides_go_only_when_asked(run: Run) -> None:
    run("override", "--type", "yaml", "--value-file", "-", stdin="debug: 1\nnew: {a: b}\n")
    assert json.loads(run("get", "--overrides").stdout) == {"debug": 1, "new": {"a": "b"}}
    with pytest.raises(SettingsError, match="give either --key or --all-keys"):
        run("rm-override")
    with pytest.raises(SettingsError, match="give either --key or --all-keys"):
        run("rm-override", "--key", "new", "--yes")
    assert "no longer overridden: debug, new" in run("rm-override", "--all-keys").stdout
    with pytest.raises(SettingsError, match="nothing is overridden"):
        run("rm-override", "--yes")


def test_set_at_a_node_points_to_override(run: Run) -> None:
    result = run("set", "--key", "block.x", "--value", "5", "--type", "int")
    assert "set: block.x" in result.stdout
    assert "configdb-sync override" in result.stderr
    assert json.loads(run("get", "--values", "--key", "block").stdout) == {"x": 5, "y": [1, 2]}
    at_root = run("set", "--key", "new.deep", "--value", "v", "--type", "str", node=None)
    assert at_root.stderr == ""
    assert json.loads(run("get", "--values", node=None).stdout) == {"debug": True, "region": "é", "new": {"deep": "v"}}


def test_an_override_above_the_nodes_says_that_they_hide_it(run: Run) -> None:
    assert "takes precedence" in run("override", "-k", "region", "-v", "x", "-t", "str", node=None).stderr
    assert run("get", "--key", "region").stdout == "x\n"


def test_del(run: Run) -> None:
    assert "deleted: block.y" in run("del", "--key", "block.y").stdout
    assert json.loads(run("get", "--values", "--key", "block").stdout) == {"x": 1}
    with pytest.raises(SettingsError, match=r"no key block\.y"):
        run("del", "--key", "block.y")
    run("del", "--all-keys")
    assert json.loads(run("get", "--values").stdout) == {}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--key", "admin.password", "--value", "CANARY", "--type", "str"],
        ["--value", '{"admin": {"password": "CANARY"}}', "--type", "json"],
        ["--key", "list", "--value", "[{api_key: CANARY}]", "--type", "yaml"],
    ],
)
def test_a_secret_is_not_taken_from_the_command_line(run: Run, arguments: list[str]) -> None:
    """Architecture, Masking: others see a command line."""
    with pytest.raises(SettingsError, match=r"is a secret.*--value-file") as caught:
        run("override", *arguments)
    assert "CANARY" not in str(caught.value)
    assert json.loads(run("get", "--overrides").stdout) == {}


def test_a_secret_comes_from_a_file_or_standard_input_and_is_not_printed(run: Run, tmp_path: Path) -> None:
    result = run("override", "--key", "admin.password", "--type", "str", "--value-file", "-", stdin="CANARY pw\n")
    assert "CANARY" not in result.output
    assert run("get", "--key", "admin.password").stdout == "CANARY pw\n"
    file = tmp_path / "secret"
    file.write_text("CANARY two")
    assert "CANARY" not in run("override", "-k", "admin.password", "-t", "str", "--value-file", str(file)).output
    assert run("get", "--key", "admin.password").stdout == "CANARY two\n"


def test_values_that_are_none(run: Run, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--type null"):
        run("set", "--key", "a", "--value", "1")
    with pytest.raises(SettingsError, match="the value is missing"):
        run("set", "--key", "a", "--type", "int")
    with pytest.raises(SettingsError, match="exclude each other"):
        run("set", "--key", "a", "--type", "int", "--value", "1", "--value-file", "-")
    with pytest.raises(SettingsError, match=r"value file .* can't be read: No such file.*--value-file"):
        run("set", "--key", "a", "--type", "int", "--value-file", str(tmp_path / "none"))
    (tmp_path / "latin").write_bytes(b"\xe9")
    with pytest.raises(SettingsError, match="is not UTF-8"):
        run("set", "--key", "a", "--type", "str", "--value-file", str(tmp_path / "latin"))
    with pytest.raises(SettingsError, match="must be a mapping"):
        run("set", "--type", "int", "--value", "1")


def test_without_a_level_or_a_data_source_get_tells_where_a_key_is(run: Run) -> None:
    run("override", "--new-node", "--new-key", "-k", "debug", "-t", "bool", "-v", "true")
    run("set", "-k", "debug", "-t", "int", "-v", "1", node=None, source="override/plugins")
    run("set", "--new-node", "-k", "debug", "-t", "bool", "-v", "false", node="47")
    globals_ = [
        "globals  debug = true  (values at the root)",
        "globals  debug = false  (values at nodes 46, 47)",
        "globals  debug = true  (overrides at nodes 46)",
    ]
    everywhere = [*globals_, "override/plugins  debug = 1  (values at the root)"]
    env = ("--env", str(ENV), "-k", "debug")
    assert run.bare("get", *env).stdout.splitlines() == everywhere
    assert run.bare("get", *env, "-r", "globals").stdout.splitlines() == globals_
    assert run.bare("get", *env, "--overrides").stdout.splitlines() == globals_[2:]
    # On the way to a level only what that level can read counts.
    at_node = run.bare("get", *env, "--level", "nodes=47").stdout.splitlines()
    assert at_node == [globals_[0], "globals  debug = false  (values at nodes 47)", everywhere[3]]
    found = json.loads(run.bare("get", *env, "-r", "globals", "-f", "json").stdout)["places"]
    assert found[1] == {"data_source": "globals", "level": "/nodes/46/", "kind": "values", "value": False}
    # A level and a data source name one value; / is the root.
    assert run("get", "-k", "debug", "--level", "/", node=None).stdout == "true\n"
    secret = run.bare("get", "--env", str(ENV), "-k", "admin.password").stdout
    assert "globals  admin.password = " in secret
    assert "<masked" in secret


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("-k", "none"), "there is no key none in any data source at any level"),
        (("-k", "none", "-r", "globals"), "there is no key none in globals at any level"),
        (("-k", "block", "--level", "/"), "there is no key block in any data source at that level"),
        ((), "the data source is not named"),
        (("--show-lookup", "-k", "debug"), "the data source is not named"),
        (("-k", "debug", "-r", "none"), "has no data source none"),
    ],
)
def test_a_key_that_is_nowhere(run: Run, arguments: tuple[str, ...], part: str) -> None:
    with pytest.raises(ProductError, match=part):
        run.bare("get", "--env", str(ENV), *arguments)
