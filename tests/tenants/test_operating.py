"""The service in operation, over a socket: metrics of all workers, log lines as JSON, limits, the operator's policy."""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from configdb_sync.clock import SystemClock
from configdb_sync.tenants.metrics import NONE, OTHER
from configdb_sync.tenants.paths import ResourcePath
from configdb_sync.tenants.registry import Registry
from configdb_sync.tenants.status_chain import Chain
from configdb_sync.tenants.status_drivers import StatusContext, StatusDriver
from configdb_sync.web.service import CURRENT, LoggedRequest, TextFormatter
from tests.peers import keystone as peer
from tests.support.product import Product
from tests.tenants.support import ME, Api, public_port, serving

METRICS_TOKEN = "CANARY-metrics-token"
_POLICY = '"admin:delete_tenant": "!"\n'


class Service:
    """Both endpoints with all that an operator can set, two workers."""

    def __init__(self, admin: Api, port: int, state: Path) -> None:
        self.admin = admin
        self.port = port
        self.state = state

    def user(self, tenant: str) -> Api:
        return Api(self.port, Product(self.state)("tenants", "token", tenant).out.strip())

    def metrics(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        answer = self.admin.get("/metrics", f"X-Auth-Token: {METRICS_TOKEN}")
        assert (answer.status, answer.headers["content-type"].startswith("text/plain")) == (200, True)
        return {
            (sample.name.removeprefix("configdb_sync_tenants_"), tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(answer.body.decode())
            for sample in family.samples
        }

    def usage(self) -> dict[str, float]:
        """Requests by the label of a tenant."""
        found: dict[str, float] = {}
        for (name, labels), value in self.metrics().items():
            if name == "usage_requests_total":
                tenant = dict(labels)["tenant"]
                found[tenant] = found.get(tenant, 0) + value
        return found

    def counted(self, at_least: int) -> dict[str, float]:
        """Requests by the label of a tenant, once so many are told of: each worker writes them down in a moment."""
        deadline = time.monotonic() + 60
        found = self.usage()
        # Those of no tenant are the looks at the metrics themselves.
        while sum(found.values()) - found.get(NONE, 0) < at_least and time.monotonic() < deadline:
            time.sleep(0.1)
            found = self.usage()
        return found


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("operating")
    for name, text in (("policy.yaml", _POLICY), ("metrics.token", METRICS_TOKEN)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o600)
    arguments = (
        *("--public", "127.0.0.1:0", "--drivers", "none", "--rate", "1", "--metrics-tenants", "3"),
        *("--policy-file", str(folder / "policy.yaml"), "--metrics-token-file", str(folder / "metrics.token")),
    )
    with serving(folder / "state", *arguments) as (admin, process):
        yield Service(admin, public_port(process), folder / "state")


def test_usage_by_tenant_is_counted_over_all_workers_and_bounded(service: Service) -> None:
    """T14: three tenants have their own, all others share one; strangers use no place up."""
    for number in range(20):
        assert service.admin.get(f"/v1.0/never{number}").status == 404
        assert service.admin.get(f"/v1.0/never{number}", "X-Auth-Token: wrong").status == 401
    tenants = ['q"\\\n', "\u2211", "/".replace("/", ":other"), "d", "e", "f"]
    for number, tenant in enumerate(tenants):
        assert service.admin.put(ResourcePath(tenant).url).status == 201
        service.counted(41 + number)

    def read(number: int) -> int:
        return service.admin.get(ResourcePath(tenants[number % len(tenants)]).url).status

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(read, range(60))) == {200}
    found = service.counted(66 + 40)
    assert set(found) == {*tenants[:3], OTHER, NONE}
    assert [found[tenant] for tenant in tenants[:3]] == [11.0] * 3
    assert found[OTHER] == 40 + 33
    sent = {dict(labels)["tenant"] for name, labels in service.metrics() if name == "usage_response_bytes_total"}
    assert sent == set(found)


def test_other_numbers(service: Service) -> None:
    assert service.admin("BREW", "/v1.0/x").status == 405
    other = ("requests_total", (("endpoint", "admin"), ("method", "other"), ("status", "405")))
    deadline = time.monotonic() + 60
    while other not in (found := service.metrics()) and time.monotonic() < deadline:
        time.sleep(0.1)  # each worker writes its numbers down in a moment
    assert found[other] >= 1
    assert found["request_seconds_count", (("endpoint", "admin"),)] > 1
    assert found["outbox_waiting", ()] == 0


@pytest.mark.parametrize("target", ["/v1.0", "/audit", "/v1.0/a", "/v1.0/a/audit", "/v1.0/a/action/move?dest=b"])
def test_the_metrics_token_reads_metrics_alone(service: Service, target: str) -> None:
    """T12: they name tenants, so they are the admin endpoint's; a scraper needs no more than them."""
    assert service.admin.get(target, f"X-Auth-Token: {METRICS_TOKEN}").status in (401, 403)
    assert service.admin.get("/metrics", "X-Auth-Token: ", f"Authorization: Bearer {METRICS_TOKEN}").status == 401
    bearer = f"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {METRICS_TOKEN}\r\n\r\n"
    assert service.admin.raw(bearer.encode()).status == 200
    assert service.admin.get("/metrics").status == 200, "an operator reads them, too"
    assert service.admin.get("/metrics", "X-Auth-Token: wrong").status == 401
    assert Api(service.port, METRICS_TOKEN).get("/metrics").status in (401, 404)


def test_the_policy_of_the_file_holds(service: Service) -> None:
    assert service.admin.put("/v1.0/kept").status == 201
    refused = service.admin.delete("/v1.0/kept")
    assert (refused.status, refused.json["error"]["code"]) == (403, 403)
    assert "admin:delete_tenant" in refused.json["error"]["message"]
    assert service.admin.get("/v1.0/kept").status == 200


def test_one_tenants_users_are_held_back_and_no_other(service: Service) -> None:
    for tenant in ("busy", "calm"):
        assert service.admin.put(f"/v1.0/{tenant}").status == 201
    busy = service.user("busy")
    answers = [busy.get("/v1.0/busy") for _ in range(30)]
    held = [one for one in answers if one.status == 429]
    assert held
    assert {one.status for one in answers} == {200, 429}
    assert held[0].json["error"]["code"] == 429
    assert int(held[0].headers["retry-after"]) >= 1
    assert service.user("calm").get("/v1.0/calm").status == 200
    assert {service.admin.get("/v1.0/calm").status for _ in range(30)} == {200}, "no limit there unless asked for"


def test_log_lines_are_json_and_hold_no_secret(tmp_path: Path) -> None:
    """T14: each line about a request names it and its tenant."""
    arguments = ("--log-format", "json", "--configdb", "http://127.0.0.1:1", "--max-age", "0", "--workers", "1")
    with serving(tmp_path / "state", *arguments) as (api, process):
        assert api.put("/v1.0/%E2%88%91").status == 201
        assert api.put("/v1.0/b").status == 201
        answer = api.post("/v1.0/%E2%88%91/action/move?dest=b")
        assert answer.status == 503
        long = api.raw(f"GET /{'x' * 9000} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert long.status == 414
        process.terminate()
        _, err = process.communicate(timeout=30)
    lines = [json.loads(line) for line in err.splitlines()]
    found = [line for line in lines if line.get("request_id") == answer.headers["x-openstack-request-id"]]
    assert {(line["tenant"], line["level"]) for line in found} == {("\u2211", "warning")}
    assert any(line["logger"] == "gunicorn.error" for line in lines)
    for line in lines:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", line["time"])
        assert re.fullmatch("service-[0-9a-f]{8}", line["run"]), "it looks like no request's"
    assert api.token not in err


def test_log_lines_as_text_name_request_and_tenant(tmp_path: Path) -> None:
    """T14: also those of Keystone's libraries, and none before or after a request bears its id."""
    environ = peer.Keystone("http://127.0.0.1:1/v3", tmp_path).environ
    arguments = ("--auth", "keystone", "--drivers", "none", "--workers", "1")
    with serving(tmp_path / "state", *arguments, **environ) as (api, process):
        answer = api.get("/v1.0/a%20%E2%88%91", "X-Auth-Token: CANARY-token")
        assert answer.status == 503
        process.terminate()
        _, err = process.communicate(timeout=30)
    lines = [line for line in err.splitlines() if re.match("[A-Z]+ ", line)]
    about = f"{answer.headers['x-openstack-request-id']} tenant 'a \\u2211'"
    mine = [line for line in lines if line.split(" ", 1)[1].startswith(about)]
    assert any(line.split(about)[1].startswith(" keystonemiddleware") for line in mine), err
    for line in set(lines) - set(mine):
        assert re.match("[A-Z]+ service-[0-9a-f]{8} ", line), line
    assert "CANARY" not in err


def test_who_works_for_a_request_in_another_thread_logs_of_it() -> None:
    formatter = TextFormatter("service-1")
    record = logging.LogRecord("some.library", logging.WARNING, "", 0, "talked", (), None)
    with ThreadPoolExecutor(1) as pool:
        token = CURRENT.set(LoggedRequest("req-1", "a\nb"))
        late = pool.submit(copy_context().run, formatter.format, record)
        apart = pool.submit(formatter.format, record)
        CURRENT.reset(token)
        assert late.result() == "WARNING req-1 tenant 'a\\nb' some.library: talked"
        assert apart.result() == formatter.format(record) == "WARNING service-1 some.library: talked"


def test_a_drivers_thread_is_the_requests(registry: Registry, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[LoggedRequest | None] = []

    class Noting(StatusDriver):
        local = False

        def __init__(self) -> None:
            pass

        def get_tenant_status(self, context: StatusContext) -> StatusContext:
            seen.append(CURRENT.get())
            return context

    registry.put(ME, "a", None)
    chain = Chain(registry, {"noting": Noting()}, SystemClock(), 0.0)
    asked = LoggedRequest("req-1", "a")
    token = CURRENT.set(asked)
    try:
        assert chain.refresh(ResourcePath("a"))
    finally:
        CURRENT.reset(token)
    assert seen == [asked], caplog.text


def test_the_numbers_are_gone_with_the_service(tmp_path: Path) -> None:
    folder = tmp_path / "temporary"
    folder.mkdir()
    with serving(tmp_path / "state", "--drivers", "none", TMPDIR=str(folder)) as (api, process):
        assert api.get("/metrics").status == 200
        made = list(folder.iterdir())
        assert [path.stat().st_mode & 0o777 for path in made] == [0o700]
        process.terminate()
        process.communicate(timeout=30)
    assert list(folder.iterdir()) == []


def test_bad_tokens_are_few_with_a_token_too(tmp_path: Path) -> None:
    """At either endpoint, over all processes."""
    arguments = ("--drivers", "none", "--public", "127.0.0.1:0", "--workers", "2", "--refused-rate", "0.02")
    with serving(tmp_path / "state", *arguments) as (admin, process):
        assert admin.put("/v1.0/a").status == 201
        for port in (admin.port, public_port(process)):
            bad = [Api(port, f"bad {number}").get("/v1.0/a") for number in range(12)]
            assert {one.status for one in bad} == {401, 429}
            assert sum(one.status == 401 for one in bad) <= 2, "each process lets one through"
            assert int(next(one for one in bad if one.status == 429).headers["retry-after"]) >= 1
