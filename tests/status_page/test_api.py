"""The API's calls that the pages are made of, over real sockets: what they tell, and to whom (S1-S8, T2, T12, T15)."""

from __future__ import annotations

import getpass
import json
from typing import Any

import pytest

from configdb_sync.tenants.paths import ResourcePath
from tests.status_page.conftest import HOSTILE, SCRIPT, SOURCE, TENANT, Shown
from tests.tenants.support import Api

MATRIX, RUNS = "/environments/1/matrix", "/environments/1/runs"
LOOKUP = "/environments/1/lookup"
OVERRIDES, FINDINGS = "/environments/1/overrides", "/environments/1/findings"
ASTUTE = "/v1.0/admin/environments/1/resources/globals?level=nodes=2"


def of_tenant(shown: Shown, tenant: str) -> Api:
    return Api(shown.public.port, shown.tenant_token(tenant))


def test_all_environments_with_their_newest_run(shown: Shown) -> None:
    (one,) = shown.admin.get("/environments").json["environments"]
    assert (one["environment"], one["status"], one["last_run"]["outcome"]) == (1, "ACTIVE", "OK")
    assert {held["tenant"] for held in one["tenants"]} == {"admin", TENANT}
    assert one["links"] == {"matrix": MATRIX, "runs": RUNS, "overrides": OVERRIDES, "findings": FINDINGS}
    assert shown.admin.get("/environments?marker=1").json == {"environments": [], "environments_next": None}


def test_nodes_by_data_sources(shown: Shown) -> None:
    found = shown.admin.get(MATRIX).json
    names = [source["name"] for source in found["data_sources"]]
    # What needs a look comes first.
    assert [(node["node"], node["marks"]) for node in found["nodes"]] == [
        ("2", ["drifted", "overridden"]),
        ("1", []),
        ("3", []),
    ]
    assert (found["node_count"], found["counts"]["ERROR"]) == (3, 0)
    assert found["counts"]["ACTIVE"] == sum(node["statuses"].count("ACTIVE") for node in found["nodes"])
    first = dict(zip(names, found["nodes"][1]["statuses"], strict=True))
    assert (first["astute"], first[SOURCE], first["override/node"]) == ("ACTIVE", "ACTIVE", None)
    assert found["nodes"][0]["level"] == {"nodes": "2"}
    owner = next(source for source in found["data_sources"] if source["name"] == SOURCE)
    assert (owner["tenant"], owner["links"]["self"]) == (TENANT, ResourcePath(TENANT, 1, SOURCE).url)


def test_nodes_are_chosen_and_paged(shown: Shown) -> None:
    def nodes(query: str) -> list[str]:
        return [node["node"] for node in shown.admin.get(f"{MATRIX}?{query}").json["nodes"]]

    assert nodes("node=NODE-2.") == ["2"]
    assert (nodes("status=ACTIVE"), nodes("status=ERROR")) == (["2", "1", "3"], [])
    assert nodes("status=null&node=3") == ["3"]
    first = shown.admin.get(f"{MATRIX}?limit=2&node=node").json
    assert (len(first["nodes"]), first["node_count"]) == (2, 3)
    assert [node["node"] for node in shown.admin.get(first["nodes_next"]).json["nodes"]] == ["3"]


def test_overrides_with_value_reason_end_and_effect(shown: Shown) -> None:
    found = shown.admin.get(OVERRIDES).json
    assert (found["environment"], found["count"], found["overrides_next"]) == (1, 2, None)
    one, hostile = found["overrides"]
    assert {
        name: one[name] for name in ("level", "data_source", "tenant", "key", "value", "reason", "effect", "why")
    } == {
        "level": {"nodes": "2"},
        "data_source": "globals",
        "tenant": "admin",
        "key": ["debug"],
        "value": True,
        "reason": SCRIPT,
        "effect": "full",
        "why": "",
    }
    assert one["author"] == getpass.getuser()
    assert one["time"] < one["until"]
    assert (hostile["key"], hostile["until"]) == (["hostile"], None)
    assert "CANARY" not in json.dumps(found)


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("text=DEBUG", ["debug"]),
        ("text=owned", ["debug", "hostile"]),
        ("text=nodes&limit=1", ["debug"]),
        ("text=never", []),
        ("only=ending", ["debug"]),
        ("only=ineffective", []),
        ("expiring=9h", ["debug"]),
        ("expiring=7h", []),
        ("text=CANARY", []),
    ],
)
def test_overrides_are_chosen(shown: Shown, query: str, keys: list[str]) -> None:
    found = shown.admin.get(f"{OVERRIDES}?{query}").json
    assert [one["key"][0] for one in found["overrides"]] == keys
    if "limit" in query:
        assert [one["key"] for one in shown.admin.get(found["overrides_next"]).json["overrides"]] == [["hostile"]]


