"""Bad input and bad peers (U4, U7, U13, U14, U19, U23): a clear error, its exit code, everything else done."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from configdb_sync.configdb.connect import connect
from configdb_sync.exits import Exit
from configdb_sync.http.transport import HttpAnswer, HttpRequest
from tests.support.product import MEANT, Product, contents
from tests.support.trees import GLOBALS, make_node, make_trees


@pytest.fixture
def trees(tmp_path: Path) -> Path:
    return make_trees(tmp_path / "trees", "1", "2", "3")


def sync(product: Product, trees: Path, *more: object) -> tuple[int, str]:
    result = product("sync", "--env", 5, "--from", trees, *more)
    assert "CANARY" not in result.out + result.err
    return result.code, result.out + result.err


def test_a_missing_folder_is_named(product: Product, tmp_path: Path) -> None:
    code, text = sync(product, tmp_path / "nowhere")
    assert code == Exit.USAGE
    assert "nowhere" in text
    assert "node-<id>/etc/hiera" in text


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--data-sources", "more,**", "data_sources has a bad entry '**'"),
        ("--data-sources", "a=x,a=y", "data_sources has a bad entry 'a=y'"),
        ("--levels", "cluster=all,nodes=%{uid", "nodes=%{uid can't be read: a placeholder isn't closed"),
    ],
)
def test_a_setting_that_no_node_can_have_is_said_once(
    product: Product, trees: Path, flag: str, value: str, said: str
) -> None:
    for command in ("plan", "sync"):
        result = product(command, "--env", 5, "--from", trees, flag, value)
        assert (result.code, result.out) == (Exit.USAGE, "")
        assert result.err.count(said) == 1
    assert product.requests == []


def test_an_entry_that_one_layout_alone_has_no_place_for_is_that_layouts_matter(product: Product, trees: Path) -> None:
    """One setting serves both: ``cluster.yaml`` is a default of Fuel 10 and none of Fuel 9."""
    assert product("plan", "--env", 5, "--from", trees, "--data-sources", "mine=cluster").code == Exit.OK


@pytest.mark.parametrize("names", [("",), (",,", " ")])
def test_a_list_without_nodes_is_not_all_nodes(product: Product, trees: Path, names: tuple[str, ...]) -> None:
    """U22: what an empty variable of a script gives."""
    asked = [word for name in names for word in ("--node", name)]
    for command in ("plan", "sync"):
        result = product(command, "--env", 5, "--from", trees, *asked)
        assert result.code == Exit.USAGE
        assert "--node names no node" in result.err
    assert product.requests == []


def test_a_node_of_any_name_may_be_asked_for(product: Product, trees: Path) -> None:
    result = product("sync", "--env", 5, "--from", trees, "--node", "9" * 5000, "--node", "2")
    assert result.code == Exit.PARTIAL
    assert "there is no such node" in result.out


def test_a_report_that_would_be_a_folder_is_refused_before_anything_is_done(
    product: Product, trees: Path, tmp_path: Path
) -> None:
    (tmp_path / "report.json").mkdir()
    result = product("sync", "--env", 5, "--from", trees, "--report", tmp_path / "report.json")
    assert result.code == Exit.USAGE
    assert "it is a folder" in result.err
    assert product.requests == []


def test_what_runs_remember_is_nobody_elses_to_set(product: Product, trees: Path) -> None:
    """U18: the digests of our writing in ConfigDB."""
    assert sync(product, trees)[0] == Exit.OK
    place = ("--env", 5, "-r", "records", "--level", "nodes=2", "--key", "astute", "--value", "1", "--type", "int")
    product.changing()
    for command in ("set", "override"):
        result = product(command, *place)
        assert (result.code, "the runs' records of the nodes" in result.err) == (Exit.USAGE, True)
    assert product.changing() == []


def test_a_wrong_environment_number_uploads_nothing(product: Product, trees: Path) -> None:
    result = product("sync", "--env", 6, "--from", trees)
    assert result.code == Exit.ENVIRONMENT
    assert "use --env 5" in result.out
    assert product.changing() == []
    assert "created" not in result.out
    assert product("get", "--env", 6, "-r", "astute").code == Exit.USAGE


def test_what_could_not_be_made_is_not_reported_as_made(product: Product, trees: Path) -> None:
    product.fault = lambda request: HttpAnswer(400, {}, b"") if request.method == "POST" else None
    digest = product("plan", "--env", 5, "--from", trees, "--format", "json").json["digest"]
    result = product("sync", "--env", 5, "--from", trees, "--format", "json")
    assert result.json["configdb"] | {"component": ""} == {
        "creates_environment": False,
        "component": "",
        "adds_data_sources": [],
    }
    assert result.json["digest"] == digest
    assert "created" not in product("sync", "--env", 5, "--from", trees).out


@pytest.mark.parametrize("number", [2**31, 2**63, 10**30])
def test_a_number_that_no_environment_has_is_refused(product: Product, trees: Path, number: int) -> None:
    for command in (("plan", "--from", trees), ("sync", "--from", trees), ("get", "-r", "astute"), ("runs",)):
        result = product(*command, "--env", number)
        assert result.code == Exit.USAGE
        assert "--env" in result.err


def test_one_node_of_another_environment_fails_alone(product: Product, trees: Path) -> None:
    make_node(trees, "4", env=6)
    code, text = sync(product, trees)
    assert code == Exit.PARTIAL
    assert "node 4" in text
    assert "belongs to environment 6" in text
    assert product("get", "--env", 5, "-r", "astute", "--level", "nodes=3", "--key", "debug").out == "false\n"


def test_a_node_whose_facts_contradict_its_place_fails_alone(product: Product, trees: Path) -> None:
    (trees / "node-3").rename(trees / "node-30")
    code, text = sync(product, trees)
    assert code == Exit.PARTIAL
    assert "node 30" in text
    assert "uid 3" in text
    assert not any("/nodes/30/" in request.path for request in product.changing())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"a: [1\nb: 2\n", "line"),
        (b"- a\n- b\n", "mapping"),
        (b"a: \xe4\n", "UTF-8"),
        (b"a: 1\n---\nb: 2\n", "document"),
        (b"a: !ruby/object:OpenStruct {x: 1}\n", "ruby/object"),
        (b"a: .nan\n", "nan"),
        (b'a: {1: x, "1": y}\n', "1"),
    ],
)
def test_a_broken_file_is_an_error_for_that_file_alone(
    product: Product, trees: Path, content: bytes, reason: str
) -> None:
    broken = trees / "node-2/etc/hiera/globals.yaml"
    broken.write_bytes(content)
    code, text = sync(product, trees)
    assert code == Exit.PARTIAL
    assert "node 2, file globals.yaml" in text
    assert reason.lower() in text.lower()
    assert broken.read_bytes() == content
    assert "5 documents uploaded" in text


def test_a_broken_base_file_is_an_error_for_its_node_alone(product: Product, trees: Path) -> None:
    (trees / "node-2/etc/fuel/cluster/5/astute.yaml").write_text("a: [\n")
    code, text = sync(product, trees)
    assert code == Exit.PARTIAL
    assert "node 2, file astute.yaml" in text
    assert not any("/nodes/2/" in request.path for request in product.changing())


def test_a_node_without_base_file_and_one_that_is_not_there(product: Product, trees: Path) -> None:
    """U22: some nodes, by id or FQDN."""
    (trees / "node-2/etc/hiera/astute.yaml").unlink()
    code, text = sync(product, trees, "--node", "2,node-1.example.com,9")
    assert code == Exit.PARTIAL
    assert "node 2" in text
    assert "no base file" in text
    assert "node 9: there is no such node" in text
    nodes = {request.path.partition("/nodes/")[2][:1] for request in product.changing() if "/nodes/" in request.path}
    assert nodes == {"1"}


def test_a_file_that_cannot_be_written_leaves_the_others_written(product: Product, trees: Path) -> None:
    assert sync(product, trees)[0] == Exit.OK
    elsewhere = trees / "node-2/etc/elsewhere.yaml"
    (trees / "node-2/etc/hiera/globals.yaml").rename(elsewhere)
    (trees / "node-2/etc/hiera/globals.yaml").symlink_to("../elsewhere.yaml")
    for node in "12":
        override = ("override", *MEANT, "--env", 5, "-r", "globals", "--level", f"nodes={node}", "--key", "use_syslog")
        assert product(*override, "--type", "bool", "--value", "false").code == 0
    code, text = sync(product, trees)
    assert code == Exit.PARTIAL
    assert "node 2, file globals.yaml" in text
    assert elsewhere.read_text() == GLOBALS
    assert "use_syslog: false" in (trees / "node-1/etc/hiera/globals.yaml").read_text()
    elsewhere.replace(trees / "node-2/etc/hiera/globals.yaml")
    assert sync(product, trees)[0] == Exit.OK
    assert "use_syslog: false" in (trees / "node-2/etc/hiera/globals.yaml").read_text()


def test_configdb_away_is_said_and_nothing_is_touched(product: Product, trees: Path) -> None:
    before = contents(trees)
    code, text = sync(product, trees, "--configdb", "http://127.0.0.1:9")
    assert code == Exit.CONFIGDB
    assert "127.0.0.1:9" in text
    assert contents(trees) == before


def answers(status: int, body: bytes, wanted: str, kind: str = "text/html", method: str = "PUT") -> object:
    def fault(request: HttpRequest) -> HttpAnswer | None:
        if request.method == method and wanted in request.path:
            return HttpAnswer(status, {"content-type": kind}, body)
        return None

    return fault


def test_refused_credentials_stop_the_run(product: Product, trees: Path) -> None:
    product.fault = answers(401, b"{}", "/nodes/")  # type: ignore[assignment]
    before = contents(trees)
    code, text = sync(product, trees, "--parallel", 1)
    assert code == Exit.ACCESS
    assert "stopped before its end" in text
    assert "Not worked on" in text
    assert contents(trees) == before
    product.fault = None
    assert sync(product, trees)[0] == Exit.OK


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, b"<html>proxy error</html>", "text/html"),
        (200, b'{"error": "quota"}', "application/json"),
        (302, b"", "text/html"),
    ],
)
def test_nonsense_in_the_middle_fails_that_document_alone(
    product: Product, trees: Path, status: int, body: bytes, kind: str
) -> None:
    product.fault = answers(status, body, "/environments/5/nodes/2/resources/", kind)  # type: ignore[assignment]
    before = contents(trees)
    code, text = sync(product, trees)
    assert code == Exit.CONFIGDB
    assert "node 2" in text
    assert contents(trees) == before
    product.fault = None
    assert product("get", "--env", 5, "-r", "globals", "--level", "nodes=3", "--key", "use_syslog").out == "true\n"
    assert sync(product, trees)[0] == Exit.OK


def test_effective_data_that_is_not_what_was_foreseen_is_never_written(product: Product, trees: Path) -> None:
    """S01: an empty but successful answer must not empty the file (U20: sync stops if the server disagrees)."""
    assert sync(product, trees)[0] == Exit.OK
    override = ("override", *MEANT, "--env", 5, "-r", "globals", "--level", "nodes=2", "--key", "use_syslog")
    assert product(*override, "--type", "bool", "--value", "false").code == 0
    before = contents(trees)

    def lying(request: HttpRequest) -> HttpAnswer | None:
        if request.path.endswith("values?effective"):
            return HttpAnswer(200, {"content-type": "application/json"}, b"{}")
        return None

    product.fault, product.plain = lying, True
    code, text = sync(product, trees)
    assert code == Exit.CONFIGDB
    assert "effective data" in text
    assert contents(trees) == before


def test_an_emptied_file_is_withheld_until_let_through(product: Product, trees: Path) -> None:
    assert sync(product, trees)[0] == Exit.OK
    emptied = trees / "node-2/etc/hiera/globals.yaml"
    emptied.write_text("# nothing\n")
    code, text = sync(product, trees)
    assert code == Exit.UNSAFE
    assert "would remove 2 of 2 keys" in text
    assert product("get", "--env", 5, "-r", "globals", "--level", "nodes=2", "--key", "use_syslog").out == "true\n"
    digest = text.split("sync --force ")[1].split()[0]
    assert sync(product, trees, "--force", "0123456789ab")[0] == Exit.UNSAFE
    assert sync(product, trees, "--force", digest)[0] == Exit.OK
    assert product("get", "--env", 5, "-r", "globals", "--level", "nodes=2").out == "{}\n"
    assert emptied.read_text() == "# nothing\n"


def test_a_vanished_file_is_never_brought_back(product: Product, tmp_path: Path) -> None:
    trees = tmp_path / "trees"
    hiera = make_node(trees, "1", override__configuration__default_route="gateway: 10.0.0.1\n")
    assert sync(product, trees)[0] == Exit.OK
    gone = hiera / "override/configuration/default_route.yaml"
    gone.unlink()
    code, text = sync(product, trees)
    assert code == Exit.OK
    assert "- gateway" in text
    assert not gone.exists()
    where = ("get", "--env", 5, "-r", "override/configuration/default_route", "--level", "nodes=1")
    assert product(*where, "--values").out == "{}\n"
    product.changing()
    assert sync(product, trees)[0] == Exit.OK
    assert product.changing() == []


def test_a_file_is_made_for_an_override_and_taken_away_with_it(product: Product, trees: Path) -> None:
    assert sync(product, trees)[0] == Exit.OK
    before = contents(trees)
    made = trees / "node-2/etc/hiera/override/common.yaml"
    where = ("--env", 5, "-r", "override/common", "--level", "nodes=2", "--key", "puppet.pool")
    assert product("override", *MEANT, *where, "--type", "str", "--value", "p1").code == 0
    assert sync(product, trees)[0] == Exit.OK
    assert made.stat().st_mode & 0o777 == 0o640
    assert "p1" in made.read_text()
    product.changing()
    assert sync(product, trees)[0] == Exit.OK
    assert product.changing() == []
    assert product("rm-override", *where).code == 0
    assert sync(product, trees)[0] == Exit.OK
    assert contents(trees) == before


def test_a_file_that_no_data_source_declares_is_reported(product: Product, tmp_path: Path) -> None:
    """S13: and a declared one that no node has is normal (U7)."""
    trees = tmp_path / "trees"
    make_node(trees, "1", extra="a: 1\n")
    code, text = sync(product, trees)
    assert code == Exit.OK
    assert "not a data source, left alone: extra.yaml" in text
    assert sync(product, trees, "--data-sources", "extra")[0] == Exit.OK
    assert product("get", "--env", 5, "-r", "extra", "--level", "nodes=1", "--key", "a").out == "1\n"


def test_a_data_source_that_configdb_lacks_is_made_and_a_key_taken_away_there_vanishes(
    product: Product, trees: Path
) -> None:
    """W06: nothing that is missing upstream stops the rest, and nothing that went there stays on a node."""
    assert sync(product, trees)[0] == Exit.OK
    where = ("--env", 5, "-r", "globals", "--level", "nodes=2", "--key", "added")
    assert product("override", *MEANT, *where, "--type", "int", "--value", "1").code == 0
    make_node(trees, "4", plugins__ldap="ldap: {enabled: true}\n")
    assert sync(product, trees)[0] == Exit.OK
    assert "added: 1" in (trees / "node-2/etc/hiera/globals.yaml").read_text()
    assert (
        product("get", "--env", 5, "-r", "plugins/ldap", "--level", "nodes=4", "--key", "ldap.enabled").out == "true\n"
    )
    assert product("rm-override", *where).code == 0
    assert sync(product, trees)[0] == Exit.OK
    assert (trees / "node-2/etc/hiera/globals.yaml").read_text() == GLOBALS


def test_a_server_that_cannot_add_fails_the_missing_data_source_alone(product: Product, trees: Path) -> None:
    """U6: as 0.1.0, which has no way to add a definition; so is each failure to add one."""
    assert sync(product, trees)[0] == Exit.OK
    plugins = trees / "node-2/etc/hiera/plugins"
    plugins.mkdir()
    (plugins / "new.yaml").write_text("new: 1\n")
    for node in "123":
        path = trees / f"node-{node}/etc/hiera/globals.yaml"
        path.write_text(path.read_text() + "more: 1\n")

    def old(request: HttpRequest) -> HttpAnswer | None:
        if request.path.startswith("/resource_definitions"):
            return HttpAnswer(404, {"content-type": "application/json"}, b"{}")
        return None

    product.fault, product.plain = old, True
    code, text = sync(product, trees)
    assert code == Exit.CONFIGDB
    assert "node 2, data source plugins/new, while upload: " in text
    assert "3 documents uploaded" in text
    product.fault, product.plain = None, False
    assert sync(product, trees)[0] == Exit.OK
    assert product("get", "--env", 5, "-r", "plugins/new", "--level", "nodes=2", "--key", "new").out == "1\n"


def test_environment_with_other_levels_refuses_the_whole_run(product: Product, trees: Path) -> None:
    """U6."""
    code, _ = sync(product, trees, "--levels", "cluster=%{deployment_id},nodes=%{uid}")
    assert code == Exit.OK
    product.changing()
    code, text = sync(product, trees)
    assert code == Exit.ENVIRONMENT
    assert "cluster, nodes" in text
    assert "--levels" in text
    assert product.changing() == []


def test_levels_that_the_environment_lacks_are_added(product: Product, trees: Path) -> None:
    """U6."""
    product.state.mkdir(mode=0o700)
    with connect("embedded", database_url=f"sqlite:///{product.state}/configdb.sqlite") as client:
        client.create_environment(5, [], ["cluster"])
        assert sync(product, trees, "--levels", "cluster=%{deployment_id},nodes=%{uid}")[0] == Exit.OK
        found = client.environment(5)
    assert found is not None
    assert found.levels == ("cluster", "nodes")


def test_two_nodes_are_never_one_document(product: Product, trees: Path) -> None:
    """A document belongs to its innermost level's value: nodes that share it would overwrite each other's."""
    code, text = sync(product, trees, "--levels", "nodes=%{uid},role=%{role}")
    assert code == Exit.PARTIAL
    assert text.count("both would share one document") == 2
    assert "nodes=%{uid}" in text


def lose_records(product: Product) -> None:
    for path in product.state.glob("configdb-sync.sqlite*"):
        path.unlink()


def lose_digests(product: Product, *nodes: str) -> None:
    """Empty what ConfigDB keeps of the records, as a server that can't keep it would be."""
    for node in nodes:
        where = ("del", "--env", 5, "-r", "records", "--level", f"nodes={node}", "--all-keys")
        assert product(*where).code == 0


