"""The login against a real Keystone: catalog, a token that expires or is taken back in the middle (U5, S06)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from werkzeug.serving import make_server

from configdb_sync.configdb.connect import connect
from configdb_sync.configdb.server import access, app
from configdb_sync.errors import AccessError, MissingError
from tests.configdb.support import NODE
from tests.peers import keystone
from tests.peers.keystone import Keystone

pytestmark = pytest.mark.long

LIFE = 4


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keystone]:
    """A Keystone whose tokens live a few seconds."""
    with keystone.running(tmp_path_factory.mktemp("keystone"), expiration=LIFE) as found:
        yield found


@contextlib.contextmanager
def configdb(database: Path, valid: Callable[[str], bool]) -> Iterator[tuple[str, list[str]]]:
    """A ConfigDB that asks ``valid`` about each token; the tokens it was given are listed."""
    application = app.create_app(f"sqlite:///{database}", access=access.OpenAccess())
    seen: list[str] = []

    def guarded(environ: dict[str, Any], start: Any) -> Any:
        seen.append(environ.get("HTTP_X_AUTH_TOKEN", ""))
        if valid(seen[-1]):
            return application(environ, start)
        start("401 Unauthorized", [("Content-Type", "application/json"), ("WWW-Authenticate", "Keystone uri='x'")])
        return [b'{"error": {"code": 401, "title": "Unauthorized", "message": "no"}}']

    server = make_server("127.0.0.1", 0, guarded, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        application.close()


def test_a_run_outlives_its_tokens(peer: Keystone, tmp_path: Path) -> None:
    """S06: tokens that live seconds, and one that is taken back in the middle."""
    with configdb(tmp_path / "x.sqlite", peer.valid) as (url, seen):
        with pytest.raises(MissingError, match="no public endpoint of type config"):
            connect("catalog", environ=peer.environ)
        peer.add_endpoint(url)
        with connect("catalog", environ=peer.environ) as client:
            assert client.base == url
            component = client.create_component("c", ["globals"])
            client.create_environment(5, [component.id], ["nodes"])
            number = component.definitions[0].id
            pause = threading.Event()
            for count in range(6):
                client.put_values(5, NODE, number, {"count": count})
                pause.wait(LIFE / 4)
            assert client.values(5, NODE, number) == {"count": 5}
            peer.revoke(seen[-1])
            client.put_values(5, NODE, number, {"count": 6})
            assert client.effective(5, NODE, number) == {"count": 6}
        assert len(set(seen)) > 2


def test_a_token_that_is_never_taken_ends_it(peer: Keystone, tmp_path: Path) -> None:
    """S06: one login more, one call more, then an end."""
    with configdb(tmp_path / "x.sqlite", lambda _: False) as (url, seen):
        peer.add_endpoint(url, region="RegionRefused")
        with connect("catalog", environ=peer.environ, region="RegionRefused") as client:
            with pytest.raises(AccessError):
                client.components()
            assert len(seen) == 2
            assert not any(token in f"{client!r}" for token in seen)


def test_a_wrong_password_is_refused_access(peer: Keystone) -> None:
    with pytest.raises(AccessError, match="refused the login"):
        connect("catalog", environ={**peer.environ, "OS_PASSWORD": "CANARY-wrong"})
    with pytest.raises(AccessError):
        connect("catalog", environ={**peer.environ, "OS_PROJECT_NAME": "other"})


def test_v3_is_found_without_a_version_in_the_address(peer: Keystone, tmp_path: Path) -> None:
    """Fuel's OS_AUTH_URL has none."""
    with configdb(tmp_path / "x.sqlite", peer.valid) as (url, _):
        peer.add_endpoint(url, region="RegionBare")
        bare = {**peer.environ, "OS_AUTH_URL": peer.url.removesuffix("/v3")}
        with connect("catalog", environ=bare, region="RegionBare") as client:
            assert client.components() == []