def test_a_lookup_says_which_document_wins(shown: Shown) -> None:
    found = shown.admin.get(f"{LOOKUP}?node=node-2.cloud.example.com&key=debug").json
    assert {name: found[name] for name in ("environment", "node", "key", "merge", "found", "value", "data_source")} == {
        "environment": 1,
        "node": "2",
        "key": ["debug"],
        "merge": "first",
        "found": True,
        "value": True,
        "data_source": "globals",
    }
    layers = [(one["data_source"], one["level"], one["kind"], one["outcome"], one["value"]) for one in found["layers"]]
    assert layers == [
        ("globals", "/nodes/2/", "overrides", "wins", True),
        ("globals", "/nodes/2/", "values", "covered", False),
        ("astute", "/nodes/2/", "values", "hidden", False),
    ]
    assert shown.admin.get(f"{LOOKUP}?node=2&key=never").json["found"] is False
    assert "CANARY" not in json.dumps(shown.admin.get(f"{LOOKUP}?node=2&key=hostile&merge=deep").json)
    user = of_tenant(shown, TENANT)
    assert user.get(f"{LOOKUP}?node=1&key=debug").status == 401
    assert user.get(f"{ResourcePath(TENANT, 1).url}/lookup?node=1&key=debug").status == 404


def test_findings_of_the_watch(shown: Shown) -> None:
    found = shown.admin.get(FINDINGS).json
    (one,) = found["findings"]
    assert (one["kind"], one["node"], one["data_source"], one["settled_at"]) == ("drift", "2", "globals", None)
    assert one["first_seen_at"] == one["last_seen_at"]
    assert any(line.startswith("to be written: + hostile.") for line in one["changes"]), one["changes"]
    assert "CANARY" not in json.dumps(found)
    assert (found["count"], found["findings_next"], found["settled"]) == (1, None, [])
    assert found["last_round"]["outcome"] == "DRIFT"
    assert shown.admin.get(f"{FINDINGS}?text=GLOB").json["count"] == 1
    assert shown.admin.get(f"{FINDINGS}?text=never").json["findings"] == []


def test_runs_and_one_run(shown: Shown) -> None:
    found = shown.admin.get(f"{RUNS}?limit=1").json
    (run,) = found["runs"]
    assert (run["outcome"], run["nodes"], run["nodes_failed"], run["author"]) == ("OK", 3, 0, getpass.getuser())
    older = shown.admin.get(found["runs_next"]).json
    assert older["runs_next"] is None
    first = older["runs"][0]
    assert first["uploads"] > 0
    assert first["bytes"] > 100
    whole = shown.admin.get(first["links"]["self"]).json
    assert {key: value for key, value in whole.items() if key in first} == first
    assert [node["node"] for node in whole["done"]] == ["1", "2", "3"]
    assert (whole["trouble"], whole["stopped"]) == ([], None)


def test_a_documents_sides_are_masked_and_paged(shown: Shown) -> None:
    found = shown.admin.get(f"{ASTUTE}&show=layers").json
    by_key = {tuple(leaf["key"]): leaf for leaf in found["leaves"]}
    assert by_key["debug",]["mark"] == "overridden"
    assert by_key["hostile", "script"]["override"] == HOSTILE["script"]
    assert by_key["hostile", "long"]["effective"] == HOSTILE["long"]
    assert "CANARY" not in json.dumps(found)
    assert found["counts"]["overridden"] == len(HOSTILE) + 1
    paged: list[Any] = []
    url: str | None = f"{ASTUTE}&show=layers&limit=7"
    while url is not None:
        page = shown.admin.get(url).json
        paged += page["leaves"]
        url = page["leaves_next"]
    assert paged == found["leaves"]
    only = shown.admin.get(f"{ASTUTE}&show=layers&key=HOSTILE.SCR").json["leaves"]
    assert [leaf["key"] for leaf in only] == [["hostile", "script"]]


def test_a_documents_history_is_diffs(shown: Shown) -> None:
    found = shown.admin.get(f"{ASTUTE}&show=history").json["versions"]
    assert [version["version"] for version in found] == [2, 1]
    assert [change["key"] for change in found[1]["changes"]] == [["debug"]]
    assert found[1]["comment"] == "<script>document.title='owned'</script>"
    page = shown.admin.get(f"{ASTUTE}&show=history&limit=1").json
    assert page["versions"] == found[:1]
    assert shown.admin.get(page["versions_next"]).json["versions"] == found[1:]
    values = shown.admin.get(f"{ASTUTE}&show=history&kind=values").json["versions"]
    assert values[-1]["version"] == 1
    assert values[-1]["changes"]
    assert "CANARY" not in json.dumps([found, values])


TAGGED = [
    "/environments",
    MATRIX,
    RUNS,
    "/v1.0/admin/environments/1/matrix",
    "/v1.0/admin/environments/1/runs",
    f"{ASTUTE}&show=layers",
    f"{ASTUTE}&show=history",
]