@pytest.mark.parametrize("digests", [True, False])
def test_lost_records_freeze_no_override(product: Product, trees: Path, digests: bool) -> None:
    """U18 on a new master, with ConfigDB's digests and with neither."""
    assert sync(product, trees)[0] == Exit.OK
    where = ("--env", 5, "-r", "astute", "--level", "nodes=2", "--key", "nova.debug")
    assert product("override", *MEANT, *where, "--type", "bool", "--value", "true").code == 0
    assert sync(product, trees)[0] == Exit.OK
    lose_records(product)
    if not digests:
        lose_digests(product, "1", "2", "3")
    product.changing()
    assert sync(product, trees)[0] == Exit.OK
    assert not any("/values" in request.path for request in product.changing()) or not digests
    assert product("get", *where, "--values").out == "false\n"
    assert product("rm-override", *where).code == 0
    assert sync(product, trees)[0] == Exit.OK
    assert "debug: true" not in (trees / "node-2/etc/astute.yaml").read_text()


def test_a_new_master_takes_a_nodes_change_beside_an_override_that_is_gone(product: Product, trees: Path) -> None:
    """U18: the override was taken away while the records were lost; only ConfigDB's digests tell our writing."""
    assert sync(product, trees)[0] == Exit.OK
    where = ("--env", 5, "-r", "globals", "--level", "nodes=2", "--key", "use_syslog")
    assert product("override", *MEANT, *where, "--type", "bool", "--value", "false").code == 0
    assert sync(product, trees)[0] == Exit.OK
    lose_records(product)
    assert product("rm-override", *where).code == 0
    path = trees / "node-2/etc/hiera/globals.yaml"
    path.write_text(path.read_text().replace("- 2", "- 3"))
    assert sync(product, trees)[0] == Exit.OK
    assert path.read_text() == GLOBALS.replace("- 2", "- 3")
    assert product("get", *where[:-1], "nova_hash.rates", "--values", "--format", "json").json == [1, 3]


