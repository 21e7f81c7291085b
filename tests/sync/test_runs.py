"""Runs as their user meets them: plans kept to, approvals, time limits, stages, past runs (U14, U17, U20, F5)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from configdb_sync.cli import execution
from configdb_sync.errors import BusyError
from configdb_sync.exits import Exit
from configdb_sync.http.transport import HttpAnswer, HttpRequest
from configdb_sync.store.lease import Lease
from tests.support.clocks import Hasty
from tests.support.product import MEANT, Product, Result, contents
from tests.support.trees import make_trees

Sync = Callable[..., Result]
OVERRIDE = ("--env", 5, "-r", "globals", "--key", "use_syslog", "--level", "nodes=2")


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    return make_trees(tmp_path / "trees", "1", "2", "3")


@pytest.fixture
def sync(product: Product, trees: Path) -> Sync:
    def run(*more: object, command: str = "sync") -> Result:
        result = product(command, "--env", 5, "--from", trees, *more)
        assert "CANARY" not in result.out + result.err
        return result

    return run


def override(product: Product) -> None:
    assert product("override", *MEANT, *OVERRIDE, "--type", "bool", "--value", "false").code == Exit.OK


class TestPlan:
    def test_tells_drift_by_its_exit_code_when_asked(self, product: Product, sync: Sync, trees: Path) -> None:
        assert sync(command="plan").code == Exit.OK
        assert sync("--exit-code", command="plan").code == Exit.DRIFT
        assert sync().code == Exit.OK
        assert sync("--exit-code", command="plan").code == Exit.OK
        override(product)
        assert sync("--exit-code", command="plan").code == Exit.DRIFT
        (trees / "node-3/etc/hiera/globals.yaml").write_text("- no mapping\n")
        assert sync("--exit-code", command="plan").code == Exit.PARTIAL

    def test_is_carried_out_as_it_was_shown_or_not_at_all(self, product: Product, sync: Sync, trees: Path) -> None:
        """S07: what changes between plan and apply stops it, and nothing is written."""
        planned = sync("--format", "json", command="plan").json
        path = trees / "node-2/etc/hiera/globals.yaml"
        path.write_text(path.read_text() + "new: 1\n")
        before, _ = contents(trees), product.changing()
        refused = sync("--digest", planned["digest"])
        assert refused.code == Exit.CHANGED
        assert "configdb-sync plan" in refused.err
        assert product.changing() == []
        assert contents(trees) == before
        again = sync("--format", "json", command="plan").json
        assert again["digest"] != planned["digest"]
        done = sync("--digest", again["digest"], "--format", "json")
        assert done.code == Exit.OK
        assert done.json["digest"] == again["digest"]
        assert done.json["uploads"] == again["uploads"] == 6

    def test_a_second_writer_between_plan_and_apply_stops_it(self, product: Product, sync: Sync, trees: Path) -> None:
        """S07, the race itself: the override changes after the digest was compared, before its node's turn."""
        assert sync().code == Exit.OK
        override(product)
        digest = sync("--format", "json", command="plan").json["digest"]
        before = contents(trees)
        asked: list[str] = []

        def meddle(request: HttpRequest) -> HttpAnswer | None:
            # Each of the two passes asks for all nodes' digests; the other writer comes before the second one.
            if "/nodes/2/" in request.path and request.method == "GET" and not asked:
                asked.append(request.path)
            elif "/nodes/3/" in request.path and len(asked) == 1:
                asked.append(request.path)
                product.fault = None
                assert product("override", *MEANT, *OVERRIDE, "--type", "int", "--value", "7").code == Exit.OK
            return None

        product.fault = meddle
        result = sync("--digest", digest, "--parallel", 1)
        assert len(asked) == 2
        assert result.code == Exit.CHANGED
        assert contents(trees) == before

    def test_names_overrides_without_effect(self, product: Product, sync: Sync) -> None:
        assert sync().code == Exit.OK
        root = ("override", *MEANT, "--env", 5, "-r", "globals", "--type", "bool", "--key", "use_syslog")
        assert product(*root, "--value", "false").code == Exit.OK
        assert product(*root, "--value", "true", "--level", "nodes=2").code == Exit.OK
        plan = sync(command="plan")
        assert "use_syslog of globals at /: a deeper level has the key too and hides it (nodes 1, 2, 3)" in plan.out
        assert "use_syslog of globals at /nodes/2/: it equals the value that it covers (node 2)" in plan.out
        found = sync("--format", "json", command="plan").json["nodes"][1]["without_effect"]
        assert {(one["level"], one["why"]) for one in found} == {("/", "hidden"), ("/nodes/2/", "equal")}

    def test_names_overrides_that_another_data_source_hides(self, product: Product, sync: Sync) -> None:
        assert sync().code == Exit.OK
        override = ("override", *MEANT, "--env", 5, "-r", "astute", "--type", "bool", "--value", "false")
        assert product(*override, "--key", "use_syslog", "--level", "nodes=2").code == Exit.OK
        plan = sync(command="plan")
        assert "use_syslog of astute at /nodes/2/: Puppet reads it from globals (node 2)" in plan.out
        (found,) = sync("--format", "json", command="plan").json["nodes"][1]["without_effect"]
        assert (found["why"], found["by"]) == ("other data source", "globals")
        assert "Puppet reads it from globals" in sync().out
        assert "Puppet reads it from globals" in sync().out  # also where there is nothing to do any more

    def test_a_summary_has_the_documents_of_all_nodes_once(self, sync: Sync) -> None:
        text = sync("--summary", command="plan").out
        assert "astute: upload, the first time (nodes 1, 2, 3)" in text
        assert "node 1 (" not in text
        refused = sync("--summary", "--format", "json", command="plan")
        assert refused.code == Exit.USAGE
        assert "--summary and --format json exclude each other" in refused.err

    @pytest.mark.parametrize("command", ["plan", "sync"])
    def test_the_report_takes_the_form_of_its_ending(self, sync: Sync, tmp_path: Path, command: str) -> None:
        for ending, begins in ((".json", "{"), (".md", "## "), (".txt", "Plan" if command == "plan" else "Sync")):
            path = tmp_path / f"report{ending}"
            assert sync("--report", path, command=command).code == Exit.OK
            assert path.read_text().startswith(begins)
            assert path.stat().st_mode & 0o777 == 0o600
            assert "CANARY" not in path.read_text()
        shown = sync("--format", "markdown", command=command)
        assert shown.out.startswith("## ")

    def test_a_report_that_cannot_be_written_is_said_before_anything_is_done(
        self, product: Product, sync: Sync, tmp_path: Path
    ) -> None:
        for path in (tmp_path / "report.html", tmp_path / "none/report.json"):
            result = sync("--report", path)
            assert result.code == Exit.USAGE
            assert path.name in result.err
        assert product.changing() == []


