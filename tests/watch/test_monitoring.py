"""U29: the alert rules and the dashboard that ship with the product, against Prometheus' own tool and our metrics."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import yaml

from configdb_sync.store.findings import FindingKind, Findings, WatchRound
from configdb_sync.store.gauges import GAUGES, gauges_text
from configdb_sync.store.opening import open_store
from tests.support.clocks import ManualClock

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "services/monitoring/configdb-sync.rules.yml"
DASHBOARD = json.loads((ROOT / "services/monitoring/configdb-sync-dashboard.json").read_text("utf-8"))
QUERIES = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
OF_RULES = [rule["expr"] for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
OF_REQUESTS = {"configdb_sync_tenants_usage_requests_total"}


def promtool(*arguments: object, given: bytes = b"") -> str:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed here")
    done = subprocess.run(["promtool", *map(str, arguments)], input=given, capture_output=True, check=False, timeout=60)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


def test_alerts_fire_when_they_should_and_only_then(tmp_path: Path) -> None:
    shutil.copy(RULES, tmp_path)
    shutil.copy(Path(__file__).with_name("alerts_test.yml"), tmp_path)
    assert "SUCCESS: 11 rules found" in promtool("check", "rules", tmp_path / RULES.name)
    assert "SUCCESS" in promtool("test", "rules", tmp_path / "alerts_test.yml")


def test_the_dashboards_queries_are_such(tmp_path: Path) -> None:
    rules: list[dict[str, Any]] = [
        {"record": f"query:{number}", "expr": query.replace("$environment", ".*")}
        for number, query in enumerate(QUERIES)
    ]
    file = tmp_path / "queries.yml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": rules}]}))
    assert f"SUCCESS: {len(QUERIES)} rules found" in promtool("check", "rules", file)


def test_prometheus_finds_no_fault_in_our_metrics(tmp_path: Path) -> None:
    clock = ManualClock()
    with closing(open_store(f"sqlite:///{tmp_path}/own.sqlite")) as database:
        now = clock.now()
        Findings(database, clock).keep_round(WatchRound(5, now, now, "OK", complete=now))
        assert promtool("check", "metrics", given=gauges_text(database, clock)) == ""


@pytest.mark.parametrize("query", [*QUERIES, *OF_RULES])
def test_queries_ask_for_metrics_and_kinds_that_there_are(query: str) -> None:
    names = set(re.findall(r"configdb_sync_\w+", query))
    assert names
    assert names - OF_REQUESTS - {f"configdb_sync_{name}" for name in GAUGES} == set()
    kinds = {kind for text in re.findall(r'kind=~?"([^"]+)"', query) for kind in text.split("|")}
    assert kinds <= {kind.value for kind in FindingKind}


def test_panels_do_not_cover_each_other() -> None:
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in DASHBOARD["panels"])
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