def test_an_old_backup_of_the_records_freezes_nothing(product: Product, trees: Path) -> None:
    assert sync(product, trees)[0] == Exit.OK
    backup = (product.state / "configdb-sync.sqlite").read_bytes()
    where = ("--env", 5, "-r", "globals", "--level", "nodes=2", "--key", "use_syslog")
    assert product("override", *MEANT, *where, "--type", "bool", "--value", "false").code == 0
    assert sync(product, trees)[0] == Exit.OK
    lose_records(product)
    (product.state / "configdb-sync.sqlite").write_bytes(backup)
    assert sync(product, trees)[0] == Exit.OK
    assert product("get", *where, "--values").out == "true\n"
    assert product("rm-override", *where).code == 0
    assert sync(product, trees)[0] == Exit.OK
    assert (trees / "node-2/etc/hiera/globals.yaml").read_text() == GLOBALS


@pytest.mark.parametrize(("table", "told"), [("records", Exit.PARTIAL), ("nodes", Exit.USAGE)])
def test_a_database_of_ours_that_goes_in_the_middle_stops_the_run(
    product: Product, trees: Path, table: str, told: Exit, caplog: pytest.LogCaptureFixture
) -> None:
    """U14: one line that names it; what would be stored is in no message; nothing is written without a record."""
    assert sync(product, trees)[0] == Exit.OK
    where = ("--env", 5, "-r", "globals", "--level", "nodes=2", "--key", "use_syslog")
    assert product("override", *MEANT, *where, "--type", "bool", "--value", "false").code == 0
    path = trees / "node-2/etc/hiera/globals.yaml"
    path.write_text(path.read_text().replace("- 2", "- 3"))
    text = path.read_text()

    def breaks(request: HttpRequest) -> HttpAnswer | None:
        if request.method == "PUT":
            product.fault = None
            with closing(sqlite3.connect(product.state / "configdb-sync.sqlite")) as database:
                database.execute(f"DROP TABLE {table}")
        return None

    product.fault = breaks
    code, shown = sync(product, trees, "--parallel", 1)
    assert code == told
    assert "the product's own database" in shown
    assert "SQL" not in shown.replace("sqlite", "") + caplog.text
    assert table == "nodes" or path.read_text() == text


