"""Values, overrides, effective data, ETags (U9, U10): tuning-box's rules without its faults."""

from __future__ import annotations

import json
from typing import Any

import pytest

from configdb_sync.jsonvalues import EMPTY_DIGEST, document_digest
from tests.support.configdb_server import CLUSTER, NODE, ROOT, Api


def test_the_merge_of_the_facts(fuel: Api) -> None:
    fuel.good("PUT", ROOT + "/values", {"a": 1, "deep": {"x": 1, "y": 2}, "l": [1, 2]})
    fuel.good("PUT", NODE + "/values", {"b": 2, "deep": {"x": 9}})
    fuel.good("PUT", NODE + "/overrides", {"a": "ovr", "deep": {"q": 0}})
    fuel.good("PUT", ROOT + "/overrides", {"a": "root-ovr", "b": "root-ovr"})
    effective = fuel.get(NODE + "/values?effective")
    assert effective.text == '{"a":"ovr","deep":{"q":0},"l":[1,2],"b":2}\n'
    assert effective.headers["ETag"] == f'"{document_digest(effective.json or {})}"'
    place = "/cluster/c1/nodes/n1/"
    assert fuel.good("GET", NODE + "/values?effective&show_lookup") == {
        "a": ["ovr", place],
        "deep": [{"q": 0}, place],
        "l": [[1, 2], "/"],
        "b": [2, place],
    }
    expected = {"a": "root-ovr", "deep": {"x": 1, "y": 2}, "l": [1, 2], "b": "root-ovr"}
    assert fuel.good("GET", ROOT + "/values?effective=false") == expected
    assert fuel.good("GET", CLUSTER + "/values?effective") == expected
    assert fuel.good("GET", NODE + "/overrides?effective") == {"a": "ovr", "deep": {"q": 0}}


def test_a_level_value_is_one_document_whatever_its_parents(fuel: Api) -> None:
    fuel.good("PUT", NODE + "/values", {"a": 1})
    assert fuel.good("GET", NODE.replace("c1", "c2") + "/values") == {"a": 1}


def test_names_with_slashes_and_ids_lead_to_the_same_document(fuel: Api) -> None:
    base = "/environments/5/cluster/c1/resources/"
    fuel.good("PUT", base + "override/plugins/values", {"a": 1})
    for name in ("override%2Fplugins", "2", "+2", "02"):
        assert fuel.good("GET", f"{base}{name}/values") == {"a": 1}
    # A definition whose name is a number is reached by its own id alone.
    fuel.good("POST", "/resource_definitions", {"name": "2", "component_id": 1})
    assert fuel.good("GET", base + "2/values") == {"a": 1}
    assert fuel.good("GET", base + "3/values") == {}
    for missing in ("nope", "99", "-1", str(2**70)):
        assert fuel.get(f"{base}{missing}/values").status_code == 404
        assert fuel.put(f"{base}{missing}/values", {}).status_code == 404


def test_a_name_that_two_components_have_is_ambiguous_and_its_id_is_not(fuel: Api) -> None:
    fuel.good("POST", "/components", {"name": "other", "resource_definitions": [{"name": "globals"}]})
    fuel.good("PATCH", "/environments/5", {"components": [1, 2]})
    answer = fuel.get(ROOT + "/values")
    assert answer.status_code == 409
    assert "1, 3" in answer.text
    assert fuel.good("GET", ROOT.replace("globals", "3") + "/values") == {}


@pytest.mark.parametrize(
    "value", ["a b", "\u2603", "%", "a?b", "#", "..", "resources", "etags", "x" * 128, "\U0001f600" * 128]
)
def test_level_values_are_any_text(fuel: Api, value: str) -> None:
    from urllib.parse import quote

    url = f"/environments/5/cluster/{quote(value, safe='')}/resources/globals/values"
    fuel.good("PUT", url, {"v": value})
    assert fuel.good("GET", url) == {"v": value}
    assert fuel.good("GET", "/environments/5/hierarchy_levels/cluster")["values"] == [value]