class TestApprovals:
    def test_let_exactly_the_withheld_changes_through_once(self, product: Product, sync: Sync, trees: Path) -> None:
        assert sync().code == Exit.OK
        for node in "12":
            (trees / f"node-{node}/etc/hiera/globals.yaml").write_text("# nothing\n")
        withheld = sync("--stage", "main")
        assert withheld.code == Exit.UNSAFE
        digest = withheld.out.split("configdb-sync approve ")[1].split("`")[0]
        # What comes later isn't in the digest.
        (trees / "node-3/etc/hiera/globals.yaml").write_text("# nothing\n")
        assert "2 changes" in product("approve", digest).out
        result = sync("--format", "json")
        assert result.code == Exit.UNSAFE
        assert [node["node"] for node in result.json["nodes"] if node["unsafe"]] == ["3"]
        assert product("get", "--env", 5, "-r", "globals", "--level", "nodes=2").out == "{}\n"
        # The same once more is withheld once more.
        path = trees / "node-1/etc/hiera/globals.yaml"
        path.write_text("a: 1\n")
        assert sync().code == Exit.UNSAFE
        path.write_text("# nothing\n")
        assert sync("--node", 1).code == Exit.UNSAFE

    def test_of_a_digest_that_only_a_plan_showed(self, product: Product, sync: Sync, trees: Path) -> None:
        assert sync().code == Exit.OK
        (trees / "node-2/etc/hiera/globals.yaml").write_text("# nothing\n")
        digest = sync("--format", "json", command="plan").json["unsafe_digest"]
        assert "No run has withheld" in product("approve", digest).out
        assert sync("--stage", "pre").code == Exit.OK

    def test_a_wrong_digest_is_refused(self, product: Product) -> None:
        assert product("approve", "nonsense").code == Exit.UNSAFE


