"""The served OpenAPI file (T13) walked by schemathesis against the running service, on both endpoints."""

from __future__ import annotations

import contextlib
import os
import subprocess
from pathlib import Path

import pytest

from configdb_sync.tenants.registry import Registry, open_registry
from configdb_sync.tenants.rows import ChangeInfo
from configdb_sync.web.refusals import RefusalError
from tests.peers import schemathesis
from tests.support.product import Product
from tests.tenants.support import Api, public_port, serving

LIMIT_S = 900
# What no schema says: dest must be another tenant, a name may not end in action/move, its slashes stand bare, levels
# stand once.
_REFUSED = '"401", "403", "404", "409", "410", "412", "501", "503"'
_SETTINGS = f"""
[[operations]]
include-path-regex = "(/action/move|/[{{]dataSource[}}])$"
checks.positive_data_acceptance.expected-statuses = ["2xx", "3xx", "400", {_REFUSED}]

[checks.negative_data_rejection]
expected-statuses = ["4xx", "501", "503"]

[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", {_REFUSED}]
"""


def walked(api: Api, folder: Path, checks: str, examples: int) -> None:
    (folder / "schemathesis.toml").write_text(_SETTINGS)
    base = f"http://127.0.0.1:{api.port}"
    done = subprocess.run(
        [
            *(schemathesis.program(), "--config-file", folder / "schemathesis.toml", "run", f"{base}/openapi.json"),
            *("--header", f"X-Auth-Token: {api.token}", "--checks", checks, "--generation-deterministic", "--no-color"),
            *("--phases", "examples,coverage,fuzzing", "--max-examples", str(examples)),
        ],
        cwd=folder,
        env={**os.environ, "HOME": str(folder)},
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr
    assert "Tested: " in done.stdout


@pytest.mark.long
def test_every_call_answers_as_it_is_described(tmp_path: Path) -> None:
    state = tmp_path / "state"
    arguments = ("--drivers", "none", "--public", "127.0.0.1:0", "--rate", "0")
    with serving(state, *arguments) as (admin, process):
        public = public_port(process)
        registry = Registry(open_registry(f"sqlite:///{state / 'configdb-sync.sqlite'}"))
        change = ChangeInfo("test", "here", "req", 1)
        # What it finds where it tries the simplest names.
        for tenant in ("0", "1", "00"):
            registry.put(change, tenant, None)
        registry.own(change, "0", 0, {"0": None, "1": None})
        walked(admin, tmp_path, "all", 60)
        with contextlib.suppress(RefusalError):
            registry.recover(change, "0")
        registry.own(change, "0", 10, {"0": None, "1": None})
        registry.close()
        user = Api(public, Product(state)("tenants", "token", "0").out.strip())
        walked(user, tmp_path, "all", 20)
        assert process.poll() is None