def test_a_database_of_configdb_that_fails_shows_no_value(
    product: Product, trees: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert sync(product, trees)[0] == Exit.OK
    with closing(sqlite3.connect(product.state / "configdb.sqlite")) as database:
        database.execute("DROP TABLE contents")
    result = product(
        "override", *MEANT, "--env", 5, "-r", "globals", "-k", "a", "--type", "str", "--value-file", "-", stdin="CANARY"
    )
    assert result.code == Exit.CONFIGDB
    assert "no such table" in caplog.text
    assert "CANARY" not in caplog.text + result.err
    assert "Traceback" not in caplog.text + result.err


def test_an_override_never_turns_a_node_into_one_of_another_release(product: Product, tmp_path: Path) -> None:
    """U7: Fuel 10 has no astute.yaml; a plugin's list may name it all the same."""
    hiera = tmp_path / "trees/node-1/etc/hiera"
    hiera.mkdir(parents=True)
    facts = "uid: '1'\nfqdn: node-1.example.com\ndeployment_id: 5\n"
    (hiera / "node.yaml").write_text(facts)
    (hiera / "cluster.yaml").write_text(f"{facts}debug: false\n")
    arguments = (product, tmp_path / "trees", "--data-sources", "astute")
    assert sync(*arguments)[0] == Exit.OK
    where = ("--env", 5, "--level", "nodes=1", "--key", "debug")
    for name in ("astute", "cluster"):
        assert product("override", *MEANT, *where, "-r", name, "--type", "bool", "--value", "true").code == 0
    code, text = sync(*arguments)
    assert code == Exit.PARTIAL
    assert "node 1, file astute.yaml" in text
    assert not (hiera / "astute.yaml").exists()
    assert "debug: true" in (hiera / "cluster.yaml").read_text()
    assert product("rm-override", *where, "-r", "astute").code == 0
    assert sync(*arguments)[0] == Exit.OK


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("uid", "77"),
        ("deployment_id", 9),
        ("fqdn", "other.example.com"),
        ("role", "../x"),
        ("configdb-sync", {"metadata": {"data_sources": ["-astute"]}}),
        ("configdb-sync", {"metadata": {"data_sources": 7}}),
    ],
)
def test_an_override_never_hides_who_a_node_is(product: Product, trees: Path, key: str, value: object) -> None:
    """U18: it must be possible to take it away again."""
    levels = ("--levels", "role=%{role},nodes=%{uid}")
    assert sync(product, trees, *levels)[0] == Exit.OK
    before = contents(trees)
    where = ("--env", 5, "-r", "astute", "--level", "role=compute", "--level", "nodes=2")
    text = json.dumps({key: value, "debug": True})
    assert product("override", *MEANT, *where, "--type", "json", "--value", text).code == 0
    for _ in range(2):
        code, shown = sync(product, trees, *levels)
        assert code == Exit.PARTIAL
        assert "node 2, file astute.yaml" in shown
        assert contents(trees) == before
    assert product("rm-override", *where, "--key", json.dumps([key])).code == 0
    assert sync(product, trees, *levels)[0] == Exit.OK
    assert "debug: true" in (trees / "node-2/etc/astute.yaml").read_text()


