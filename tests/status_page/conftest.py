"""A service with an environment that a real run made, with what is hostile in it, and both endpoints' pages."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from configdb_sync.exits import Exit
from tests.support.product import MEANT, Product
from tests.tenants.support import Api, public_port, serving

CLOUD = Path(__file__).resolve().parents[2] / "examples/small-cloud"
SCRIPT = "<script>document.title='owned'</script>"
TURNED = "\u202eabc\u202c\u200f"
HOSTILE: dict[str, Any] = {
    "script": SCRIPT,
    "attribute": "\"><img src=x onerror=alert(1)> ' onmouseover='x",
    "long": "y" * 1_000_000,
    "turned": TURNED,
    "controls": "a\x01b\x1b[31m\r\n\tc\x7f",
    SCRIPT: "a key",
    "entity": "&lt;b&gt;&amp;nbsp;",
    "template": "{{ 7 * 7 }}{% raw %}",
    "db_password": "CANARY-1234",
    "list": [SCRIPT, {"x": None}],
}
TENANT = "<b>T'\u202e&amp;<img src=x>"
SOURCE = "plugins/<i>x&y"


@dataclass(frozen=True)
class Shown:
    """A running service: its endpoints, its state folder, and the commands on it."""

    admin: Api
    public: Api
    state: Path

    @property
    def product(self) -> Product:
        return Product(self.state)

    def tenant_token(self, tenant: str) -> str:
        return self.product("tenants", "token", tenant).out.strip()


def filled(state: Path, cloud: Path) -> None:
    """Two runs, an override between them, overrides that are hostile, and a round of the watch, which finds these."""
    product = Product(state)
    shutil.copytree(CLOUD, cloud, symlinks=True)
    (cloud / "node-1/etc/hiera/plugins").mkdir(exist_ok=True, parents=True)
    (cloud / "node-1/etc/hiera" / f"{SOURCE}.yaml").write_text("a: 1\n")
    run = ("sync", "--env", 1, "--from", cloud)
    where = ("--env", 1, "--level", "nodes=2", "--data-source", "globals")
    debug = ("--key", "debug", "--value", "true", "--type", "bool", "--reason", SCRIPT, "--for", "8h")
    hostile = ("--key", "hostile", "--type", "json", "--value-file", "-")
    for words, stdin in (
        (run, ""),
        (("override", *MEANT, *where, *debug), ""),
        (run, ""),
        (("override", *MEANT, *where, *hostile), json.dumps(HOSTILE)),
    ):
        told = product(*words, stdin=stdin)
        assert told.code == 0, told.err
    assert product("watch", "--env", 1, "--from", cloud, "--no-notify").code == Exit.DRIFT
    product("tenants", "create", TENANT)
    assert product("tenants", "move", "admin", TENANT, "--env", 1, "--data-source", SOURCE).code == 0


@pytest.fixture(scope="package")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    folder = tmp_path_factory.mktemp("pages")
    state = folder / "state"
    filled(state, folder / "cloud")
    with serving(state, "--public", "127.0.0.1:0", "--public-page") as (admin, process):
        yield Shown(admin, Api(public_port(process), ""), state)