class TestTimeLimit:
    def test_stops_cleanly_and_the_next_run_goes_on(
        self, product: Product, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        names = tuple(map(str, range(1, 21)))
        trees = make_trees(tmp_path / "many", *names)
        arguments = ("sync", "--env", 5, "--from", trees, "--parallel", 2)
        clock = Hasty()
        monkeypatch.setattr(execution, "SystemClock", lambda: clock)

        def slow(request: HttpRequest) -> HttpAnswer | None:
            if request.method == "PUT":
                clock.forward(2)
            return None

        product.fault = slow
        result = product(*arguments, "--time-limit", 40, "--format", "json")
        assert result.code == Exit.OUT_OF_TIME
        left = result.json["not_attempted"]
        assert 0 < len(left) < 20
        assert result.json["stopped"]["kind"] == "OutOfTime"
        assert not any(node["problems"] for node in result.json["nodes"])
        product.fault, _ = None, product.changing()
        text = product(*arguments)
        assert text.code == Exit.OK
        paths = [request.path for request in product.changing() if request.method == "PUT"]
        assert {path.split("/")[4] for path in paths} == set(left)

    def test_nodes_that_got_no_turn_come_first(self, product: Product, tmp_path: Path) -> None:
        trees = make_trees(tmp_path / "many", *map(str, range(1, 9)))
        arguments = ("sync", "--env", 5, "--from", trees, "--parallel", 1)
        assert product(*arguments, "--node", "1,2,3,4,5").code == Exit.OK
        for node in range(1, 9):
            path = trees / f"node-{node}/etc/hiera/globals.yaml"
            path.write_text(path.read_text() + "new: 1\n")
        product.changing()
        assert product(*arguments).code == Exit.OK
        order = [request.path.split("/")[4] for request in product.changing() if request.method == "PUT"]
        assert list(dict.fromkeys(order)) == ["6", "7", "8", "1", "2", "3", "4", "5"]

    def test_a_lost_lock_begins_nothing_more(
        self, product: Product, sync: Sync, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked = iter(range(100))

        def check(_: Lease) -> None:
            if next(asked) > 3:
                raise BusyError("this run lost its lock")

        monkeypatch.setattr(Lease, "check", check)
        result = sync("--parallel", 1, "--format", "json")
        assert result.code == Exit.BUSY
        assert result.json["not_attempted"]
        assert len([one for one in product.changing() if one.method == "PUT"]) < 6
        monkeypatch.undo()


class TestStages:
    def test_pre_creates_no_file_and_a_missing_one_keeps_its_values(
        self, product: Product, sync: Sync, trees: Path
    ) -> None:
        """U2: before the deployment files may be missing that come later."""
        assert sync().code == Exit.OK
        gone = trees / "node-2/etc/hiera/globals.yaml"
        kept = gone.read_text()
        gone.unlink()
        common = ("--env", 5, "-r", "override/common", "--level", "nodes=1", "--key", "a")
        assert product("override", *MEANT, *common, "--type", "int", "--value", "1").code == Exit.OK
        product.changing()
        early = sync("--stage", "pre")
        assert early.code == Exit.OK
        assert product.changing() == []
        assert not (trees / "node-1/etc/hiera/override/common.yaml").exists()
        assert product("get", *OVERRIDE, "--values").out == "true\n"
        # It came back before main: nothing was lost, nothing is to be done for it.
        gone.write_text(kept)
        assert sync("--stage", "main").code == Exit.OK
        assert (trees / "node-1/etc/hiera/override/common.yaml").read_text().endswith("a: 1\n")
        gone.unlink()
        assert sync("--stage", "main").code == Exit.OK
        whole = ("--env", 5, "-r", "globals", "--level", "nodes=2")
        assert product("get", *whole, "--values").out == "{}\n"

    def test_what_counts_is_a_setting(self, sync: Sync, trees: Path) -> None:
        (trees / "node-2/etc/hiera/globals.yaml").write_text("- no mapping\n")
        failed = sync("--stage", "main")
        assert failed.code == Exit.PARTIAL
        assert failed.out.splitlines()[-1].startswith("failed: nodes 2 have problems")
        for more in (("--failure-policy", "configdb"), ("--failure-policy", "none")):
            warned = sync("--stage", "main", *more)
            assert warned.code == Exit.OK
            assert warned.out.splitlines()[-1].startswith("warning: ")
        assert sync("--stage", "post").code == Exit.OK
        assert sync("--stage", "post", "--failure-policy", "deploying,post").code == Exit.PARTIAL
        assert sync("--failure-policy", "configdb").code == Exit.PARTIAL
        assert sync("--stage", "main", "--failure-policy", "all").code == Exit.USAGE

    def test_configdb_away_stops_the_deployment_already_in_pre(self, sync: Sync) -> None:
        away = ("--configdb", "http://127.0.0.1:9")
        result = sync("--stage", "pre", *away)
        assert result.code == Exit.CONFIGDB
        assert result.out.splitlines()[-1].startswith("failed: ")
        assert (
            sync("--stage", "pre", "--failure-policy", "deploying", *away).out.splitlines()[-1].startswith("warning: ")
        )

    def test_a_fault_of_the_program_shows_no_text_that_could_be_a_secret(self, product: Product, sync: Sync) -> None:
        def broken(_: HttpRequest) -> HttpAnswer | None:
            raise ZeroDivisionError("CANARY")

        product.fault = broken
        result = sync("--stage", "main")
        assert result.code == Exit.INTERNAL
        assert "ZeroDivisionError in test_runs.py, line" in result.out
        assert sync("--stage", "post").code == Exit.OK

    def test_the_output_is_short_and_plain(self, product: Product, tmp_path: Path) -> None:
        trees = make_trees(tmp_path / "many", *map(str, range(1, 41)))
        for node in range(1, 41):
            (trees / f"node-{node}/etc/hiera/globals.yaml").write_text("- no mapping\n")
        result = product("sync", "--env", 5, "--from", trees, "--stage", "main")
        lines = result.out.splitlines()
        assert len(lines) < 20
        assert max(map(len, lines)) < 500
        assert all(line.isprintable() for line in lines)


class TestPastRuns:
    def test_on_either_database(self, product: Product, sync: Sync, own_url: str) -> None:
        assert sync("--database", own_url).code == Exit.OK
        listed = product("runs", "--database", own_url, "--format", "json").json["runs"]
        assert [run["outcome"] for run in listed] == ["OK"]
        assert "all in step" in product("runs", "last", "--database", own_url).out

    def test_are_listed_and_shown(self, product: Product, sync: Sync, trees: Path) -> None:
        assert sync().code == Exit.OK
        path = trees / "node-2/etc/hiera/globals.yaml"
        path.write_text(path.read_text().replace("CANARY-hash", "CANARY-new"))
        assert sync("--stage", "main").code == Exit.OK
        sync("--digest", "0" * 16)
        listed = product("runs", "--env", 5, "--format", "json").json["runs"]
        assert [(run["outcome"], run["stage"], run["uploads"]) for run in listed] == [
            ("CHANGED", None, None),
            ("OK", "main", 1),
            ("OK", None, 6),
        ]
        assert product("runs", "--env", 6).out == "No run of environment 6 is remembered.\n"
        assert len(product("runs").out.splitlines()) == 3
        main = listed[1]["run"]
        shown = product("runs", main[:14])
        assert f"Run {main}: OK" in shown.out
        assert '~ nova_hash.user_password: "<masked' in shown.out
        report = product("runs", main, "--format", "json").json
        assert report["report"]["run"] == main
        assert [node["outcome"] for node in report["done"]] == ["done"] * 3
        assert product("runs", "last", "--format", "markdown").out.startswith("## Run")
        assert "CANARY" not in shown.out + json.dumps(report)
        assert product("runs", "nothing").code == Exit.USAGE

    def test_as_many_as_set_are_kept(self, product: Product, sync: Sync) -> None:
        for _ in range(4):
            assert sync("--keep-runs", 2).code == Exit.OK
        assert len(product("runs", "--format", "json").json["runs"]) == 2
