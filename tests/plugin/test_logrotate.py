"""T14: the usage log is rotated by the real logrotate under the real service: no line lost, no restart."""

from __future__ import annotations

import gzip
import json
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

from tests.plugin.conftest import ROOT
from tests.tenants.support import serving


def records(folder: Path) -> list[str]:
    found = []
    for path in folder.iterdir():
        text = gzip.decompress(path.read_bytes()).decode() if path.suffix == ".gz" else path.read_text()
        found += [json.loads(line)["request_id"] for line in text.splitlines()]
    return found


def test_no_line_is_lost_and_nothing_restarted(tmp_path: Path) -> None:
    program = shutil.which("logrotate")
    if program is None:
        pytest.skip("logrotate is not installed here")
    folder = tmp_path / "log"
    folder.mkdir(mode=0o700)
    told = (ROOT / "services/logrotate").read_text().replace("/var/log/configdb-sync", str(folder))
    config = tmp_path / "logrotate.conf"
    config.write_text(told)
    config.chmod(0o644)
    rotate = [program, "--force", "--state", str(tmp_path / "rotated"), str(config)]
    arguments = ("--drivers", "none", "--workers", "2", "--usage-log", str(folder / "usage.log"))
    with serving(tmp_path / "state", *arguments) as (api, process):
        stop, sent = threading.Event(), [0, 0]

        def ask(which: int) -> None:
            while not stop.is_set():
                assert api("GET", "/v1.0/nobody").status == 404
                sent[which] += 1

        callers = [threading.Thread(target=ask, args=(which,)) for which in range(len(sent))]
        for caller in callers:
            caller.start()
        try:
            for _ in range(6):
                before = sum(sent)
                done = subprocess.run(rotate, capture_output=True, text=True, check=False)
                assert (done.returncode, done.stderr) == (0, ""), done.stderr
                while sum(sent) < before + 20:
                    assert all(caller.is_alive() for caller in callers)
        finally:
            stop.set()
            for caller in callers:
                caller.join()
        assert process.poll() is None
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["usage.log", "usage.log.1", *(f"usage.log.{number}.gz" for number in range(2, 7))]
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
    found = records(folder)
    # Beside the callers' own requests there is the service's check of itself, which counts as none's.
    assert len(found) == len(set(found))
    assert sum(sent) <= len(found) <= sum(sent) + 2
