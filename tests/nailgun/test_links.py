"""The link on an environment's dashboard: made once, kept up to date, taken away; never a deployment's failure."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from werkzeug.wrappers import Response

from configdb_sync.errors import EnvironmentMismatchError, NailgunError
from configdb_sync.nailgun.model import PluginLink
from configdb_sync.plugin.dashboard_link import TITLE, page_of, settle_link
from tests.nailgun.conftest import Clients, make_small
from tests.support.nailgun import Nailgun, at_work
from tests.support.product import Product

OTHER = {"id": 7, "title": "Zabbix", "url": "https://10.20.0.2/zabbix", "description": None, "hidden": False}
BASE = "https://10.20.0.2:8083"


def ours(nailgun: Nailgun) -> list[str]:
    return [link["url"] for link in nailgun.links if link["title"] == TITLE]


def test_it_is_made_once_updated_and_taken_away(nailgun: Nailgun, client: Clients) -> None:
    asked, env = client(nailgun.url), nailgun.env
    nailgun.links.append(dict(OTHER))
    assert settle_link(asked, env, BASE)
    assert not settle_link(asked, env, BASE), "nothing is changed the second time"
    assert ours(nailgun) == [f"{BASE}/status/environments/{env}"]
    number = nailgun.links[1]["id"]
    assert settle_link(asked, env, "http://fuel:8083/")
    assert (ours(nailgun), nailgun.links[1]["id"]) == ([f"http://fuel:8083/status/environments/{env}"], number)
    assert settle_link(asked, env, None)
    assert not settle_link(asked, env, None)
    assert nailgun.links == [OTHER], "others' links stay as they are"


def test_several_of_ours_become_one(small: Nailgun, client: Clients) -> None:
    asked = client(small.url)
    for name in ("a", "b", "c"):
        asked.put_link(5, PluginLink(TITLE, f"http://{name}"))
    asked.put_link(5, PluginLink(TITLE, page_of(BASE, 5)))
    assert settle_link(asked, 5, BASE)
    assert ours(small) == [page_of(BASE, 5)]


def test_one_that_someone_else_made_at_the_same_moment_is_as_good(small: Nailgun, client: Clients) -> None:
    """From newton on an address stands once in an environment."""
    small.version["release"] = "10.0"
    small.links.append({**OTHER, "url": page_of(BASE, 5)})
    assert settle_link(client(small.url), 5, BASE)
    assert [link["title"] for link in small.links] == ["Zabbix"]
    small.links.append({**OTHER, "id": 8, "title": TITLE, "url": "http://before"})
    assert settle_link(client(small.url), 5, BASE)
    assert [link["title"] for link in small.links] == ["Zabbix"]


def test_what_isnt_there(small: Nailgun, client: Clients) -> None:
    asked = client(small.url)
    assert asked.links(99) == ()
    asked.drop_link(5, 99)
    for number in (None, 3):
        with pytest.raises(EnvironmentMismatchError):
            asked.put_link(99, PluginLink("x", "http://x", number=number))


def test_links_that_arent_as_they_must_be(small: Nailgun, client: Clients) -> None:
    small.links.append({"id": 1, "title": None, "url": 5})
    assert client(small.url).links(5) == (PluginLink("", "", "", 1),)
    small.links.append({"title": "no number"})
    with pytest.raises(NailgunError):
        client(small.url).links(5)


def test_the_command(tmp_path: Path) -> None:
    small, product = make_small(), Product(tmp_path / "state")
    with at_work(small) as url:
        where = ("dashboard-link", "--env", 5, "--nailgun", url)
        made = product(*where, "--page-url", BASE)
        assert (made.code, made.out) == (0, f"the dashboard leads to {page_of(BASE, 5)}\n")
        assert product(*where, "--remove").out == "the link is gone\n"
        assert product(*where, "--remove").out == "there was no link\n"
        assert (product(*where).code, "--page-url" in product(*where).err) == (2, True)
    assert (product("dashboard-link", "--env", 5, "--remove").code, small.links) == (2, [])


@pytest.mark.parametrize(
    "address", ["ftp://x", "https://", "https://a b", "https://u:p@x", "http://x/?q", "http://x{1}"]
)
def test_an_address_that_cant_be(tmp_path: Path, address: str) -> None:
    told = Product(tmp_path / "state")("dashboard-link", "--env", 5, "--page-url", address)
    assert (told.code, "give an address like" in told.err) == (2, True)


CLOUD = Path(__file__).resolve().parents[2] / "examples/small-cloud"


def deployed(tmp_path: Path, url: str, *more: str, stage: str = "main") -> tuple[int, str]:
    cloud = tmp_path / "cloud"
    if not cloud.exists():
        shutil.copytree(CLOUD, cloud, symlinks=True)
    told = Product(tmp_path / "state")("sync", "--env", 1, "--from", cloud, "--nailgun", url, "--stage", stage, *more)
    return told.code, told.out.splitlines()[-1]


def cloud_nailgun() -> Nailgun:
    found = make_small(1)
    for node in found.nodes:
        node["fqdn"] = f"node-{node['id']}.cloud.example.com"
    return found


def test_a_deployment_makes_it_and_takes_it_away(tmp_path: Path) -> None:
    found = cloud_nailgun()
    with at_work(found) as url:
        assert deployed(tmp_path, url, "--page-url", BASE)[0] == 0
        assert ours(found) == [page_of(BASE, 1)]
        assert deployed(tmp_path, url)[0] == 0
        assert ours(found) == [page_of(BASE, 1)], "asked for once in a deployment, at its begin"
        assert deployed(tmp_path, url, stage="pre")[0] == 0
        assert ours(found) == []


def test_a_run_that_is_short_of_time_leaves_it(tmp_path: Path) -> None:
    found = cloud_nailgun()
    with at_work(found) as url:
        assert deployed(tmp_path, url, "--page-url", BASE, "--time-limit", "40")[0] == 0
    assert found.links == []


@pytest.mark.parametrize("status", [400, 403, 404, 500])
def test_no_deployment_fails_because_of_it(tmp_path: Path, status: int) -> None:
    found = cloud_nailgun()
    found.faults["/clusters/1/plugin_links"] = lambda _: Response("<html>", status, content_type="text/html")
    with at_work(found) as url:
        code, last = deployed(tmp_path, url, "--page-url", BASE)
    assert (code, last.startswith("ok:")) == (0, True)
