"""U29: a real Prometheus scrapes the service; gauge, alert, page and notification tell of a change by hand."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from configdb_sync.exits import Exit
from tests.nailgun.conftest import make_small
from tests.support.nailgun import at_work
from tests.support.ports import free_port
from tests.support.product import Product
from tests.tenants.support import Api, serving
from tests.watch.conftest import by_hand
from tests.watch.test_monitoring import QUERIES, RULES

WAIT_S = 120.0
TOKEN = "metrics" * 5


class Prometheus:
    """A running one."""

    def __init__(self, port: int) -> None:
        self._api = f"http://127.0.0.1:{port}/api/v1"

    def get(self, path: str, **query: str) -> dict[str, Any]:
        """Return what a call of its API answers."""
        with urlopen(f"{self._api}/{path}?{urlencode(query)}", timeout=WAIT_S) as answer:  # loopback
            found: dict[str, Any] = json.load(answer)
        assert found["status"] == "success", found
        data: dict[str, Any] = found["data"]
        return data

    def value(self, query: str) -> str | None:
        """Return the one value of a query, None if there is none."""
        found = self.get("query", query=query)["result"]
        return found[0]["value"][1] if found else None

    def comes_to(self, query: str, value: str) -> None:
        """Wait until a query has that value."""
        deadline = time.monotonic() + WAIT_S
        while (found := self.value(query)) != value:
            assert time.monotonic() < deadline, (query, found)
            time.sleep(0.2)


@contextmanager
def scraping(folder: Path, target: Api) -> Iterator[Prometheus]:
    """Yield a Prometheus that scrapes a service with the token for metrics, with the product's alert rules."""
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed here")
    (folder / "token").write_text(TOKEN)
    job = {
        "job_name": "configdb-sync",
        "authorization": {"credentials_file": str(folder / "token")},
        "static_configs": [{"targets": [f"127.0.0.1:{target.port}"]}],
    }
    every = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    config = {"global": every, "rule_files": [str(RULES)], "scrape_configs": [job]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    port, log = free_port(), folder / "prometheus.log"
    command = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    with log.open("wb") as output:
        process = subprocess.Popen([*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=output, stderr=output)
        try:
            deadline = time.monotonic() + WAIT_S
            while b"Server is ready" not in log.read_bytes():
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.1)
            yield Prometheus(port)
        finally:
            process.terminate()
            process.wait(WAIT_S)


def test_a_change_by_hand_is_told_everywhere_and_cleared_everywhere(
    synced: Product, trees: Path, tmp_path: Path
) -> None:
    nailgun = make_small()
    nailgun.nodes[:] = nailgun.nodes[:2]
    (tmp_path / "metrics.token").write_text(TOKEN)
    (tmp_path / "metrics.token").chmod(0o600)
    more = ("--drivers", "none", "--metrics-token-file", str(tmp_path / "metrics.token"))
    with at_work(nailgun), serving(synced.state, *more) as (api, _), scraping(tmp_path, api) as prometheus:

        def look() -> tuple[Exit, str, list[str]]:
            code = Exit(synced("watch", "--env", 5, "--from", trees, "--nailgun", nailgun.url).code)
            page = api.get("/status/environments/5/findings").body.decode()
            return code, page, [one["status"] for one in nailgun.notifications]

        code, page, told = look()
        assert (code, "Nothing is open." in page, told) == (Exit.OK, True, [])
        prometheus.comes_to('configdb_sync_keys_drifted{environment="5"}', "0")
        by_hand(trees)
        code, page, told = look()
        assert (code, "1 of 1 open findings" in page, told) == (Exit.DRIFT, True, ["unread"])
        prometheus.comes_to('configdb_sync_keys_drifted{environment="5"}', "1")
        prometheus.comes_to('ALERTS{alertname="ConfigDBSyncDrift",environment="5"}', "1")
        # All that the dashboard asks for has an answer now; what is about requests needs more of them.
        silent = [one for one in QUERIES if prometheus.value(one.replace("$environment", ".*")) is None]
        assert [one for one in silent if "rate(" not in one] == []
        assert synced("sync", "--env", 5, "--from", trees).code == Exit.OK
        code, page, told = look()
        assert (code, "Nothing is open." in page, told) == (Exit.OK, True, ["read"])
        assert "Settled in the last seven days" in page
        prometheus.comes_to('configdb_sync_keys_drifted{environment="5"}', "0")
        assert prometheus.value('up{job="configdb-sync"}') == "1"
        rules = [one for group in prometheus.get("rules")["groups"] for one in group["rules"]]
        assert {(one["health"], one.get("lastError")) for one in rules} == {("ok", None)}
