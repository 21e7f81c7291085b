"""One shape for every error (``docs/configdb-api.md``, Errors): ``{"msg", "message", "status"}``, with a true text."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from werkzeug.test import EnvironBuilder, TestResponse, run_wsgi_app

from configdb_sync import __version__
from configdb_sync.configdb_server.messages import ServerLimits
from configdb_sync.web.access import TokenAccess
from tests.support.configdb_server import NODE, ROOT, Api

VALUES = NODE + "/values"
JSON = "application/json"


def check(answer: TestResponse, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.content_type == JSON
    body = answer.json
    assert isinstance(body, dict)
    assert set(body) == {"msg", "message", "status"}
    assert body["msg"] == body["message"]
    assert body["status"] == status
    assert answer.text.endswith("}\n")
    assert answer.headers["Server-Product"] == f"configdb-sync/{__version__}"
    return body


WALK: list[tuple[str, str, dict[str, Any], int, str]] = [
    ("GET", "/", {}, 404, "nothing"),
    ("GET", "/nowhere", {}, 404, "nothing"),
    ("GET", "/components/", {}, 404, "nothing"),
    ("GET", "//components", {}, 404, "nothing"),
    ("GET", "/components/abc", {}, 404, "nothing"),
    ("GET", "/components/-1", {}, 404, "nothing"),
    ("GET", "/environments/abc", {}, 404, "nothing"),
    ("GET", "/environments/5/", {}, 404, "nothing"),
    ("GET", "/environments//5", {}, 404, "nothing"),
    ("GET", "/environments/5/resources//values", {}, 404, "nothing"),
    ("GET", "/environments/5/nodes/1/values", {}, 404, "nothing"),
    ("GET", "/components/\u0663", {}, 404, "nothing"),
    ("GET", "/components/7", {}, 404, "component 7"),
    ("GET", "/resource_definitions/7", {}, 404, "resource definition 7"),
    ("GET", "/environments/7", {}, 404, "environment 7"),
    ("GET", "/environments/7/resources/globals/values", {}, 404, "environment 7"),
    ("GET", "/environments/7/overrides", {}, 404, "environment 7"),
    ("GET", "/environments/5/resources/nope/values", {}, 404, "'nope'"),
    ("GET", "/environments/5/nodes/1/resources/globals/values", {}, 404, "'nodes', expected 'cluster'"),
    ("GET", "/environments/5/hierarchy_levels/rack", {}, 404, "'rack'"),
    ("GET", VALUES + "?version=3", {}, 404, "version"),
    ("PUT", VALUES + "/keys/set", {"json": [["a", 1]]}, 404, "/cluster/c1/nodes/n1/"),
    ("POST", VALUES, {"json": {}}, 405, "PUT"),
    ("DELETE", VALUES, {}, 405, "PUT"),
    ("OPTIONS", "/components", {}, 405, "POST"),
    ("PATCH", "/components", {"json": {}}, 405, "POST"),
    ("POST", VALUES + "/keys/set", {"json": []}, 405, "PATCH"),
    ("BREW", "/components", {}, 405, "POST"),
    ("PUT", "/environments/5/overrides", {"json": {}}, 405, "GET"),
    ("POST", "/environments/5/etags", {"json": {}}, 405, "GET"),
    ("PUT", VALUES, {}, 415, "application/json"),
    ("PUT", VALUES, {"data": b"{}"}, 415, "without any"),
    ("PUT", VALUES, {"data": b"{}", "content_type": "text/plain"}, 415, "text/plain"),
    ("PUT", VALUES, {"data": {"a": "b"}}, 415, "x-www-form-urlencoded"),
    ("PUT", VALUES, {"data": b"a: 1", "content_type": "application/yaml"}, 415, "yaml"),
    ("PUT", VALUES, {"json": {}, "headers": {"Content-Encoding": "gzip"}}, 415, "gzip"),
    ("PUT", VALUES, {"data": b"", "content_type": JSON}, 400, "empty"),
    ("PUT", VALUES, {"data": b"{", "content_type": JSON}, 400, "JSON"),
    ("PUT", VALUES, {"data": b'{"a":NaN}', "content_type": JSON}, 400, "NaN"),
    ("PUT", VALUES, {"data": b'{"a":"\xff"}', "content_type": JSON}, 400, "byte 7"),
    ("PUT", VALUES, {"data": b"[" * 300 + b"]" * 300, "content_type": JSON}, 400, "deep"),
    ("PUT", VALUES, {"json": []}, 422, "an array"),
    ("PUT", VALUES, {"json": "secret"}, 422, "a string"),
    ("PUT", VALUES, {"json": 1}, 422, "a number"),
    ("PUT", VALUES, {"json": True}, 422, "a boolean"),
    ("PUT", VALUES, {"json": {"a": "\0"}}, 422, "NUL"),
    ("PUT", VALUES, {"json": {"a": "x" * 3000}}, 413, "2000 bytes"),
    ("PUT", VALUES, {"json": {}, "headers": {"If-Match": "x"}}, 400, "If-Match"),
    ("PUT", VALUES, {"json": {}, "headers": {"If-Match": '"x"'}}, 412, "values"),
    ("PUT", VALUES, {"json": {}, "headers": {"X-Configdb-Run": "%"}}, 400, "X-Configdb-Run"),
    ("GET", VALUES + "?key=a", {}, 409, "'a'"),
    ("GET", VALUES + "?show_lookup", {}, 409, "effective"),
    ("GET", f"/environments/5/cluster/{'x' * 129}/etags", {}, 400, "129"),
    ("POST", "/components", {"json": {"name": "fuel"}}, 409, "'fuel'"),
    ("POST", "/environments", {"json": {"id": 5, "components": [], "hierarchy_levels": []}}, 409, "environment 5"),
    ("POST", "/environments", {"json": {"components": [9], "hierarchy_levels": []}}, 404, "component 9"),
    ("POST", "/environments", {"json": {"hierarchy_levels": []}}, 422, "'components'"),
]


@pytest.fixture
def backend() -> str:
    return "sqlite"


@pytest.fixture
def small(make: Callable[..., Api]) -> Api:
    api = make(limits=ServerLimits(body=2000))
    api.good("POST", "/components", {"name": "fuel", "resource_definitions": [{"name": "globals"}]})
    api.good("POST", "/environments", {"id": 5, "components": ["fuel"], "hierarchy_levels": ["cluster", "nodes"]})
    return api


@pytest.mark.parametrize(("method", "path", "options", "status", "words"), WALK)
def test_every_error_has_the_one_shape(
    small: Api, method: str, path: str, options: dict[str, Any], status: int, words: str
) -> None:
    body = check(small(method, path, **options), status)
    assert words in body["message"]
    assert "secret" not in body["message"]


def test_405_names_the_methods(small: Api) -> None:
    assert small.delete(VALUES).headers["Allow"] == "GET, HEAD, PUT"
    assert small.delete("/components").headers["Allow"] == "GET, HEAD, POST"
    assert small.get(VALUES + "/keys/set").headers["Allow"] == "PATCH, PUT"


def raw(api: Api, **environ: Any) -> TestResponse:
    built = EnvironBuilder(method="PUT", path=VALUES, content_type=JSON).get_environ()
    built.update(environ)
    body, status, headers = run_wsgi_app(api.application, built)
    return TestResponse(body, status, headers, request=None)  # type: ignore[arg-type]


def test_bodies_are_bounded_and_whole(small: Api) -> None:
    check(raw(small, CONTENT_LENGTH="10", **{"wsgi.input": io.BytesIO(b"{}")}), 400)
    check(raw(small, CONTENT_LENGTH="3000", **{"wsgi.input": io.BytesIO(b"{}")}), 413)
    # A chunked body, which the server ends, has no length.
    chunked = {"wsgi.input": io.BytesIO(b" " * 3000), "wsgi.input_terminated": True, "CONTENT_LENGTH": ""}
    check(raw(small, HTTP_TRANSFER_ENCODING="chunked", **chunked), 413)
    chunked["wsgi.input"] = io.BytesIO(b'{"a":1}')
    assert raw(small, HTTP_TRANSFER_ENCODING="chunked", **chunked).status_code == 204

    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError

    check(raw(small, CONTENT_LENGTH="5", **{"wsgi.input": Broken()}), 400)


@pytest.mark.parametrize("path", ["/components/\xff", "/environments/5/cluster/\xed\xa0\x80/etags", "/\0"])
def test_paths_that_are_no_text_are_400(small: Api, path: str) -> None:
    check(raw(small, REQUEST_METHOD="GET", PATH_INFO=path), 400)


def test_a_fault_of_the_servers_own_tells_no_secret(small: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    from configdb_sync.configdb_server import documents

    def broken(*_: object) -> None:
        raise RuntimeError("the secret")

    monkeypatch.setattr(documents, "check_chain", broken)
    body = check(small.get("/environments/5/etags"), 500)
    assert "secret" not in body["message"]


def test_access_comes_before_everything(make: Callable[..., Api]) -> None:
    api = make(access=TokenAccess("t" * 20))
    for path in ("/components", "/nowhere", ROOT, "/components/%00"):
        answer = api.get(path)
        assert check(answer, 401)
        assert answer.headers["WWW-Authenticate"].startswith("Bearer")


def test_every_answer_names_the_product(small: Api) -> None:
    for method, path in (
        ("GET", "/components"),
        ("HEAD", "/components"),
        ("GET", VALUES),
        ("DELETE", "/environments/5"),
    ):
        assert small(method, path).headers["Server-Product"] == f"configdb-sync/{__version__}"


def test_json_with_a_suffix_is_json(small: Api) -> None:
    for kind in ("application/json", "application/merge-patch+json", "Application/JSON; charset=utf-8"):
        assert small.put(VALUES, data=b"{}", content_type=kind).status_code == 204


def test_a_mount_prefix_is_stripped_by_the_server_in_front(small: Api) -> None:
    assert raw(small, REQUEST_METHOD="GET", SCRIPT_NAME="/api/v1/config", PATH_INFO="/components").status_code == 200
