"""Nailgun's answers, real and hostile ones, and the token's way to it (U4, U12, U14, U21)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from werkzeug.wrappers import Request, Response

from configdb_sync.errors import (
    AccessError,
    EnvironmentMismatchError,
    NailgunAnswerError,
    NailgunAwayError,
    NailgunError,
    SettingsError,
)
from configdb_sync.exits import Exit, exit_of
from configdb_sync.http.tokens import FixedToken, RenewedToken
from configdb_sync.http.transport import TransferLimits
from configdb_sync.nailgun.client import NailgunClient
from configdb_sync.nailgun.model import PluginLink
from tests.support.nailgun import Nailgun, leading, serving

Clients = Callable[..., NailgunClient]


def test_a_real_nailgun_is_read(nailgun: Nailgun, client: Clients) -> None:
    """U4, U21: on both releases."""
    asked = client(nailgun.url)
    assert asked.version().release == nailgun.version["release"]
    assert asked.cluster(nailgun.env).name == nailgun.cluster["name"]
    nodes = asked.nodes(nailgun.env)
    assert [(node.id, node.fqdn) for node in nodes] == [(node["id"], node["fqdn"]) for node in nailgun.nodes]
    assert {node.status for node in nodes} == {"provisioning"}
    identities = [node.identity for node in nodes]
    data = asked.deployment(nailgun.env, identities)
    assert sorted(data) == identities  # the master's is not in it
    assert data[identities[0]]["fqdn"] == nodes[0].fqdn
    assert list(asked.deployment(nailgun.env, identities[:1])) == identities[:1]


def test_deployment_data_is_what_nailgun_computes(nailgun: Nailgun, client: Clients) -> None:
    """U21: also where what is common to all nodes is told apart; without anything uploaded there is nothing else."""
    identities = [str(node["id"]) for node in nailgun.nodes]
    data = client(nailgun.url).deployment(nailgun.env, identities)
    assert data == {identity: nailgun.data(identity) for identity in identities}
    asked = [path for path, _ in nailgun.seen if "orchestrator" in path]
    assert len(asked) == 1
    assert "/orchestrator/deployment/defaults?" in asked[0]


def test_uploaded_deployment_data_goes_before_what_is_computed(nailgun: Nailgun, client: Clients) -> None:
    """U21: a node's own is replaced, what is common is laid over."""
    first, second = (str(node["id"]) for node in nailgun.nodes[:2])
    nailgun.cluster["is_customized"] = True
    nailgun.replaced.append({"uid": first, "fqdn": "changed.example.com", "only": {"a": 1}})
    split = nailgun.version["release"] != "9.0"
    if split:
        nailgun.replaced.append({"uid": "common", "openstack_version": "changed"})
    asked = client(nailgun.url)
    data = asked.deployment(nailgun.env, [first, second]) | asked.deployment(nailgun.env, [second])
    assert (data[first]["fqdn"], data[first]["only"]) == ("changed.example.com", {"a": 1})
    assert data[second]["fqdn"] == nailgun.data(second)["fqdn"]
    if split:
        assert [each["openstack_version"] for each in data.values()] == ["changed", "changed"]
        assert data[first]["network_metadata"] == nailgun.data(first)["network_metadata"]
    else:
        assert data[first] == nailgun.replaced[0]
    assert len([path for path, _ in nailgun.seen if path.endswith("/deployment?split=1")]) == 1


def test_the_plugins_settings_are_those_of_the_version_chosen(nailgun: Nailgun, client: Clients) -> None:
    """U3."""
    found = client(nailgun.url).plugin_settings(nailgun.env, "configdb-sync")
    assert found is not None
    assert found.enabled
    assert found.values["username"] == "lcm-plugin"
    assert found.values["verify_tls"] is True
    assert "globals" in found.metadata["data_sources"]
    assert "lcm-plugin" not in repr(found)
    assert client(nailgun.url).plugin_settings(nailgun.env, "another") is None


def test_an_environment_that_is_not_there_is_told_from_an_empty_one(small: Nailgun, client: Clients) -> None:
    """U4: an unknown cluster_id gives an empty list of nodes."""
    with pytest.raises(EnvironmentMismatchError, match="has no environment 6"):
        client(small.url).nodes(6)
    with pytest.raises(EnvironmentMismatchError):
        client(small.url).deployment(6, ["1"])
    with pytest.raises(EnvironmentMismatchError):
        client(small.url).plugin_settings(6, "x")
    small.faults["/clusters/6"] = _as("<h1>no</h1>", 404, "text/html")
    with pytest.raises(EnvironmentMismatchError):
        client(small.url).cluster(6)
    small.nodes = []
    assert client(small.url).nodes(5) == ()


def test_the_token_goes_to_nailgun_and_a_refused_one_is_renewed(small: Nailgun, client: Clients) -> None:
    """U12: the first question says whether a token is wanted; it is asked without one."""
    small.token = "second"
    tokens = iter(["first", "second"])
    source = RenewedToken(lambda: next(tokens))
    assert len(client(small.url, source).nodes(5)) == 3
    assert small.seen == [
        ("/api/version", None),
        ("/api/version", "first"),
        ("/api/version", "second"),
        ("/api/nodes?cluster_id=5", "second"),
    ]