def test_one_run_takes_all_of_an_override_back(product: Product, tmp_path: Path) -> None:
    """U13: the run after it has nothing to send, not even to ConfigDB's records."""
    trees = tmp_path / "trees"
    path = make_node(trees, "1", globals="since: 2016-03-01\nkeep: 1\n") / "globals.yaml"
    where = ("--env", 5, "-r", "globals", "--level", "nodes=1")
    assert sync(product, trees)[0] == Exit.OK
    for key in ("since", "keep"):
        assert product("override", *MEANT, *where, "--key", key, "--type", "int", "--value", 7).code == 0
    assert sync(product, trees)[0] == Exit.OK
    assert product("rm-override", *where, "--key", "since").code == 0
    assert sync(product, trees)[0] == Exit.OK
    assert path.read_text() == "since: 2016-03-01\nkeep: 7\n"
    product.changing()
    assert sync(product, trees)[0] == Exit.OK
    assert product.changing() == []


def test_a_second_copy_of_a_nodes_files_freezes_nothing(product: Product, trees: Path, tmp_path: Path) -> None:
    """U18: the last run saw the other copy, without the override; this one still shows it."""
    other = shutil.copytree(trees, tmp_path / "other", symlinks=True)
    where = ("--env", 5, "-r", "globals", "--level", "nodes=2", "--key", "use_syslog")
    assert sync(product, trees)[0] == Exit.OK
    assert product("override", *MEANT, *where, "--type", "bool", "--value", "false").code == 0
    for place in (trees, other):
        assert sync(product, place)[0] == Exit.OK
    assert product("rm-override", *where).code == 0
    assert sync(product, other)[0] == Exit.OK
    code, text = sync(product, trees)
    assert code == Exit.PARTIAL
    assert "'use_syslog'" in text
    assert product("get", *where, "--values").out == "true\n"
    assert sync(product, trees, "--accept-configdb")[0] == Exit.OK
    for place in (trees, other):
        assert sync(product, place)[0] == Exit.OK
        assert contents(place)["node-2/etc/hiera/globals.yaml"] == contents(other)["node-2/etc/hiera/globals.yaml"]
    assert (trees / "node-2/etc/hiera/globals.yaml").read_text() == GLOBALS


