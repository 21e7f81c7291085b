"""Everything that keeps a run from ConfigDB (U5, U12, U14): its own message and exit code each, and no write anywhere.

Real Keystones, real TLS, real ConfigDB servers; the command is the deployment's.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from werkzeug.middleware.dispatcher import DispatcherMiddleware
from werkzeug.serving import make_server

from configdb_sync.configdb.connect import connect
from configdb_sync.configdb_server import app
from configdb_sync.exits import Exit
from tests.lab.certificates import Authority, make_authority
from tests.nailgun.conftest import make_small
from tests.peers import keystone as peer
from tests.support.nailgun import serving
from tests.support.product import Product, Result, snapshot
from tests.support.trees import make_trees

HERE = "IP:127.0.0.1"
Status = Callable[[str], int]


@dataclass(frozen=True)
class Peers:
    """All servers of the table; ConfigDBs share one database. ``given``: the tokens that the table's cases hold."""

    keystone: peer.Keystone
    over_tls: peer.Keystone
    expired: peer.Keystone
    configdb: dict[str, str]
    authority: Authority
    database: str

    def login(self, keystone: peer.Keystone | None = None, /, **changed: str) -> dict[str, str]:
        """The variables of a login, some of them changed."""
        return (keystone or self.keystone).environ | changed


@contextlib.contextmanager
def served(database: str, status: Status, tls: tuple[Path, Path] | None = None) -> Iterator[str]:
    """Serve a ConfigDB that answers with ``status(token)`` where that isn't 200."""
    application = app.create_app(database)
    bodies = {401: b'{"error": {"code": 401, "message": "no"}}', 403: b'{"message": "no"}', 503: b"<html>down</html>"}

    def guarded(environ: dict[str, Any], start: Any) -> Any:
        found = status(environ.get("HTTP_X_AUTH_TOKEN", ""))
        if found == 200:
            return application(environ, start)
        start(f"{found} No", [("Content-Type", "application/json" if found < 500 else "text/html")])
        return [bodies[found]]

    context = None
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
    server = make_server("127.0.0.1", 0, guarded, threaded=True, ssl_context=context)
    server.log = lambda *_: None  # type: ignore[method-assign]
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        application.close()


@pytest.fixture(scope="module")
def peers(keystone: peer.Keystone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peers]:
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed here")
    folder = tmp_path_factory.mktemp("peers")
    database = f"sqlite:///{folder}/configdb.sqlite"
    authority = make_authority(folder, "own")
    good, old = authority.sign("good", HERE), authority.sign_expired("old", HERE)
    other = authority.sign("other", "DNS:elsewhere.example")
    with contextlib.ExitStack() as stack:
        valid = {True: 200, False: 401}
        told: dict[str, tuple[Status, tuple[Path, Path] | None]] = {
            "good": (lambda token: valid[keystone.valid(token)], None),
            "refusing": (lambda _: 401, None),
            "forbidding": (lambda _: 403, None),
            "failing": (lambda _: 503, None),
            "private": (lambda token: valid[keystone.valid(token)], good),
            "expired": (lambda token: valid[keystone.valid(token)], old),
            "misnamed": (lambda token: valid[keystone.valid(token)], other),
        }
        found = {name: stack.enter_context(served(database, *how)) for name, how in told.items()}
        for name, url in found.items():
            keystone.add_endpoint(url, region=f"way-{name}")
        over_tls, expired = (stack.enter_context(keystone.secure(*pair)) for pair in (good, old))
        yield Peers(keystone, over_tls, expired, found, authority, database)


@dataclass(frozen=True)
class Case:
    """What is wrong: variables, flags, and what must come of it."""

    environ: Callable[[Peers], dict[str, str]]
    code: Exit
    said: str
    flags: Callable[[Peers], tuple[object, ...]] = lambda _: ("--configdb", "catalog")


def region(name: str, **changed: str) -> Callable[[Peers], dict[str, str]]:
    return lambda peers: peers.login(OS_REGION_NAME=f"way-{name}", **changed)


def ca(name: str) -> Callable[[Peers], dict[str, str]]:
    """A login that trusts the authority, and a region."""
    return lambda peers: peers.login(OS_REGION_NAME=f"way-{name}", OS_CACERT=str(peers.authority.certificate))


