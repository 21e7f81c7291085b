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
from configdb_sync.configdb_server import app
from configdb_sync.errors import AccessError, MissingError
from tests.configdb.support import NODE
from tests.peers.keystone import Keystone

LIFE = 4


@contextlib.contextmanager
def configdb(database: Path, valid: Callable[[str], bool]) -> Iterator[tuple[str, list[str]]]:
    """A ConfigDB that asks ``valid`` about each token; the tokens it was given are listed."""
    application = app.create_app(f"sqlite:///{database}")
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


def test_a_run_outlives_its_tokens(keystone: Keystone, tmp_path: Path) -> None:
    """S06: tokens that live seconds, and one that is taken back in the middle."""
    pause = threading.Event()
    with keystone.forgetful(LIFE) as short, configdb(tmp_path / "x.sqlite", keystone.valid) as (url, seen):
        with pytest.raises(MissingError, match="no public endpoint of type config in region Outliving"):
            connect("catalog", environ=short.environ, region="Outliving")
        keystone.add_endpoint(url, region="Outliving")
        with connect("catalog", environ=short.environ, region="Outliving") as client:
            assert client.base == url
            component = client.create_component("c", ["globals"])
            client.create_environment(5, [component.id], ["nodes"])
            number = component.definitions[0].id
            count = 0
            while len(set(seen)) < 3:
                count += 1
                assert count < 60
                client.put_values(5, NODE, number, {"count": count})
                pause.wait(LIFE / 4)
            assert client.values(5, NODE, number) == {"count": count}
            keystone.revoke(client_token := seen[-1])
            client.put_values(5, NODE, number, {"count": 0})
            assert client.effective(5, NODE, number) == {"count": 0}
            assert seen[-1] != client_token


def test_a_token_that_is_refused_for_ever_ends_it(keystone: Keystone, tmp_path: Path) -> None:
    """S06: one login more, one call more, then an end."""
    with configdb(tmp_path / "x.sqlite", lambda _: False) as (url, seen):
        keystone.add_endpoint(url, region="Refusing")
        with connect("catalog", environ=keystone.environ, region="Refusing") as client:
            with pytest.raises(AccessError):
                client.components()
            assert len(seen) == 2
            assert not any(token in f"{client!r}" for token in seen)


def test_a_wrong_password_is_refused_access(keystone: Keystone) -> None:
    with pytest.raises(AccessError, match="refused the login"):
        connect("catalog", environ={**keystone.environ, "OS_PASSWORD": "CANARY-wrong"})
    with pytest.raises(AccessError):
        connect("catalog", environ={**keystone.environ, "OS_PROJECT_NAME": "other"})


def test_v3_is_found_without_a_version_in_the_address(keystone: Keystone, tmp_path: Path) -> None:
    """Fuel's OS_AUTH_URL has none."""
    with configdb(tmp_path / "x.sqlite", keystone.valid) as (url, _):
        keystone.add_endpoint(url, region="Bare")
        bare = {**keystone.environ, "OS_AUTH_URL": keystone.url.removesuffix("/v3")}
        with connect("catalog", environ=bare, region="Bare") as client:
            assert client.components() == []