def test_levels_are_a_prefix_of_the_declared_ones(fuel: Api) -> None:
    for levels in ("nodes/n1", "nodes/n1/cluster/c1", "cluster/c1/nodes/n1/rack/r1", "x/y", "cluster/c1/cluster/c1"):
        for method, json_body in (("GET", ...), ("PUT", {})):
            answer = fuel(method, f"/environments/5/{levels}/resources/globals/values", json_body)
            assert answer.status_code == 404
            assert "level" in answer.text
        assert fuel.get(f"/environments/5/{levels}/etags").status_code == 404
    assert fuel.get(f"/environments/5/cluster/{'x' * 129}/resources/globals/values").status_code == 400
    assert fuel.get("/environments/5/cluster/a%2Fb/resources/globals/values").status_code == 404


def test_put_replaces_and_keeps_the_order_of_keys(fuel: Api) -> None:
    fuel.good("PUT", NODE + "/values", {"a": 1})
    text = '{"z":1,"a":{"y":[],"b":1.0},"":-0.0,"big":123456789012345678901234567890,"s":"\\ud800\\u2603"}'
    answer = fuel.put(NODE + "/values", data=text, content_type="application/json")
    assert answer.status_code == 204
    assert not answer.data
    assert "Content-Type" not in answer.headers
    assert fuel.get(NODE + "/values").text == text + "\n"
    assert fuel.get(NODE + "/values?effective").text == text + "\n"


def test_equal_documents_of_other_key_order_are_kept_apart(fuel: Api) -> None:
    fuel.good("PUT", NODE + "/values", {"a": 1, "b": 2})
    fuel.good("PUT", CLUSTER + "/values", {"b": 2, "a": 1})
    assert fuel.get(NODE + "/values").text == '{"a":1,"b":2}\n'
    assert fuel.get(CLUSTER + "/values").text == '{"b":2,"a":1}\n'
    assert fuel.get(NODE + "/values").headers["ETag"] == fuel.get(CLUSTER + "/values").headers["ETag"]


def test_an_equal_document_changes_nothing(fuel: Api) -> None:
    first = fuel.put(NODE + "/values", {"a": 1, "b": 2})
    again = fuel.put(NODE + "/values", {"b": 2, "a": 1})
    assert (again.status_code, again.headers["ETag"]) == (204, first.headers["ETag"])
    assert again.headers["X-Configdb-Version"] == "1"
    assert fuel.get(NODE + "/values").text == '{"a":1,"b":2}\n'
    assert len(fuel.good("GET", NODE + "/values/history")) == 1
    other = fuel.put(NODE + "/values", {"a": 1.0, "b": 2})
    assert other.headers["X-Configdb-Version"] == "2"


def test_a_document_never_written_is_empty_and_has_a_tag(fuel: Api) -> None:
    for suffix in ("/values", "/overrides", "/values?effective"):
        answer = fuel.get(NODE + suffix)
        assert (answer.json, answer.headers["ETag"]) == ({}, f'"{EMPTY_DIGEST}"')
    assert fuel.get(NODE + "/values").headers["X-Configdb-Version"] == "0"


@pytest.mark.parametrize("value", [[], [["k", "v"]], "x", "", 1, True, None, 1.5])
def test_only_objects_are_documents(fuel: Api, value: Any) -> None:
    fuel.good("PUT", NODE + "/values", {"a": 1})
    for kind in ("values", "overrides"):
        answer = fuel.put(f"{NODE}/{kind}", value)
        assert answer.status_code == 422
        assert "object" in answer.text
    assert fuel.good("GET", NODE + "/values?effective") == {"a": 1}


def test_nul_is_refused_alike_by_both_databases(fuel: Api) -> None:
    for document in ({"a": "x\0"}, {"\0": 1}, {"a": [{"b\\\0": 1}]}):
        assert fuel.put(NODE + "/values", document).status_code == 422
    fuel.good("PUT", NODE + "/values", {"a": "\\u0000"})
    assert fuel.good("GET", NODE + "/values") == {"a": "\\u0000"}