def held(token: Callable[[peer.Keystone], str]) -> Callable[[Peers], tuple[object, ...]]:
    """Flags that send one token alone, from a file."""

    def flags(peers: Peers) -> tuple[object, ...]:
        path = peers.authority.folder / "token"
        path.touch(mode=0o600)
        path.write_text(token(peers.keystone))
        return ("--configdb", peers.configdb["good"], "--configdb-token-file", path)

    return flags


def expired(keystone: peer.Keystone) -> str:
    with keystone.forgetful(1) as short:
        token = short.token()
    end = time.monotonic() + 60
    while keystone.valid(token) and time.monotonic() < end:
        time.sleep(0.1)
    return token


def revoked(keystone: peer.Keystone) -> str:
    token = keystone.token()
    keystone.revoke(token)
    return token


CASES = {
    "wrong password": Case(
        region("good", OS_PASSWORD="CANARY-wrong"), Exit.ACCESS, r"Keystone http://\S+ refused the login.*check user"
    ),
    "unknown project": Case(region("good", OS_PROJECT_NAME="none"), Exit.ACCESS, r"refused the login.*project"),
    "no password": Case(region("good", OS_PASSWORD=""), Exit.USAGE, r"lacks password"),
    "Keystone away": Case(
        lambda peers: peers.login(OS_AUTH_URL="http://127.0.0.1:1/v3"),
        Exit.CONFIGDB,
        r"127\.0\.0\.1:1/v3 can't be reached",
    ),
    "no endpoint": Case(
        region("nowhere"), Exit.CONFIGDB, r"no public endpoint of type config in region way-nowhere.*keystone register"
    ),
    "no endpoint of that interface": Case(
        region("good", OS_INTERFACE="internal"), Exit.CONFIGDB, r"no internal endpoint of type config"
    ),
    "expired token": Case(lambda _: {}, Exit.ACCESS, r"answered 401.*the token was refused", held(expired)),
    "revoked token": Case(lambda _: {}, Exit.ACCESS, r"answered 401.*the token was refused", held(revoked)),
    "no token": Case(
        lambda _: {}, Exit.ACCESS, r"answered 401.*give a token", lambda peers: ("--configdb", peers.configdb["good"])
    ),
    "ConfigDB refuses": Case(region("refusing"), Exit.ACCESS, r"answered 401.*the token was refused"),
    "ConfigDB forbids": Case(region("forbidding"), Exit.ACCESS, r"answered 403.*may not do this"),
    "ConfigDB fails": Case(region("failing"), Exit.CONFIGDB, r"answered 503.*see the server's log"),
    "Keystone's authority unknown": Case(
        lambda peers: peers.login(peers.over_tls),
        Exit.CONFIGDB,
        r"Keystone .*unable to get.*nothing was sent.*OS_CACERT",
    ),
    "Keystone's certificate expired": Case(
        lambda peers: peers.login(peers.expired, OS_CACERT=str(peers.authority.certificate)),
        Exit.CONFIGDB,
        r"Keystone .*certificate has expired.*new certificate",
    ),
    "no TLS where Keystone is": Case(
        lambda peers: peers.login(OS_AUTH_URL=peers.keystone.url.replace("http:", "https:")),
        Exit.CONFIGDB,
        r"Keystone .*there is no TLS with it",
    ),
    "ConfigDB's authority unknown": Case(
        region("private"), Exit.CONFIGDB, r"certificate can't be verified .*nothing was sent.*--configdb-ca"
    ),
    "ConfigDB's certificate expired": Case(ca("expired"), Exit.CONFIGDB, r"https://\S+: .*certificate has expired"),
    "ConfigDB's certificate of another name": Case(
        ca("misnamed"), Exit.CONFIGDB, r"mismatch.*reach it by a name that its certificate has"
    ),
    "no such authority": Case(
        region("private", OS_CACERT="/nowhere/ca.pem"),
        Exit.USAGE,
        r"OS_CACERT names /nowhere/ca\.pem, which is no file",
    ),
}


def sync(product: Product, trees: Path, *flags: object) -> Result:
    return product("sync", "--env", 5, "--from", trees, "--stage", "main", *flags)