@pytest.mark.parametrize("digests", [True, False])
def test_an_ambiguous_key_is_left_alone_until_a_side_is_taken(product: Product, trees: Path, digests: bool) -> None:
    assert sync(product, trees)[0] == Exit.OK
    key = ("--env", 5, "-r", "globals", "--level", "nodes=2", "--key", "use_syslog")
    assert product("override", *MEANT, *key, "--type", "bool", "--value", "false").code == 0
    assert sync(product, trees)[0] == Exit.OK
    lose_records(product)
    if not digests:
        lose_digests(product, "2")
    path = trees / "node-2/etc/hiera/globals.yaml"
    path.write_text(path.read_text().replace("use_syslog: false", "use_syslog: 7"))
    for _ in range(2):
        code, text = sync(product, trees)
        assert code == Exit.PARTIAL
        assert "'use_syslog'" in text
        assert "--accept-node" in text
        assert "use_syslog: 7" in path.read_text()
        assert product("get", *key, "--values").out == "true\n"
    assert sync(product, trees, "--accept-node")[0] == Exit.OK
    assert product("get", *key, "--values").out == "7\n"
    assert product("rm-override", *key).code == 0
    assert sync(product, trees)[0] == Exit.OK
    assert "use_syslog: 7" in path.read_text()


def test_a_node_may_be_named_by_its_fqdn(product: Product, trees: Path) -> None:
    assert sync(product, trees)[0] == Exit.OK
    where = ("--env", 5, "-r", "globals", "--key", "use_syslog", "--level")
    assert product("get", *where, "nodes=node-2.example.com").out == "true\n"
    unknown = product("get", *where, "nodes=node-9.example.com")
    assert unknown.code == Exit.USAGE
    assert "no run has seen" in unknown.err