def test_conditions_of_writes(fuel: Api) -> None:
    url = NODE + "/values"
    assert fuel.put(url, {"a": 1}, headers={"If-Match": "*"}).status_code == 412
    assert fuel.put(url, {"a": 1}, headers={"If-Match": '"x"'}).status_code == 412
    made = fuel.put(url, {"a": 1}, headers={"If-None-Match": "*"})
    assert made.status_code == 204
    refused = fuel.put(url, {"a": 2}, headers={"If-None-Match": "*"})
    assert (refused.status_code, refused.headers["ETag"]) == (412, made.headers["ETag"])
    assert fuel.put(url, {"a": 2}, headers={"If-Match": f'"{EMPTY_DIGEST}"'}).status_code == 412
    assert fuel.put(url, {"a": 2}, headers={"If-Match": f'"y", {made.headers["ETag"]}'}).status_code == 204
    assert fuel.put(url, {"a": 3}, headers={"If-Match": made.headers["ETag"]}).status_code == 412
    assert fuel.put(url, {"a": 3}, headers={"If-Match": "nonsense"}).status_code == 400
    assert fuel.good("GET", url) == {"a": 2}
    overrides = NODE + "/overrides"
    assert fuel.put(overrides, {"a": 2}, headers={"If-Match": f'"{EMPTY_DIGEST}"'}).status_code == 204
    assert fuel.put(overrides + "/keys/set", [["a", 3]], headers={"If-Match": '"x"'}).status_code == 412


def test_an_empty_first_write_is_a_write(fuel: Api) -> None:
    assert fuel.put(NODE + "/values", {}, headers={"If-None-Match": "*"}).status_code == 204
    assert fuel.put(NODE + "/values", {}, headers={"If-None-Match": "*"}).status_code == 412
    assert fuel.put(NODE + "/values/keys/set", [["a", 1]]).status_code == 204


@pytest.mark.parametrize("suffix", ["/values", "/overrides", "/values?effective"])
def test_conditions_of_reads(fuel: Api, suffix: str) -> None:
    fuel.good("PUT", CLUSTER + "/values", {"a": 1, "b": 2})
    fuel.good("PUT", NODE + "/values", {"a": 1})
    fuel.good("PUT", NODE + "/overrides", {"a": 2})
    url = NODE + suffix
    tag = fuel.get(url).headers["ETag"]
    for value in (tag, f"W/{tag}", f'"x",{tag}', "*"):
        answer = fuel.get(url, headers={"If-None-Match": value})
        assert (answer.status_code, answer.data, answer.headers["ETag"]) == (304, b"", tag)
    assert fuel.get(url, headers={"If-None-Match": '"x"'}).status_code == 200
    assert fuel.get(url, headers={"If-None-Match": "x"}).status_code == 400
    assert fuel.get(url, headers={"If-Match": '"x"'}).status_code == 412
    assert fuel.get(url, headers={"If-Match": tag}).status_code == 200
    head = fuel("HEAD", url)
    assert (head.status_code, head.data, head.headers["ETag"]) == (200, b"", tag)


def test_one_key_by_its_path(fuel: Api) -> None:
    fuel.good("PUT", ROOT + "/values", {"r": {"s": None}})
    fuel.good("PUT", NODE + "/values", {"a": {"b": [10, {"c": 1}]}})
    fuel.good("PUT", NODE + "/overrides", {"o": 1})
    assert fuel.good("GET", NODE + "/values?key=a.b.1.c") == 1
    assert fuel.good("GET", NODE + "/values?effective&key=r.s") is None
    assert fuel.good("GET", NODE + "/values?effective&key=o") == 1
    assert fuel.good("GET", NODE + "/overrides?key=o") == 1
    assert fuel.good("GET", NODE + "/values?effective&show_lookup&key=r.s") == [None, "/"]
    for query in (
        "key=x",
        "key=a.b.9",
        "key=a.b.x",
        "key=r",
        "effective&key=a.b.0.c",
        "key=",
        "effective&show_lookup&key=x",
    ):
        assert fuel.get(f"{NODE}/values?{query}").status_code == 409, query