@pytest.mark.parametrize("target", TAGGED)
def test_etags_as_everywhere(shown: Shown, target: str) -> None:
    found = shown.admin.get(target)
    assert found.status == 200
    same = shown.admin.get(target, f"If-None-Match: {found.etag}")
    assert (same.status, same.etag, same.body) == (304, found.etag, b"")
    head = shown.admin("HEAD", target)
    assert (head.status, head.etag, head.body) == (204, found.etag, b"")
    assert shown.admin.get(target, 'If-Match: "x"').status == 412
    assert shown.admin.get(target, "If-Match: x").status == 400
    assert shown.admin.post(target).status == 405


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("/environments/99/matrix", 404),
        ("/environments/99/runs", 404),
        ("/environments/01/matrix", 404),
        ("/environments/1", 404),
        ("/environments/1/runs/req-x", 404),
        ("/environments/1/runs/last", 404),
        ("/environments/1/runs/req-00000000-0000-0000-0000-000000000000", 404),
        ("/v1.0/never/environments/1/matrix", 404),
        ("/v1.0/admin/environments/2/runs", 404),
        (f"{MATRIX}?status=x", 400),
        (f"{MATRIX}?x=1", 400),
        (f"{MATRIX}?limit=0", 400),
        (LOOKUP, 400),
        (f"{LOOKUP}?node=2", 400),
        (f"{LOOKUP}?node=2&key=a..b", 400),
        (f"{LOOKUP}?node=2&key=a&merge=x", 400),
        (f"{LOOKUP}?node=%2F&key=a", 400),
        (f"{LOOKUP}?node=77&key=a", 404),
        ("/environments/99/lookup?node=1&key=a", 404),
        ("/v1.0/admin/environments/1/lookup?node=1&key=a", 404),
        ("/environments/99/overrides", 404),
        ("/environments/99/findings", 404),
        ("/v1.0/admin/environments/2/overrides", 404),
        ("/v1.0/never/environments/1/findings", 404),
        (f"{OVERRIDES}?only=x", 400),
        (f"{OVERRIDES}?expiring=soon", 400),
        (f"{OVERRIDES}?limit=0", 400),
        (f"{FINDINGS}?x=1", 400),
        (f"{RUNS}?marker=x", 400),
        (f"{RUNS}?marker=9999999999999999999", 400),
        (f"{RUNS}?marker=-1", 400),
        (f"{ASTUTE}&show=x", 400),
        (f"{ASTUTE}&show=history&kind=x", 400),
        (f"{ASTUTE}&show=history&marker=x", 400),
        ("/v1.0/admin/environments/1/resources/globals?show=layers", 400),
        ("/v1.0/admin/environments/1/resources/globals?show=layers&level=x", 400),
        ("/v1.0/admin/environments/1/resources/globals?show=layers&level=nodes=%2F", 400),
        ("/v1.0/admin/environments/1/resources/globals?show=history&level=nodes=..", 400),
        (f"/v1.0/admin/environments/1/resources/globals?level=nodes={'a' * 129}", 400),
        ("/v1.0/admin/environments/1/resources/globals?level=n%2F=1", 400),
        ("/v1.0/admin/environments/1/resources/globals?show=layers&level=zone=1", 404),
        ("/v1.0/admin/environments/1/resources/never?show=layers&level=", 404),
        (f"{ResourcePath('admin', 1, SOURCE).url}?show=layers&level=", 301),
    ],
)
def test_what_cant_be_asked(shown: Shown, target: str, status: int) -> None:
    answer = shown.admin.get(target)
    assert answer.status == status
    if status >= 400:
        assert set(answer.json["error"]) == {"code", "title", "message", "request_id"}


def test_a_tenant_is_told_of_its_own_alone(shown: Shown) -> None:
    user, base = of_tenant(shown, TENANT), ResourcePath(TENANT, 1).url
    found = user.get(f"{base}/matrix").json
    assert [source["name"] for source in found["data_sources"]] == [SOURCE]
    assert [(node["node"], node["statuses"]) for node in found["nodes"]] == [("1", ["ACTIVE"])]
    runs = user.get(f"{base}/runs").json["runs"]
    assert not {"author", "host", "place", "uploads", "bytes", "digest"} & runs[0].keys()
    run = user.get(runs[0]["links"]["self"]).json
    assert run["done"][0] == {"node": "1", "fqdn": "node-1.cloud.example.com", "outcome": "done"}
    assert "trouble" not in run
    for name in ("overrides", "findings"):
        none = user.get(f"{base}/{name}").json
        assert (none[name], none["count"]) == ([], 0), name
    assert user.get(f"{base}/findings").json["last_round"] is None
    assert found["nodes"][0]["marks"] == []
    assert [(one["nodes"], one["nodes_failed"], one["outcome"]) for one in (*runs, run)] == [(1, 0, "OK")] * 3
    last = [found["last_run"], user.get(f"{ResourcePath(TENANT).url}/environments/1/matrix").json["last_run"]]
    assert [one["nodes"] for one in last] == [1, 1]
    own = user.get(f"{ResourcePath(TENANT, 1, SOURCE).url}?level=nodes=1&show=layers").json
    assert [leaf["key"] for leaf in own["leaves"]] == [["a"]]
    assert "admin" not in json.dumps([found, runs, run, own])


@pytest.mark.parametrize("target", ["/environments", MATRIX, RUNS, "/v1.0/admin/environments/1/matrix"])
def test_a_tenant_is_told_of_no_other(shown: Shown, target: str) -> None:
    assert of_tenant(shown, TENANT).get(target).status in {401, 404}
    assert shown.admin.get(target, "X-Auth-Token: x").status == 401
