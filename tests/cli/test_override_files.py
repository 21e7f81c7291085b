"""overrides export and apply: overrides as a file, from the command line (U28)."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import yaml

from configdb_sync.exits import Exit
from configdb_sync.failpoints import VARIABLE
from configdb_sync.http.transport import HttpAnswer, HttpRequest
from tests.support import processes
from tests.support.product import CHANGING, MEANT, Product, Result

CLOUD = Path(__file__).resolve().parents[2] / "examples/small-cloud"
ENV = ("--env", 1)

FILE = """
version: 1
name: tuning
environment: 1
overrides:
  - {level: nodes=2, data_source: globals, key: debug, value: true, reason: "bug 12"}
  - {level: nodes=2, data_source: globals, key: cinder_rate_limits.POST, value: "5"}
  - {level: nodes=3, data_source: globals, key: max_pool_size, value: 40}
  - {data_source: globals, key: new_secret, value: {env: NEW_SECRET}}
"""


@pytest.fixture
def cloud(product: Product, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Product:
    shutil.copytree(CLOUD, tmp_path / "cloud")
    assert product("sync", *ENV, "--from", tmp_path / "cloud").code == Exit.OK
    monkeypatch.setenv("NEW_SECRET", "CANARY")
    product.changing()
    return product


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "overrides.yaml"
    path.write_text(FILE)
    return path


def overridden(product: Product, node: int | None, key: str) -> Result:
    level = ("--level", f"nodes={node}") if node else ()
    return product("get", *ENV, *level, "--data-source", "globals", "--key", key, "--overrides", "-f", "json")


def test_a_file_is_carried_out_once(cloud: Product, file: Path) -> None:
    done = cloud("overrides", "apply", *MEANT, "--file", file, "--exit-code")
    assert done.code == Exit.DRIFT, done.err
    lines = done.out.splitlines()
    assert lines[0] == "tuning, environment 1: 4 overrides, 4 changes to make"
    assert "    + debug: false -> true" in lines
    assert '    + cinder_rate_limits.POST: "100000" -> "5"' in lines
    assert "CANARY" not in done.out + done.err
    assert len([request for request in cloud.changing() if "overrides" in request.path]) == 3
    assert overridden(cloud, 2, "cinder_rate_limits").json == {"POST": "5", "PUT": "100000", "GET": "100000"}
    assert overridden(cloud, None, "new_secret").json == "CANARY"
    assert "bug 12" in cloud("overrides", *ENV).out
    again = cloud("overrides", "apply", *MEANT, "--file", file, "--exit-code")
    assert (again.code, again.out) == (Exit.OK, "tuning, environment 1: 4 overrides, 0 changes to make\n")
    assert cloud.changing() == []


def test_a_dry_run_writes_nothing(cloud: Product, file: Path) -> None:
    done = cloud("overrides", "apply", *MEANT, "-f", file, "--dry-run", "--exit-code", "--format", "json")
    assert done.code == Exit.DRIFT
    assert cloud.changing() == []
    assert done.json["dry_run"] is True
    assert done.json["documents"][0] == {
        "level": "/nodes/2/",
        "data_source": "globals",
        "keys": [
            {"action": "set", "key": ["debug"], "before": False, "after": True},
            {"action": "set", "key": ["cinder_rate_limits", "POST"], "before": "100000", "after": "5"},
        ],
    }
    assert "CANARY" not in done.out


def test_what_is_exported_has_nothing_to_apply(cloud: Product, file: Path, tmp_path: Path) -> None:
    cloud("overrides", "apply", *MEANT, "-f", file)
    out = tmp_path / "cloud-1.yaml"
    done = cloud("overrides", "export", *ENV, "-o", out)
    assert done.code == Exit.OK, done.err
    assert "OVERRIDE_GLOBALS_NEW_SECRET" in done.err
    found = yaml.safe_load(out.read_text())
    assert [(one["level"], one["key"]) for one in found["overrides"]] == [
        ("/", "new_secret"),
        ("nodes=2", "cinder_rate_limits.POST"),
        ("nodes=2", "debug"),
        ("nodes=3", "max_pool_size"),
    ]
    assert "CANARY" not in out.read_text()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OVERRIDE_GLOBALS_NEW_SECRET", "CANARY")
        assert "0 changes" in cloud("overrides", "apply", *MEANT, "-f", out).out
    clear = cloud("overrides", "export", *ENV, "--with-secrets")
    assert "value: CANARY" in clear.out
    assert "0 changes" in cloud("overrides", "apply", *MEANT, "-f", "-", stdin=clear.out).out
    assert cloud("overrides", "export", *ENV, "--with-secrets").out == clear.out


def test_a_killed_apply_is_finished_by_the_next(cloud: Product, file: Path) -> None:
    passed: list[str] = []

    def killed(request: HttpRequest) -> HttpAnswer | None:
        if request.method in CHANGING and "overrides" in request.path:
            if passed:
                raise KeyboardInterrupt
            passed.append(request.path)
        return None

    cloud.fault = killed
    assert cloud("overrides", "apply", *MEANT, "-f", file).code == Exit.INTERNAL
    cloud.fault = None
    assert "2 changes" in cloud("overrides", "apply", *MEANT, "-f", file).out
    assert "0 changes" in cloud("overrides", "apply", *MEANT, "-f", file).out


CHANGED = """
version: 1
name: tuning
environment: 1
overrides:
  - {level: nodes=2, data_source: globals, key: debug, value: true, reason: "bug 13", until: 2099-12-31}
  - {level: nodes=2, data_source: globals, key: verbose, value: false}
  - {level: nodes=3, data_source: globals, key: max_pool_size, value: 50}