def test_queries_that_contradict_themselves(fuel: Api) -> None:
    assert fuel.get(NODE + "/values?show_lookup").status_code == 409
    assert fuel.get(NODE + "/values?effective&version=1").status_code == 409


def test_keys_operations(fuel: Api) -> None:
    url = NODE + "/values/keys/"
    assert fuel.put(url + "set", [["a", 1]]).status_code == 404
    fuel.good("PUT", NODE + "/values", {"a": {"b": 1}})
    assert fuel.put(url + "set", [["a", "c", [1, 2]], ["d", None]]).status_code == 204
    assert fuel.patch(url + "delete", [["a", "b"], ["a", "c", "0"]]).status_code == 204
    answer = fuel.put(url + "get", [["a"], ["d"]])
    assert (answer.status_code, answer.json) == (200, [{"c": [2]}, None])
    assert fuel.good("GET", NODE + "/values") == {"a": {"c": [2]}, "d": None}
    for operation, body, status in (
        ("set", [["x", "y", 1]], 409),
        ("set", [["a"]], 409),
        ("set", [["a", "c", "x", 1]], 409),
        ("delete", [["x"]], 409),
        ("get", [["x"]], 409),
        ("set", {"a": 1}, 422),
        ("set", ["a"], 422),
        ("set", [["a", "\0"]], 422),
    ):
        assert fuel.put(url + operation, body).status_code == status, body
    assert fuel.get(url + "get").status_code == 405
    assert fuel.put(url + "erase", []).status_code == 404
    # The document is there by its values; its overrides are {}.
    assert fuel.put(NODE + "/overrides/keys/set", [["o", 1]]).status_code == 204
    assert fuel.good("GET", NODE + "/overrides") == {"o": 1}


def test_keys_cannot_grow_a_document_beyond_depth_or_size(make: Any) -> None:
    from configdb_sync.configdb_server.messages import ServerLimits

    api: Api = make(limits=ServerLimits(body=2000))
    api.good("POST", "/components", {"name": "c", "resource_definitions": [{"name": "globals"}]})
    api.good("POST", "/environments", {"id": 5, "components": ["c"], "hierarchy_levels": []})
    api.good("PUT", ROOT + "/values", {"a": "x" * 1000})
    assert api.put(ROOT + "/values/keys/set", [["b", "x" * 1500]]).status_code == 413
    deep: Any = 1
    for _ in range(190):
        deep = [deep]
    api.good("PUT", ROOT + "/values", {"a": deep})
    path = ["a", *([0] * 190)]
    assert api.put(ROOT + "/values/keys/set", [[*path, deep]]).status_code == 422
    assert api.good("GET", ROOT + "/values") == {"a": deep}


def test_json_is_strict_both_ways(fuel: Api) -> None:
    for text in ("NaN", "Infinity", "1e400", "[", "", "'x'", "\ufeff", "1 2", "[" * 100_000, '{"a":"\t"}', "9" * 5000):
        answer = fuel.put(NODE + "/values", data=f'{{"a":{text}}}'.encode(), content_type="application/json")
        assert answer.status_code == 400, text[:20]
    for raw in (b'{"a":"\xe9"}', '{"a":1}'.encode("utf-16"), b"\xff"):
        assert fuel.put(NODE + "/values", data=raw, content_type="application/json").status_code == 400
    for raw in (b'\xef\xbb\xbf{"a":1}', b'{"a":0,"a":1}', b' {"a": 1}\r\n'):
        fuel.good("PUT", NODE + "/values", data=raw, content_type="application/json; charset=utf-8")
        assert fuel.good("GET", NODE + "/values") == {"a": 1}


def test_a_big_document_comes_back_whole(fuel: Api) -> None:
    document = {f"key-{number}": {"text": "x" * 200, "list": list(range(40))} for number in range(600)}
    fuel.good("PUT", NODE + "/values", document)
    assert json.loads(fuel.get(NODE + "/values?effective").text) == document