def test_no_token_is_sent_where_none_is_wanted(small: Nailgun, client: Clients) -> None:
    client(small.without_authentication().url, FixedToken("CANARY")).nodes(5)
    assert small.seen == [("/api/version", None), ("/api/nodes?cluster_id=5", None)]


def test_without_a_login_it_says_what_to_set(nailgun: Nailgun, client: Clients) -> None:
    """U3: on every release even the version is told only to those who are logged in."""
    with pytest.raises(AccessError, match=r"wants a login.*plugin's settings.*OS_USERNAME") as caught:
        client(nailgun.url, None).version()
    assert exit_of(caught.value) is Exit.ACCESS
    assert nailgun.seen == [("/api/version", None)]


def test_a_token_that_nailgun_refuses_is_another_keystones(nailgun: Nailgun, client: Clients) -> None:
    with pytest.raises(AccessError, match=r"Nailgun refused: .* answered 401.*this master's Keystone") as caught:
        client(nailgun.url, FixedToken("CANARY-token")).nodes(nailgun.env)
    assert exit_of(caught.value) is Exit.ACCESS
    assert "CANARY" not in str(caught.value)


@pytest.mark.parametrize("asked", ["Basic realm=x", "Bearer", ""])
def test_who_wants_another_login_than_keystones_gets_no_token(small: Nailgun, client: Clients, asked: str) -> None:
    small.faults["/version"] = _as("", 401, "text/html", WWW_Authenticate=asked)
    with pytest.raises(NailgunAnswerError, match="wants no token of Keystone's"):
        client(small.url, FixedToken("CANARY")).version()
    assert {token for _, token in small.seen} == {None}


def test_a_forbidden_call_is_the_access_class_too(small: Nailgun, client: Clients) -> None:
    small.faults["/nodes"] = lambda _: Response('{"message": "no"}', 403, content_type="application/json")
    with pytest.raises(AccessError, match=r"answered 403: no .*role admin"):
        client(small.url).nodes(5)


def test_who_is_no_administrator_may_read_alone_from_newton_on(nailgun: Nailgun, client: Clients) -> None:
    """But a link may be made by anyone: that route is public."""
    nailgun.keystone.issued["reader"] = ["monitoring"]
    asked = client(nailgun.url, FixedToken("reader"))
    assert asked.nodes(nailgun.env)
    asked.put_link(nailgun.env, PluginLink("x", "http://x"))
    (link,) = asked.links(nailgun.env)
    assert link.number is not None
    if nailgun.version["release"].startswith("9."):
        asked.drop_link(nailgun.env, link.number)
        assert nailgun.links == []
        return
    with pytest.raises(AccessError, match=r"answered 403.*give the user the role admin"):
        asked.drop_link(nailgun.env, link.number)
    with pytest.raises(AccessError, match=r"answered 403.*give the user the role admin"):
        asked.put_link(nailgun.env, replace(link, url="http://y"))
    assert [one["url"] for one in nailgun.links] == ["http://x"]


def test_nobody_there(client: Clients) -> None:
    with pytest.raises(NailgunAwayError, match="--nailgun") as caught:
        client("http://127.0.0.1:9").nodes(5)
    assert exit_of(caught.value) is Exit.NODES


def test_a_failure_that_passes_is_tried_again(small: Nailgun, client: Clients) -> None:
    def once(request: Request) -> Response:
        del small.faults["/nodes"]
        return Response("busy", 503)

    small.faults["/nodes"] = once
    assert len(client(small.url).nodes(5)) == 3


def _as(
    body: str | bytes, status: int = 200, kind: str = "application/json", **headers: str
) -> Callable[[Any], Response]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: Response(body, status, named, content_type=kind)


GOOD = {"id": 1, "cluster": 5, "fqdn": "a.b", "status": "ready", "online": True, "pending_deletion": False}
GOOD |= {"pending_addition": False, "roles": []}


def _nodes(**change: Any) -> Callable[[Any], Response]:
    return _as(json.dumps([{**GOOD, **change}]))


@pytest.mark.parametrize(
    "answer",
    [
        _as("<html>Welcome</html>", kind="text/html"),
        _as("<html>Welcome</html>"),
        _as('[{"id": 1,'),
        _as(""),
        _as(b"\xff\xfe["),
        _as("NaN"),
        _as('"' + "x" * (2 << 20) + '"'),
        _as("[" * 5000 + "]" * 5000),
        _as("{}"),
        _as("[null]"),
        _as("[[]]"),
        _as("[1]"),
        _as(b"[]", Content_Encoding="gzip"),
        _as("[]", 204),
        _as("[]", 418),
        _as("[]", 302, Location="http://elsewhere.example/"),
        _nodes(id="1"),
        _nodes(id=True),
        _nodes(id=-1),
        _nodes(id=10**30),
        _nodes(cluster=6),
        _nodes(cluster=None),
        _nodes(fqdn=["x"]),
        _nodes(fqdn="a\nb"),
        _nodes(fqdn="x" * 300),
        _nodes(status=None),
        _nodes(online="yes"),
        _nodes(pending_deletion=0),
        _nodes(roles="compute"),
        _nodes(roles=[1]),
        _as(json.dumps([GOOD, GOOD])),
    ],
)
def test_an_answer_that_is_not_nailguns_is_named_and_shows_no_content(
    small: Nailgun, client: Clients, answer: Callable[[Any], Response]
) -> None:
    small.faults["/nodes"] = answer
    with pytest.raises(NailgunError) as caught:
        client(small.url).nodes(5)
    assert small.url in str(caught.value)
    assert "Welcome" not in str(caught.value)
    assert exit_of(caught.value) is Exit.NODES


