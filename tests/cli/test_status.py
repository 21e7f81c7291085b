"""``configdb-sync status``: lines, JSON, and a page in one file for its owner alone, without any service."""

from __future__ import annotations

import re
import shutil
import stat
from pathlib import Path

import pytest

from configdb_sync.status_page import html, single_file
from tests.status_page.filled_environment import fill
from tests.support.product import Product, make_product

CLOUD = Path(__file__).resolve().parents[2] / "examples/small-cloud"


@pytest.fixture
def product(tmp_path: Path) -> Product:
    return Product(tmp_path / "state")


@pytest.fixture(scope="module")
def synced(tmp_path_factory: pytest.TempPathFactory) -> Product:
    """A state that no test changes."""
    folder = tmp_path_factory.mktemp("synced")
    product = Product(folder / "state")
    shutil.copytree(CLOUD, folder / "cloud", symlinks=True)
    assert product("sync", "--env", 1, "--from", folder / "cloud").code == 0
    where = ("--env", 1, "--level", "nodes=2", "--data-source", "astute")
    assert product("override", *where, "--key", "debug", "--value", "true", "--type", "bool").code == 0
    return product


def test_nodes_are_where_their_runs_put_them_whatever_the_settings_say(product: Product, tmp_path: Path) -> None:
    shutil.copytree(CLOUD, tmp_path / "cloud", symlinks=True)
    run = ("sync", "--env", 1, "--from", tmp_path / "cloud", "--levels", "cluster=c%{deployment_id},nodes=n-%{uid}")
    assert product(*run).code == 0
    page = tmp_path / "status.html"
    assert product("status", "--html", page).code == 0
    assert "cluster=c1,nodes=n-2" in page.read_text().replace("/", ",").replace("&#x3D;", "=")


def test_before_any_run(product: Product, tmp_path: Path) -> None:
    page = tmp_path / "status.html"
    told = product("status", "--html", page)
    assert (told.code, told.out) == (0, f"There is no environment yet.\nthe page is {page}\n")
    assert "There is no environment yet" in page.read_text()


def test_lines_and_json(synced: Product) -> None:
    told = synced("status")
    assert re.fullmatch(
        r"environment 1: ACTIVE \(5 of 16 data sources: ACTIVE\); last run \d{4}-\d\d-\d\d [\d:]{8} OK, 3 nodes\n",
        told.out,
    )
    (one,) = synced("status", "--format", "json", "--env", 1).json["environments"]
    assert (one["environment"], one["last_run"]["outcome"], one["tenants"][0]["tenant"]) == (1, "OK", "admin")


def test_an_environment_that_isnt_there(synced: Product, tmp_path: Path) -> None:
    told = synced("status", "--env", 9, "--html", tmp_path / "status.html")
    assert (told.code, "environment 9 has had no run" in told.err) == (2, True)
    assert not (tmp_path / "status.html").exists()


def test_the_page_is_its_owners_alone_and_whole(synced: Product, tmp_path: Path) -> None:
    page = tmp_path / "status.html"
    page.write_text("old")
    page.chmod(0o644)
    assert synced("status", "--html", page).code == 0
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    text = page.read_text()
    assert text.count("<details ") == 9, "all documents of a small environment are in it"
    assert text.index("1 overridden") < text.index("keys</span>"), "what is overridden comes first"
    assert html.policy(served=False) in text.replace("&#39;", "'")
    secrets = re.findall(r"password: '?([\w-]+)", (CLOUD / "node-2/etc/fuel/cluster/1/astute.yaml").read_text())
    assert secrets
    assert [secret for secret in secrets if secret in text] == []
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".status")] == []


@pytest.mark.parametrize("name", ["no/such/folder.html", "."])
def test_a_file_that_cant_be_written(synced: Product, tmp_path: Path, name: str) -> None:
    told = synced("status", "--html", tmp_path / name)
    assert told.code == 2
    assert "name another with --html" in told.err or "is a directory" in told.err