@pytest.mark.parametrize("name", CASES)
def test_it_is_said_and_nothing_is_written(
    name: str, peers: Peers, product: Product, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]
    trees = make_trees(tmp_path / "trees", "1", "2")
    before = snapshot(trees)
    for variable, value in case.environ(peers).items():
        monkeypatch.setenv(variable, value)
    result = sync(product, trees, *case.flags(peers))
    last = result.out.splitlines()[-1]
    assert (result.code, last.split(":")[0]) == (case.code, "failed"), result.out
    assert re.search(case.said, last), last
    assert "CANARY" not in result.out + result.err
    assert snapshot(trees) == before
    with connect("embedded", database_url=peers.database) as client:
        assert client.environment(5) is None
        assert client.components() == []


def test_no_two_of_them_read_the_same() -> None:
    """But those that Keystone and ConfigDB themselves don't tell apart."""
    alike = {"expired token", "revoked token", "ConfigDB refuses", "wrong password", "unknown project"}
    said = [case.said for name, case in CASES.items() if name not in alike]
    assert len(set(said)) == len(said)


def test_an_endpoint_that_is_added_later_is_found_by_the_next_run(
    peers: Peers, product: Product, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And over a private authority's TLS, to Keystone and to ConfigDB."""
    trees = make_trees(tmp_path / "trees", "1")
    login = peers.login(peers.over_tls, OS_CACERT=str(peers.authority.certificate), OS_REGION_NAME="way-later")
    for variable, value in login.items():
        monkeypatch.setenv(variable, value)
    database = f"sqlite:///{tmp_path}/later.sqlite"
    tls = (peers.authority.folder / "good.pem", peers.authority.folder / "good.key")
    with served(database, lambda token: 200 if peers.keystone.valid(token) else 401, tls) as url:
        assert sync(product, trees, "--configdb", "catalog").code == Exit.CONFIGDB
        peers.keystone.add_endpoint(url, region="way-later")
        result = sync(product, trees, "--configdb", "catalog")
        assert result.code == Exit.OK, result.out
    with connect("embedded", database_url=database) as client:
        assert client.environment(5) is not None


def test_without_an_endpoint_it_is_on_nailgun(
    peers: Peers, product: Product, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """U5: `/api/v1/config` there, with the same login; a Nailgun that has none there is named."""
    nailgun = make_small(5)
    nailgun.nodes = nailgun.nodes[:1]
    nailgun.takes = peers.keystone.valid
    database = f"sqlite:///{tmp_path}/there.sqlite"
    application = app.create_app(database)
    both = DispatcherMiddleware(nailgun, {"/api/v1/config": application})
    for variable, value in peers.login(OS_REGION_NAME="way-nowhere").items():
        monkeypatch.setenv(variable, value)
    trees = make_trees(tmp_path / "trees", "1")
    with serving(both) as url:
        result = sync(product, trees, "--configdb", "catalog", "--nailgun", url)
        assert result.code == Exit.OK, result.out
    application.close()
    with connect("embedded", database_url=database) as client:
        assert client.environment(5) is not None
    # Each peer got Keystone's own token.
    assert all(token is None or peers.keystone.valid(token) for _, token in nailgun.seen)
    with serving(nailgun) as url:
        result = sync(product, trees, "--configdb", "catalog", "--nailgun", url)
        said = f"no public endpoint of type config in region way-nowhere, and {url}/api/v1/config is no ConfigDB"
        assert (result.code, said in result.out) == (Exit.CONFIGDB, True), result.out


def test_a_run_whose_tokens_end_in_the_middle_goes_on(
    peers: Peers, product: Product, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S06: each token is taken back after a few requests, as if it had expired; nothing of it is noticed."""
    seen: dict[str, int] = {}

    def status(token: str) -> int:
        seen[token] = seen.get(token, 0) + 1
        if seen[token] == 8:
            peers.keystone.revoke(token)
        return 200 if peers.keystone.valid(token) else 401

    trees = make_trees(tmp_path / "trees", *"123456")
    for variable, value in peers.login(OS_REGION_NAME="way-short").items():
        monkeypatch.setenv(variable, value)
    with served(f"sqlite:///{tmp_path}/short.sqlite", status) as url:
        peers.keystone.add_endpoint(url, region="way-short")
        result = sync(product, trees, "--configdb", "catalog")
    assert (result.code, result.out.splitlines()[-1].split(":")[0]) == (Exit.OK, "ok"), result.out
    assert "12 documents uploaded" in result.out
    assert len(seen) > 2
