"""U15, F2: the packaged command takes the Hiera backend off nodes, with the code that is in the package."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.hiera_backend.fuel_node import left, made, secrets
from tests.hiera_backend.servers import serving_threads
from tests.plugin.jail import Jail
from tests.support.product import contents

REMOVE = "configdb-sync hiera-backend remove --env 5 --from /trees"


def test_from_the_package(master: Jail, tmp_path: Path) -> None:
    ruby = Path(os.path.realpath(shutil.which("ruby") or ""))
    if ruby.parent != Path("/usr/bin"):
        pytest.skip("ruby is not installed here")
    (master.root / "usr/bin/ruby").unlink(missing_ok=True)
    root = master.root / "trees/node-1"
    with serving_threads(tmp_path / "configdb.sqlite") as server:
        server.fill()
        with made(server, root) as (node,):
            before = contents(root)
            assert node.last_line("on").startswith("ok:")
    done = master.run(REMOVE)
    assert (done.returncode, "there is no ruby on this machine" in done.stderr) == (2, True), done
    shutil.copy(ruby, master.root / "usr/bin/ruby")
    done = master.run(REMOVE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("node 1: removed: /etc/hiera.yaml, ")
    assert (left(root, before), secrets(root)) == ([], [])
    (master.root / "usr/bin/ruby").unlink()