def test_a_large_environment_is_cut_and_says_so(
    synced: Product, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(single_file, "MOST_DOCUMENTS", 2)
    page = tmp_path / "status.html"
    assert synced("status", "--html", page).code == 0
    text = page.read_text()
    assert text.count("<details ") == 2
    assert "7 more documents are left out" in text


def test_without_configdb_the_rest_is_shown(tmp_path: Path, product: Product) -> None:
    fill(product.state, 7, 3)
    page = tmp_path / "status.html"
    where = ("--configdb", "http://127.0.0.1:1", "--html", page)
    assert product("status", *where).code == 0
    text = page.read_text()
    assert "ConfigDB couldn't be asked" in text
    assert "node-3.cloud.example.com" in text
    assert "the file changed" in text


def test_a_configdb_that_keeps_no_versions_and_lists_no_overrides(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As tuning-box: the documents themselves tell, and the product's own records what was."""
    product = make_product(tmp_path / "state", monkeypatch)
    product.plain = True
    shutil.copytree(CLOUD, tmp_path / "cloud", symlinks=True)
    assert product("sync", "--env", 1, "--from", tmp_path / "cloud").code == 0
    where = ("--env", 1, "--level", "nodes=2", "--data-source", "astute", "--key", "debug")
    assert product("override", *where, "--value", "true", "--type", "bool", "--comment", "a reason").code == 0
    page = tmp_path / "status.html"
    assert product("status", "--html", page).code == 0
    text = page.read_text()
    assert "couldn't be asked" not in text
    assert text.count("<details ") == 9
    assert "1 overridden" in text
    assert "a reason" in text


def test_runs_of_the_last_days(product: Product) -> None:
    fill(product.state, 7, 1, runs=30)
    assert len(product("runs", "--format", "json").json["runs"]) == 20
    assert product("runs", "--since", "1h", "--format", "json").json["runs"] == []
    assert len(product("runs", "--since", "9999w", "--format", "json").json["runs"]) == 30
    assert len(product("runs", "--since", "9999w", "--limit", 3, "--format", "json").json["runs"]) == 3
    for words in (("--since", "soon"), ("--since", "7d", "last")):
        told = product("runs", *words)
        assert (told.code, "--since" in told.err) == (2, True)


def test_a_summary_for_people_who_were_not_there(product: Product, tmp_path: Path) -> None:
    cloud, file = shutil.copytree(CLOUD, tmp_path / "cloud", symlinks=True), tmp_path / "week.markdown"
    run = ("sync", "--env", 1, "--from", cloud)
    assert product(*run).code == 0
    at = ("override", "--env", 1, "--level", "nodes=2")
    assert product(*at, "--set", "debug=true", "--for", "8h", "--reason", "ticket `4711`").code == 0
    assert product(*at, "-r", "astute", "--set", "debug=true").code == 0
    assert product(*at, "--key", "nova.db_password", "-t", "str", "--value-file", "-", stdin="CANARY").code == 0
    assert product("rm-override", *at[1:], "-r", "astute", "--key", "nova").code == 0
    assert product("watch", "--env", 1, "--from", cloud, "--no-notify").code == 10
    told = product("status", "--report", file)
    assert (told.code, f"the summary is {file}\n" in told.out, stat.S_IMODE(file.stat().st_mode)) == (0, True, 0o600)
    text = file.read_text()
    sections = dict(re.findall(r"^### (.+)\n\n((?:- .*\n)+)", text, flags=re.MULTILINE))
    assert "1 run, 0 with problems; 0 files written on nodes." in text
    assert "`debug: nothing -> true` in `globals at nodes=2`, " in sections["Overrides changed"]
    assert sections["Overrides changed"].count("nova.db_password: ") == 2  # set, and taken away again
    assert "`` ticket `4711` ``, until " in sections["Overrides that end soon"]
    assert sections["Overrides without effect"].startswith("- `debug = true` in `astute at nodes=2`, ")
    assert sections["Open findings"].count("- drift `node 2`") == 2
    assert "CANARY" not in text
    assert product("sync", "--env", 1, "--from", cloud).code == 0
    assert product("status", "--report", file, "--since", "1h").code == 0
    settled = file.read_text().partition("### Settled findings")[2]
    assert settled.count("- drift `node 2`") == 2
    assert "2 runs, 0 with problems; 2 files written on nodes." in file.read_text()
    for words in (("--since", "7d"), ("--report", file, "--since", "soon"), ("--report", tmp_path / "no/file")):
        refused = product("status", *words)
        assert (refused.code, str(words[-2]) in refused.err) == (2, True), refused.err