@pytest.mark.parametrize(
    "body",
    [
        [{"fqdn": "no uid"}],
        [{"uid": None}],
        [{"uid": True}],
        [{"uid": "../1"}],
        [{"uid": "x"}],
        [{"uid": "1"}, {"uid": 1}],
        [{"uid": "common", "a": 1}, {"uid": "common"}],
        {"uid": "1"},
        ["1"],
    ],
)
def test_deployment_data_without_its_nodes_is_no_answer(small: Nailgun, client: Clients, body: Any) -> None:
    """U21."""
    small.faults[f"/clusters/{small.env}/orchestrator/deployment/defaults"] = _as(json.dumps(body))
    with pytest.raises(NailgunAnswerError):
        client(small.url).deployment(5, ["1"])


@pytest.mark.parametrize("body", [[], {"editable": []}, {"editable": {"p": []}}, {"editable": {"p": {"metadata": 1}}}])
def test_attributes_of_another_shape_are_no_answer(small: Nailgun, client: Clients, body: Any) -> None:
    small.attributes = body
    with pytest.raises(NailgunAnswerError):
        client(small.url).plugin_settings(5, "p")


@pytest.mark.parametrize("body", [{}, [], {"release": 9}, {"release": "9.0", "auth_required": "no"}])
def test_a_peer_that_is_no_nailgun_is_found_out_before_the_token_is_sent(
    small: Nailgun, client: Clients, body: Any
) -> None:
    small.faults["/version"] = _as(json.dumps(body))
    with pytest.raises(NailgunAnswerError):
        client(small.url, FixedToken("CANARY")).nodes(5)
    assert {token for _, token in small.seen} == {None}


def test_another_environment_in_the_answer_is_no_answer(small: Nailgun, client: Clients) -> None:
    small.faults["/clusters/6"] = _as(json.dumps(small.cluster))
    with pytest.raises(NailgunAnswerError, match="environment 5"):
        client(small.url).cluster(6)


def test_a_peer_that_stops_in_the_middle_is_away_within_the_limit(small: Nailgun, client: Clients) -> None:
    def slow(_: Request) -> Response:
        def body() -> Any:
            yield b"["
            while True:
                time.sleep(0.2)
                yield b" "

        return Response(body(), content_type="application/json")

    small.faults["/nodes"] = slow
    with pytest.raises(NailgunError):
        client(small.url, limits=TransferLimits(connect=1, read=1, total=1)).nodes(5)


class TestRedirects:
    """U12: from http 8000 to https 8443 on the same host, and nowhere else."""

    def test_what_leads_to_another_host_is_refused(self, small: Nailgun, client: Clients) -> None:
        small.token = "CANARY"
        elsewhere = small.url.replace("127.0.0.1", "localhost").replace("http:", "https:")
        with leading(elsewhere, []) as url, pytest.raises(NailgunAnswerError, match="isn't followed"):
            client(url, FixedToken("CANARY")).nodes(5)
        assert small.seen == []

    def test_what_leads_to_plain_http_is_refused(self, small: Nailgun, client: Clients) -> None:
        small.token = "CANARY"
        seen: list[tuple[str, str | None]] = []
        with leading(small.url, seen) as url, pytest.raises(NailgunAnswerError, match="isn't followed"):
            client(url, FixedToken("CANARY")).nodes(5)
        assert small.seen == []
        assert {token for _, token in seen} == {None}

    def test_a_redirect_of_a_later_call_is_refused(self, small: Nailgun, client: Clients) -> None:
        asked = client(small.url)
        asked.version()
        small.faults["/nodes"] = _as("", 301, Location=f"{small.url.replace('http', 'https')}/api/nodes?cluster_id=5")
        with pytest.raises(NailgunAnswerError):
            asked.nodes(5)


@pytest.mark.parametrize(
    "text", ["", "master", "ftp://m", "http://", "http://u:CANARY@m:8000", "http://m/?x=1", "http://[x"]
)
def test_what_is_no_address_is_a_wrong_setting(text: str, client: Clients) -> None:
    with pytest.raises(SettingsError) as caught:
        client(text)
    assert "CANARY" not in str(caught.value)


def test_the_api_path_may_be_in_the_address(small: Nailgun, client: Clients) -> None:
    assert len(client(f"{small.url}/api/v1/").nodes(5)) == 3
    with serving(small):
        assert client(f"{small.url}/").version().release == "9.0"