"""
DOCUMENTS = ((2, ("debug", "cinder_rate_limits", "verbose")), (3, ("max_pool_size",)), (None, ("new_secret",)))


def state_of(product: Product) -> list[Any]:
    """The overrides of each document, and what is noted of each but when."""
    listed = product("overrides", *ENV, "-f", "json").json["overrides"]
    kept = ("key", "value", "author", "reason", "until")
    notes = {one["level"]: [{name: note.get(name) for name in kept} for note in one["notes"]] for one in listed}
    levels = [f"nodes={node}" if node else "/" for node, _ in DOCUMENTS]
    values = [product("get", *ENV, "--level", level, "-r", "globals", "--overrides").json for level in levels]
    return [*values, notes]


@pytest.mark.parametrize("done", range(4))
def test_an_apply_under_sigkill_leaves_no_document_half_done(cloud: Product, file: Path, done: int) -> None:
    """U28: it sets, changes, notes and prunes; killed after so many documents, the next apply does the rest."""
    person = ("override", *ENV, "--level", "nodes=3", "-r", "globals", "-k", "debug", "-t", "bool", "-v", "true")
    apply = ("overrides", "apply", *MEANT, "-f", file, "--prune")
    cloud(*person)
    cloud(*apply)
    before = state_of(cloud)
    file.write_text(CHANGED)
    point = f"override-changed:{done}" if done else "override-noted"
    killed = processes.run(cloud.state, *apply, **{VARIABLE: point})
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    left = state_of(cloud)
    assert cloud(*apply, "--exit-code").code == (Exit.OK if done == len(DOCUMENTS) else Exit.DRIFT)
    after = state_of(cloud)
    for old, found, new in zip(before[:-1], left[:-1], after[:-1], strict=True):
        assert found in (old, new)
    assert sum(found != old for old, found in zip(before[:-1], left[:-1], strict=True)) == done
    assert after[:-1] == [{"debug": True, "verbose": False}, {"debug": True, "max_pool_size": 50}, {}]
    assert cloud(*apply, "--exit-code").code == Exit.OK
    # What a whole apply notes, and no more: an empty file takes all of it away, and nothing of a person's.
    assert [note["reason"] for note in after[-1]["/nodes/2/"]] == ["bug 13", None]
    file.write_text("version: 1\nname: tuning\nenvironment: 1\noverrides: []\n")
    cloud(*apply)
    assert state_of(cloud)[:-1] == [{}, {"debug": True}, {}]


def test_nothing_is_written_if_one_override_is_wrong(cloud: Product, file: Path) -> None:
    wrong = [
        ("level: nodes=3", "level: role=x", "no level path"),
        ("key: max_pool_size", "key: max_pool_size.x", "can't be set"),
        ("data_source: globals, key: max", "data_source: nope, key: max", "no data source"),
    ]
    for old, new, said in wrong:
        file.write_text(FILE.replace(old, new))
        done = cloud("overrides", "apply", *MEANT, "-f", file)
        assert done.code in {Exit.USAGE, Exit.CONFIGDB}
        assert said in done.err
    assert cloud.changing() == []


def test_two_names_of_one_node_are_one(cloud: Product, file: Path) -> None:
    named = FILE.replace("nodes=3,", "nodes=node-2.cloud.example.com,")
    file.write_text(named)
    done = cloud("overrides", "apply", *MEANT, "-f", file)
    assert done.code == Exit.OK, done.err
    assert done.out.count("written") == 2
    file.write_text(named.replace("max_pool_size", "debug"))
    assert "given twice" in cloud("overrides", "apply", *MEANT, "-f", file).err


def test_the_environment_is_named_once(cloud: Product, file: Path) -> None:
    assert "for environment 1, --env is 2" in cloud("overrides", "apply", *MEANT, "-f", file, "--env", 2).err
    file.write_text(FILE.replace("environment: 1\n", ""))
    assert "names no environment" in cloud("overrides", "apply", *MEANT, "-f", file).err
    assert cloud("overrides", "apply", *MEANT, "-f", file, *ENV, "--dry-run").code == Exit.OK


def test_the_runs_own_records_are_no_data_source(cloud: Product, file: Path) -> None:
    file.write_text(FILE.replace("data_source: globals, key: debug", "data_source: records, key: debug"))
    assert "runs' records" in cloud("overrides", "apply", *MEANT, "-f", file).err


def test_a_file_that_cannot_be_read_or_written_is_named(cloud: Product, file: Path, tmp_path: Path) -> None:
    assert "gone.yaml" in cloud("overrides", "apply", *MEANT, "-f", tmp_path / "gone.yaml").err
    assert "can't be written" in cloud("overrides", "export", *ENV, "-o", tmp_path / "no/x.yaml").err
    file.write_text(FILE.replace("{env: NEW_SECRET}", "{file: secret.txt}"))
    assert "secret.txt" in cloud("overrides", "apply", *MEANT, "-f", file).err
    (tmp_path / "secret.txt").touch(mode=0o600)
    (tmp_path / "secret.txt").write_text("CANARY\n")
    assert cloud("overrides", "apply", *MEANT, "-f", file).code == Exit.OK
    assert overridden(cloud, None, "new_secret").json == "CANARY"


def test_the_list_needs_no_command(cloud: Product, file: Path) -> None:
    cloud("overrides", "apply", *MEANT, "-f", file)
    found = cloud("overrides", *ENV, "-f", "json")
    assert len(found.json["overrides"]) == 3
    assert found.out == cloud("overrides", "list", *ENV, "-f", "json").out
    assert "Did you mean 'export'?" in cloud("overrides", "exprt").err


SHORTER = FILE.replace("  - {level: nodes=3, data_source: globals, key: max_pool_size, value: 40}\n", "").replace(
    '  - {level: nodes=2, data_source: globals, key: cinder_rate_limits.POST, value: "5"}\n', ""
)


def test_pruning_removes_what_the_file_set_and_nothing_that_a_person_set(cloud: Product, file: Path) -> None:
    place = ("--level", "nodes=3", "--data-source", "globals")
    cloud("override", *ENV, *place, "--key", "debug", "--type", "bool", "--value", "true")
    cloud("overrides", "apply", *MEANT, "-f", file)
    file.write_text(SHORTER)
    assert "0 changes" in cloud("overrides", "apply", *MEANT, "-f", file).out
    seen = cloud("overrides", "apply", *MEANT, "-f", file, "--prune", "--dry-run", "--exit-code")
    assert seen.code == Exit.DRIFT
    assert "    - max_pool_size: 40 -> 20 (no longer in the file)" in seen.out.splitlines()
    assert '    - cinder_rate_limits.POST: "5" -> "100000" (no longer in the file)' in seen.out.splitlines()
    assert overridden(cloud, 3, "max_pool_size").json == 40
    assert cloud("overrides", "apply", *MEANT, "-f", file, "--prune").code == Exit.OK
    assert overridden(cloud, 3, "max_pool_size").code == Exit.USAGE
    assert overridden(cloud, 3, "debug").json is True
    assert overridden(cloud, 2, "cinder_rate_limits").code == Exit.USAGE
    assert overridden(cloud, 2, "debug").json is True
    assert "0 changes" in cloud("overrides", "apply", *MEANT, "-f", file, "--prune").out


def test_what_a_person_set_or_changed_is_not_pruned(cloud: Product, file: Path) -> None:
    place = ("--level", "nodes=3", "--data-source", "globals", "--key", "max_pool_size", "--type", "int")
    cloud("override", *ENV, *place, "--value", 40)
    cloud("overrides", "apply", *MEANT, "-f", file)
    file.write_text(SHORTER)
    assert "max_pool_size" not in cloud("overrides", "apply", *MEANT, "-f", file, "--prune", "--dry-run").out
    file.write_text(FILE.replace("value: 40", "value: 50"))
    assert "+ max_pool_size: 40 -> 50" in cloud("overrides", "apply", *MEANT, "-f", file).out
    cloud("override", *ENV, *place, "--value", 60)
    file.write_text(SHORTER)
    cloud("overrides", "apply", *MEANT, "-f", file, "--prune")
    assert overridden(cloud, 3, "max_pool_size").json == 60


def test_pruning_is_by_the_files_name(cloud: Product, file: Path) -> None:
    cloud("overrides", "apply", *MEANT, "-f", file)
    file.write_text("version: 1\nname: another\nenvironment: 1\noverrides: []\n")
    assert "0 overrides, 0 changes" in cloud("overrides", "apply", *MEANT, "-f", file, "--prune").out
    file.write_text("version: 1\nname: tuning\nenvironment: 1\noverrides: []\n")
    assert "0 overrides, 4 changes" in cloud("overrides", "apply", *MEANT, "-f", file, "--prune").out
    assert cloud("overrides", *ENV).out == "environment 1 has no overrides.\n"


@pytest.mark.parametrize("step", range(4))
def test_a_killed_pruning_is_finished_by_the_next(cloud: Product, file: Path, step: int) -> None:
    cloud("overrides", "apply", *MEANT, "-f", file)
    file.write_text("version: 1\nname: tuning\nenvironment: 1\noverrides: []\n")
    passed: list[str] = []

    def killed(request: HttpRequest) -> HttpAnswer | None:
        if request.method in CHANGING:
            passed.append(request.path)
            if len(passed) > step:
                raise KeyboardInterrupt
        return None

    cloud.fault = killed
    assert cloud("overrides", "apply", *MEANT, "-f", file, "--prune").code == Exit.INTERNAL
    cloud.fault = None
    assert cloud("overrides", "apply", *MEANT, "-f", file, "--prune").code == Exit.OK
    assert cloud("overrides", *ENV).out == "environment 1 has no overrides.\n"


def test_a_reason_and_an_end_go_with_an_override(cloud: Product, file: Path, tmp_path: Path) -> None:
    file.write_text(FILE.replace('reason: "bug 12"', 'reason: "bug 12", until: 2099-12-31T12:00:00Z'))
    cloud("overrides", "apply", *MEANT, "-f", file)
    found = yaml.safe_load(cloud("overrides", "export", *ENV).out)
    (one,) = [one for one in found["overrides"] if one["key"] == "debug"]
    assert (one["reason"], one["until"]) == ("bug 12", "2099-12-31T12:00:00+00:00")
    out = tmp_path / "out.yaml"
    out.write_text(cloud("overrides", "export", *ENV, "--with-secrets").out)
    assert "0 changes" in cloud("overrides", "apply", *MEANT, "-f", out).out
    file.write_text(FILE.replace("bug 12", "bug 13"))
    assert "    ~ debug: true (reason or end)" in cloud("overrides", "apply", *MEANT, "-f", file).out
    assert "reason: bug 13" in cloud("overrides", "export", *ENV).out
    assert "until" not in cloud("overrides", "export", *ENV).out


def test_an_override_whose_time_is_over_is_not_set(cloud: Product, file: Path) -> None:
    cloud("overrides", "apply", *MEANT, "-f", file)
    file.write_text(FILE.replace('reason: "bug 12"', "until: 2020-01-01"))
    done = cloud("overrides", "apply", *MEANT, "-f", file, "--prune")
    assert "time is over: debug of globals at nodes=2" in done.err
    assert "- debug: true -> false" in done.out
    file.write_text(FILE.replace('reason: "bug 12"', "until: tomorrow"))
    assert "until 'tomorrow' is no time" in cloud("overrides", "apply", *MEANT, "-f", file).err


@pytest.mark.parametrize("server", ["tuning-box 0.1.0", "tuning-box master"])
def test_tuning_box_is_served_as_well(
    product: Product, file: Path, tmp_path: Path, legacy_url: str, monkeypatch: pytest.MonkeyPatch, server: str
) -> None:
    shutil.copytree(CLOUD, tmp_path / "cloud")
    monkeypatch.setenv("NEW_SECRET", "CANARY")
    there = ("--configdb", legacy_url) if server == "tuning-box 0.1.0" else ()
    product.plain = True
    assert product("sync", *ENV, "--from", tmp_path / "cloud", "--parallel", 1, *there).code == Exit.OK
    place = (*ENV, "--level", "nodes=1", "--data-source", "globals", "--key", "debug")
    assert product("override", *place, "--type", "bool", "--value", "true", *there).code == Exit.OK
    done = product("overrides", "apply", *MEANT, "-f", file, *there)
    assert done.code == Exit.OK, done.err
    found = yaml.safe_load(product("overrides", "export", *ENV, *there).out)["overrides"]
    assert [(one["level"], one["key"]) for one in found] == [
        ("/", "new_secret"),
        ("nodes=1", "debug"),
        ("nodes=2", "cinder_rate_limits.POST"),
        ("nodes=2", "debug"),
        ("nodes=3", "max_pool_size"),
    ]
    assert found[3]["reason"] == "bug 12"
    file.write_text(SHORTER)
    assert "2 changes" in product("overrides", "apply", *MEANT, "-f", file, "--prune", *there).out
    found = yaml.safe_load(product("overrides", "export", *ENV, *there).out)["overrides"]
    assert [(one["level"], one["key"]) for one in found] == [
        ("/", "new_secret"),
        ("nodes=1", "debug"),
        ("nodes=2", "debug"),
    ]


def test_levels_over_a_node_need_not_be_named(product: Product, tmp_path: Path) -> None:
    shutil.copytree(CLOUD, tmp_path / "cloud")
    levels = ("--levels", "cluster=%{deployment_id},nodes=%{fqdn}")
    assert product("sync", *ENV, "--from", tmp_path / "cloud", *levels).code == Exit.OK
    file = tmp_path / "x.yaml"
    file.write_text(
        "{version: 1, environment: 1, overrides: ["
        "{level: cluster=1, data_source: globals, key: new, value: 1},"
        "{level: nodes=2, data_source: globals, key: debug, value: true}]}"
    )
    done = product("overrides", "apply", *MEANT, "-f", file)
    assert done.code == Exit.OK, done.err
    assert "globals at /cluster/1/nodes/node-2.cloud.example.com/" in done.out
    out = tmp_path / "out.yaml"
    assert product("overrides", "export", *ENV, "-o", out).code == Exit.OK
    found = yaml.safe_load(out.read_text())["overrides"]
    assert [one["level"] for one in found] == ["cluster=1", "nodes=node-2.cloud.example.com"]
    assert "0 changes" in product("overrides", "apply", *MEANT, "-f", out).out


@pytest.mark.parametrize(
    ("entry", "part", "allowed"),
    [
        ("{data_source: globals, key: degub, value: true}", "no node of that level has the key degub", "--new-key"),
        ("{level: nodes=2, data_source: globals, key: debug, value: 'on'}", "a value of type boolean", "--change-type"),
        ("{level: nodes=9, data_source: globals, key: debug, value: true}", "there is no node '9'", "--new-node"),
    ],
)
def test_what_looks_like_a_mistake_is_refused_unless_it_is_meant(
    cloud: Product, tmp_path: Path, entry: str, part: str, allowed: str
) -> None:
    """U25: nothing of the file is set, not even what is right."""
    file = tmp_path / "wrong.yaml"
    right = "{level: nodes=1, data_source: globals, key: debug, value: true}"
    file.write_text(f"version: 1\nenvironment: 1\noverrides:\n- {right}\n- {entry}\n")
    for more in ((), ("--dry-run",)):
        done = cloud("overrides", "apply", "-f", file, *more)
        assert (done.code, part in done.err, done.out) == (Exit.USAGE, True, "")
        assert cloud.changing() == []
    assert "2 changes to make" in cloud("overrides", "apply", "-f", file, allowed).out
    # What is there is no mistake any more.
    assert "0 changes to make" in cloud("overrides", "apply", "-f", file).out


def test_an_override_that_another_data_source_hides_is_said(cloud: Product, tmp_path: Path) -> None:
    file = tmp_path / "hidden.yaml"
    file.write_text("version: 1\nenvironment: 1\noverrides:\n- {data_source: astute, key: debug, value: true}\n")
    done = cloud("overrides", "apply", "-f", file)
    assert done.code == Exit.OK
    assert "it has no effect on nodes 1, 2, 3: Puppet reads debug from globals there" in done.err


def test_an_entry_says_that_its_key_is_new(cloud: Product, file: Path) -> None:
    marked = FILE.replace("value: {env: NEW_SECRET}", "value: {env: NEW_SECRET}, new_key: true")
    assert "new_secret" in cloud("overrides", "apply", "-f", file).err
    file.write_text(marked)
    assert cloud("overrides", "apply", "-f", file).code == Exit.OK
    file.write_text(marked.replace("key: max_pool_size", "key: max_pool_siz"))
    assert "did you mean max_pool_size" in cloud("overrides", "apply", "-f", file).err
    file.write_text(marked.replace("new_key: true", "new_key: 1"))
    assert "entry 4 of the overrides: new_key is neither" in cloud("overrides", "apply", "-f", file).err
