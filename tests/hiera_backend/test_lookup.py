"""U15: what is asked of ConfigDB and when: once a data source, within the time to live never, then conditionally."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hiera_backend.backend import Driver, settings, told
from tests.hiera_backend.servers import Server

LEVELS = ["plugins/ldap", "override/node/node-1.domain.tld", "override/common", "class/nova", "globals", "astute"]
ASTUTE = {"debug": False, "nova": {"workers": 4, "password": "CANARY"}, "uid": "1"}
GLOBALS = {"rates": [1, 2.5], "debug": True}
FIRST = ["/components", "etags", "resources/2/values?effective", "resources/1/values?effective"]


class Node:
    """A node that looks things up: each run is a process with a memory of its own."""

    def __init__(self, ruby: Driver, folder: Path, **values: Any) -> None:
        self.ruby, self.file, self.folder = ruby, settings(folder, **values), folder
        self.datadir: Path | None = None
        self._run = 0

    def new_run(self) -> None:
        self._run += 1

    def asked(self, ahead: float = 0, levels: list[str] = LEVELS, **more: Any) -> dict[str, Any]:
        datadir = str(self.datadir) if self.datadir else None
        session = f"{self.file}-{self._run}"
        more = {"settings": str(self.file), "session": session, "ahead": ahead, "datadir": datadir, **more}
        return self.ruby("data", levels=levels, **more)

    def data(self, ahead: float = 0, levels: list[str] = LEVELS) -> list[Any]:
        answer = self.asked(ahead, levels)
        assert "ok" in answer, answer
        assert answer["said"] == []
        return list(answer["ok"])


@pytest.fixture
def node(ruby: Driver, server: Server, tmp_path: Path) -> Node:
    return Node(ruby, tmp_path / "node", url=server.url)


EXPECTED = [told({}), told({}), told({}), told({}), told(GLOBALS), told(ASTUTE)]


def test_each_data_source_costs_one_request_and_one_without_data_none(node: Node, server: Server) -> None:
    for _ in range(3):
        assert node.data() == EXPECTED
    assert server.lines() == FIRST


def test_a_second_run_within_the_time_to_live_asks_nothing(node: Node, server: Server) -> None:
    node.data()
    server.lines()
    node.new_run()
    assert node.data(ahead=290) == EXPECTED
    assert server.lines() == []


def test_after_it_conditional_requests_alone(node: Node, server: Server) -> None:
    node.data()
    server.lines()
    node.new_run()
    assert node.data(ahead=310) == EXPECTED
    assert [line for line, _, _ in server.asked] == ["/components", "/environments/5/nodes/1/etags"]
    assert server.conditional()
    # And they count for as long again.
    assert node.data(ahead=600) == EXPECTED
    assert server.lines() == []
    # A process that lives as long as a Puppet master asks again too.
    assert node.data(ahead=620) == EXPECTED
    assert server.conditional()


def test_only_what_changed_is_fetched_again(node: Node, server: Server) -> None:
    node.data()
    server.put("astute", {"debug": True}, "overrides")
    node.new_run()
    assert node.data(ahead=10) == EXPECTED
    assert node.data(ahead=310)[-1] == told({**ASTUTE, "debug": True})
    assert server.lines() == ["/components", "etags", "resources/1/values?effective"]


def test_a_data_source_that_is_new_is_seen_after_the_time_to_live(node: Node, server: Server) -> None:
    node.data()
    server.put("plugins/ldap", {"ldap": {"url": "x"}})
    server.put("override/node", {"uid": "1"})
    assert node.data(ahead=310)[:2] == [told({"ldap": {"url": "x"}}), told({"uid": "1"})]


def test_another_component_of_the_environment_is_seen(node: Node, server: Server) -> None:
    """Which isn't told by the list of all components: that one hasn't changed."""
    node.data()
    both = {"components": [1, 2]}
    server.send("PATCH", "/resource_definitions/6", {"name": "override/common"})
    node.data(ahead=310)
    server.send("PATCH", "/environments/5", both)
    server.put("override/common", {"from": "the other"})
    assert node.data(ahead=620)[2] == told({"from": "the other"})
    server.send("PATCH", "/environments/5", {"components": [1]})
    assert node.data(ahead=930)[2] == told({})
    server.send("PATCH", "/environments/5", both)
    assert node.data(ahead=1240)[2] == told({"from": "the other"})


def test_many_nodes_of_a_puppet_master(node: Node, server: Server) -> None:
    for name in range(40):
        server.put("astute", {"uid": name}, node=f"n{name}")
    for name in (*range(40), 0):
        assert node.asked(place=f"n{name}")["ok"][-1] == told({"uid": name})
    asked = [line for line, _, _ in server.asked]
    assert len(asked) == len(set(asked)) + 39  # the list of components for each, nothing else twice


def test_a_clock_that_goes_back_makes_everything_old(node: Node, server: Server) -> None:
    node.data()
    server.lines()
    node.new_run()
    assert node.data(ahead=-3600) == EXPECTED
    assert server.conditional()


def test_the_cache_is_its_owners_alone(node: Node, server: Server) -> None:
    node.data()
    cache = node.folder / "cache"
    assert cache.stat().st_mode & 0o777 == 0o700
    files = list(cache.iterdir())
    assert len(files) == 3
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"names": 5}', "\xff", '{"names": {}, "digests": {}}', "9" * 500]
)
def test_a_spoiled_cache_is_as_none(node: Node, server: Server, content: str) -> None:
    node.data()
    for path in (node.folder / "cache").iterdir():
        path.write_bytes(content.encode("latin-1"))
    server.lines()
    node.new_run()
    assert node.data() == EXPECTED
    assert server.lines() == FIRST


def test_a_cached_file_that_others_can_read_is_told_and_not_used(node: Node, server: Server) -> None:
    node.data()
    (opened,) = (path for path in (node.folder / "cache").iterdir() if "CANARY" in path.read_text())
    opened.chmod(0o644)
    node.new_run()
    answer = node.asked()
    assert answer["ok"] == EXPECTED
    assert len(answer["said"]) == 1
    assert "is open to others (mode 0644)" in answer["said"][0]
    assert opened.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("spoil", ["mode", "link", "file"])
def test_a_cache_folder_that_others_can_write_is_not_used(
    node: Node, server: Server, tmp_path: Path, spoil: str
) -> None:
    cache = node.folder / "cache"
    if spoil == "mode":
        cache.mkdir(mode=0o755)
        cache.chmod(0o755)
    elif spoil == "link":
        (tmp_path / "else").mkdir(mode=0o700)
        cache.symlink_to(tmp_path / "else")
    else:
        cache.write_text("")
    answer = node.asked()
    assert answer["ok"] == EXPECTED
    assert answer["said"]
    assert not cache.is_dir() or list(cache.iterdir()) == []


class TestTheNodesOwnFiles:
    """Where ConfigDB has nothing, the file that Hiera would read stands; it also gives types, and tells of changes."""

    @pytest.fixture
    def hiera(self, node: Node, tmp_path: Path) -> Path:
        folder = tmp_path / "hiera"
        (folder / "class").mkdir(parents=True)
        (folder / "globals.yaml").write_text("debug: :sometimes\nrates: [1, 2.5]\n")
        (folder / "class/nova.yaml").write_text("own: 2016-01-31\n")
        node.datadir = folder
        return folder

    def test_a_file_stands_where_configdb_has_nothing(self, node: Node, hiera: Path) -> None:
        assert node.data()[3] == {"h": [[{"s": "own"}, {"d": "2016-01-31"}]]}

    def test_types_come_from_the_file(self, node: Node, server: Server, hiera: Path) -> None:
        server.put("globals", {"debug": ":always"})
        assert node.data()[4] == {"h": [[{"s": "debug"}, {"y": "always"}]]}
        (hiera / "globals.yaml").write_text("debug: 'text'\n")
        assert node.data()[4] == told({"debug": ":always"})

    def test_a_file_that_was_written_since_makes_us_ask_again(self, node: Node, server: Server, hiera: Path) -> None:
        """A run of the product writes what changed in ConfigDB: that is no time to wait for the time to live."""
        node.data()
        server.put("astute", {"debug": True}, "overrides")
        assert node.data()[-1] == told(ASTUTE)
        (hiera / "astute.yaml").write_text(json.dumps({**ASTUTE, "debug": True}))
        node.new_run()
        assert node.data(ahead=5)[-1] == told({**ASTUTE, "debug": True})
        assert server.lines() == ["/components", "etags", "resources/1/values?effective"]
        assert node.data(ahead=5)[-1] == told({**ASTUTE, "debug": True})
        assert server.lines() == []

    def test_files_that_are_set_to_be_read_are(self, ruby: Driver, server: Server, hiera: Path, tmp_path: Path) -> None:
        node = Node(ruby, tmp_path / "other", url=server.url, files=["globals", "class/*", "override/node"])
        node.datadir = hiera
        (hiera / "override/node").mkdir(parents=True)
        (hiera / "override/node/node-1.domain.tld.yaml").write_text("from: file\n")
        server.put("override/node", {"from": "ConfigDB"})
        found = node.data()
        assert found[1] == told({"from": "file"})
        assert found[4] == {"h": [[{"s": "debug"}, {"y": "sometimes"}], [{"s": "rates"}, told([1, 2.5])]]}
        assert found[5] == told(ASTUTE)

    @pytest.mark.parametrize("content", [b"a: [", b"a: \xff", b"- list", b"a: !ruby/object:Object {}", b"--- text"])
    def test_a_file_that_is_no_mapping_costs_its_types_alone(
        self, node: Node, server: Server, hiera: Path, content: bytes
    ) -> None:
        (hiera / "globals.yaml").write_bytes(content)
        assert node.asked()["ok"][4] == told(GLOBALS)

    def test_a_broken_file_that_alone_has_the_data_is_an_error(self, node: Node, hiera: Path) -> None:
        (hiera / "class/nova.yaml").write_text("password: [CANARY")
        answer = node.asked()
        assert answer["error"] == "SettingsError"
        assert "class/nova.yaml isn't YAML, line" in answer["text"]
        assert "CANARY" not in answer["text"]

    @pytest.mark.parametrize("path", ["../globals", "class/../globals", "/globals", "", "a//b", ".", "a\\b", "a\nb"])
    def test_a_level_that_leads_elsewhere_has_no_data(self, node: Node, hiera: Path, path: str) -> None:
        assert node.data(levels=[path]) == [told({})]


@pytest.mark.parametrize("value", ["", "a/b", "..", "x" * 129, "a\nb"])
def test_a_level_value_that_can_not_be_one_is_refused(node: Node, server: Server, value: str) -> None:
    answer = node.asked(place=value)
    assert answer["error"] == "SettingsError"
    assert "the value of the level nodes" in answer["text"]
    assert server.lines() == []


def test_odd_level_values_are_one_step_of_the_address(node: Node, server: Server) -> None:
    value = "Bob's ∑ %41?#&"
    path = f"/environments/5/nodes/{requests_quoted(value)}/resources/astute/values"
    assert server.send("PUT", path, {"odd": True}).status_code == 204
    assert node.asked(place=value)["ok"][-1] == told({"odd": True})


def requests_quoted(text: str) -> str:
    from urllib.parse import quote

    return quote(text, safe="")


def test_the_products_own_records_are_no_level(node: Node, server: Server) -> None:
    server.put("records", {"globals": {"created": True}})
    assert node.data(levels=["records", "elsewhere"]) == [told({}), told({})]
    assert server.lines() == ["/components", "etags"]


def test_two_data_sources_of_one_name_are_refused(node: Node, server: Server) -> None:
    body = {"name": "twice", "resource_definitions": [{"name": "astute"}]}
    component = server.send("POST", "/components", body).json()["id"]
    server.send("PATCH", "/environments/5", {"components": [1, component]})
    answer = node.asked()
    assert answer["error"] == "AwayError"
    assert 'two data sources "astute"' in answer["text"]
