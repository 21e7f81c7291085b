"""The task and the registry (T7, S8; architecture, Tenants in ConfigDB): owners, status, what is skipped."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from configdb_sync.clock import SystemClock
from configdb_sync.configdb.connect import connect
from configdb_sync.names import component_name
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.registry import Registry, open_registry
from configdb_sync.tenants.rows import ChangeInfo, change_now
from configdb_sync.tenants.status import Status
from tests.support.processes import run
from tests.support.product import MEANT, Product
from tests.tenants.support import Api, public_port, serving

EXAMPLE = Path(__file__).parents[2] / "examples/small-cloud"
ENV = 1


@pytest.fixture
def cloud(tmp_path: Path) -> Path:
    shutil.copytree(EXAMPLE, tmp_path / "cloud", symlinks=True)
    return tmp_path / "cloud"


@pytest.fixture
def registry(product: Product) -> Iterator[Registry]:
    product.state.mkdir(mode=0o700)
    found = Registry(open_registry(f"sqlite:///{product.state / 'configdb-sync.sqlite'}"))
    yield found
    found.close()


def now() -> ChangeInfo:
    return change_now(SystemClock(), "test", "here")


def status(registry: Registry, tenant: str, name: str) -> tuple[Status | None, str | None]:
    _, found = registry.locate(ResourcePath(tenant, ENV, name))
    resource = getattr(found, "resource", None)
    assert resource is not None
    return resource.status, resource.details


def sync(product: Product, cloud: Path, *more: object) -> int:
    return product("sync", "--env", ENV, "--from", cloud, *more).code


def override(product: Product, source: str, key: str, value: str, kind: str) -> None:
    place = ("--env", ENV, "-r", source, "--level", "nodes=2")
    assert product("override", *MEANT, *place, "-k", key, "-v", value, "-t", kind).code == 0


def test_a_run_registers_what_it_makes(product: Product, cloud: Path, registry: Registry) -> None:
    assert sync(product, cloud, "--tenant", "Bob's") == 0
    assert registry.tenant("Bob's").status is Status.ACTIVE
    assert status(registry, "Bob's", "astute") == (Status.ACTIVE, None)
    home = registry.home(ENV)
    assert home is not None
    # The setting of a later run moves nothing.
    assert sync(product, cloud, "--tenant", "other") == 0
    assert registry.home(ENV) == registry.tenant("Bob's")


def test_moved_data_sources_are_synchronised_for_their_new_owner(
    product: Product, cloud: Path, registry: Registry
) -> None:
    assert sync(product, cloud) == 0
    registry.put(now(), "b", None)
    assert product("tenants", "move", "admin", "b", "--env", ENV, "-r", "astute").code == 0
    override(product, "astute", "debug", "true", "bool")
    assert sync(product, cloud) == 0
    assert status(registry, "b", "astute") == (Status.ACTIVE, None)
    assert "\ndebug: true" in (cloud / "node-2/etc/fuel/cluster/1/astute.yaml").read_text()


def test_what_a_marked_tenant_owns_is_skipped_and_counts_as_failed(
    product: Product, cloud: Path, registry: Registry
) -> None:
    assert sync(product, cloud) == 0
    registry.put(now(), "b", None)
    registry.move(now(), ResourcePath("admin", ENV, "globals"), "b")
    registry.mark(now(), "b", 10**12)
    for name in ("globals", "astute"):
        assert (
            product(
                "override", *MEANT, "--env", ENV, "-r", name, "--level", "nodes=2", "-k", "new", "-v", "1", "-t", "int"
            ).code
            == 0
        )
    answer = product("sync", "--env", ENV, "--from", cloud)
    assert answer.code == 3
    assert "tenant 'b', which owns it, is marked for deletion" in answer.out
    assert "new:" in (cloud / "node-2/etc/fuel/cluster/1/astute.yaml").read_text()
    assert not any("new:" in path.read_text() for path in cloud.glob("node-2/**/globals.yaml"))
    registry.recover(now(), "b")
    assert sync(product, cloud) == 0


def test_after_the_purge_the_source_is_made_anew(product: Product, cloud: Path, registry: Registry) -> None:
    """T5: the overrides of the purged source leave the files, and the setting holds again."""
    assert sync(product, cloud, "--tenant", "a") == 0
    override(product, "astute", "debug", "true", "bool")
    assert sync(product, cloud) == 0
    file = cloud / "node-2/etc/fuel/cluster/1/astute.yaml"
    assert "\ndebug: true" in file.read_text()
    registry.mark(now(), "a", 0)
    assert product("tenants", "purge").code == 0
    assert sync(product, cloud, "--tenant", "second") == 0
    home = registry.home(ENV)
    assert home is not None
    assert home.id == "second"
    assert "\ndebug: true" not in file.read_text()
    with connect("embedded", database_url=f"sqlite:///{product.state / 'configdb.sqlite'}") as client:
        placed = {one.name: [each.name for each in one.definitions] for one in client.components()}
    assert component_name("a", ENV) not in placed
    assert "astute" in placed[component_name("second", ENV)]


def test_a_run_that_died_does_not_stay_build(product: Product, cloud: Path, registry: Registry) -> None:
    """S8: BUILD while it is at work, so that nothing of it can be moved; then ERROR by the driver, with what it was."""
    assert sync(product, cloud) == 0
    file = cloud / "node-2/etc/fuel/cluster/1/astute.yaml"
    file.write_text(file.read_text() + "fresh: 1\n")
    done = run(product.state, "sync", "--env", ENV, "--from", cloud, CONFIGDB_SYNC_FAILPOINT="before-upload")
    assert done.returncode == -signal.SIGKILL
    assert status(registry, "admin", "astute")[0] is Status.BUILD
    with serving(product.state, "--max-age", "0") as (api, _):
        shown = api.get(ResourcePath("admin", ENV, "astute").url).json
        assert shown["status"] == "ERROR"
        assert "died" in shown["status_details"]
        assert api.get(ResourcePath("admin").url).json["status"] == "ERROR"
        assert sync(product, cloud) == 0
        assert api.get(ResourcePath("admin").url).json["status"] == "ACTIVE"


def test_values_through_the_tenants_path(product: Product, cloud: Path, registry: Registry) -> None:
    """Each tenant's path shows its own data by id; the admin endpoint overrides, and the node gets it."""
    assert sync(product, cloud) == 0
    registry.put(now(), "b", None)
    registry.move(now(), ResourcePath("admin", ENV, "globals"), "b")
    with serving(product.state, "--drivers", "none", "--public", "127.0.0.1:0") as (api, process):
        port = public_port(process)
        url = f"{ResourcePath('admin', ENV, 'astute').url}?level=nodes=2"
        shown = api.get(url)
        assert (shown.status, shown.json["effective"]["uid"], shown.json["status"]) == (200, "2", "ACTIVE")
        assert api("HEAD", url).etag == shown.etag
        user = Api(port, product("tenants", "token", "admin").out.strip())
        assert user.get(url).json["effective"] == shown.json["effective"]
        assert user.put(url, json={"debug": True}).status == 405
        assert user.get(f"{ResourcePath('admin', ENV, 'globals').url}?level=nodes=2").status == 404
        assert api.get(f"{ResourcePath('b', ENV, 'globals').url}?level=nodes=2").status == 200
        assert api.put(url, 'If-Match: "x"', json={"fresh": 1}).status == 412
        assert api.put(url, f"If-Match: {shown.etag}", json={"fresh": 1}).status == 204
        assert api.get(url).json["effective"]["fresh"] == 1
        entry = api.get(f"{ResourcePath('admin').url}/audit?limit=1").json["entries"][0]
        assert (entry["action"], entry["path"]) == ("override", f"environments/{ENV}/resources/astute")
        assert entry["details"] == {"keys": ["fresh"], "level": {"nodes": "2"}}
        assert api.get(url).etag != shown.etag
        assert (api.put(url, json=[]).status, api.put(url, json="x").status) == (400, 400)
        assert api.put(ResourcePath("admin", ENV, "astute").url, json={}).status == 400
        assert api.put(ResourcePath("admin", ENV).url, json={}).status == 405
        assert [
            api.get(f"{ResourcePath('admin', ENV, 'astute').url}?level={bad}").status for bad in ("x", "what=1")
        ] == [
            400,
            404,
        ]
    assert sync(product, cloud) == 0
    assert "\nfresh: 1\n" in (cloud / "node-2/etc/fuel/cluster/1/astute.yaml").read_text()