def test_what_others_put_at_a_nodes_level_is_reported_and_replaced(product: Product, trees: Path) -> None:
    assert sync(product, trees)[0] == Exit.OK
    where = ("--env", 5, "-r", "globals", "--level", "nodes=2", "--key", "use_syslog")
    assert product("set", *where, "--type", "bool", "--value", "false").code == 0
    code, text = sync(product, trees)
    assert code == Exit.OK
    assert "someone else changed its values" in text
    assert product("get", *where).out == "true\n"


def test_the_report_file_is_for_its_owner_and_holds_no_secret(product: Product, trees: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    assert sync(product, trees, "--report", report)[0] == Exit.OK
    path = trees / "node-2/etc/astute.yaml"
    path.write_text(path.read_text().replace("CANARY-old", "CANARY-new"))
    code, text = sync(product, trees, "--report", report)
    assert code == Exit.OK
    assert "nova.db_password: " in text
    assert report.stat().st_mode & 0o777 == 0o600
    assert "CANARY" not in report.read_text()
    assert "db_password" in report.read_text()


def test_every_failure_leaves_nothing_half_written(product: Product, trees: Path) -> None:
    names = {path.name for path in trees.rglob("*")}
    assert sync(product, trees)[0] == Exit.OK
    assert {path.name for path in trees.rglob("*")} == names
