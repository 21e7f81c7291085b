"""The server on a real socket: its command, TLS, who may reach it, and several processes at once."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests
from click.testing import CliRunner

from configdb_sync.cli.serve import configdb
from configdb_sync.configdb_server.app import create_app
from configdb_sync.errors import ProductError, SettingsError
from configdb_sync.web.service import GunicornOptions, Listen, check_reach, read_listen
from tests.support.configdb_server import NODE, Api
from tests.support.service import fill, serving


@pytest.fixture
def backend() -> str:
    return "sqlite"


def test_it_makes_its_token_serves_and_stops_clean(tmp_path: Path) -> None:
    state = tmp_path / "state"
    environ = {name: value for name, value in os.environ.items() if name != "HOME"}
    with serving("--state", str(state), environ=environ) as (url, process):
        assert process.stdout is not None
        token = (state / "configdb.token").read_text()
        assert process.stdout.readline() == f"its token is in {state / 'configdb.token'}\n"
        assert requests.get(url + "/components", timeout=20).status_code == 401
        headers = {"X-Auth-Token": token, "X-Configdb-Author": "Zo%C3%AB"}
        fill(url, headers)
        with requests.Session() as session:
            session.headers.update(headers)
            for number in range(3):
                assert session.put(f"{url}{NODE}/values", json={"a": number}, timeout=20).status_code == 204
            # Chunked, and with a body that is larger than what gunicorn reads at once.
            big = iter([b'{"a":"', b"x" * 300_000, b'"}'])
            sent = session.put(
                f"{url}{NODE}/values", data=big, headers={"Content-Type": "application/json"}, timeout=20
            )
            assert sent.status_code == 204
            history = session.get(f"{url}{NODE}/values/history", timeout=20).json()
            assert [item["author"] for item in history] == ["Zo\u00eb"] * 4
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out, err) == (0, "", "")
        assert token not in out + err
    assert {path.name for path in state.iterdir()} == {"configdb.sqlite", "configdb.sqlite.lock", "configdb.token"}
    assert {path.stat().st_mode & 0o777 for path in state.iterdir()} == {0o600}


def test_an_encoded_slash_and_a_long_line_arrive(tmp_path: Path) -> None:
    with serving("--state", str(tmp_path / "state"), "--auth", "none") as (url, _):
        fill(url)
        assert requests.get(f"{url}/environments/5/resources/override%2Fplugins/values", timeout=20).status_code == 404
        value = "%F0%9F%98%80" * 128
        target = f"{url}/environments/5/cluster/{value}/nodes/{value}/resources/globals/values"
        assert requests.put(target, json={"a": 1}, timeout=20).status_code == 204
        assert requests.get(target, timeout=20).json() == {"a": 1}


def test_a_body_that_is_cut_changes_nothing(tmp_path: Path) -> None:
    with serving("--state", str(tmp_path / "state"), "--auth", "none") as (url, _):
        fill(url)
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            head = (
                f"PUT {NODE}/values HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n"
            )
            connection.sendall(head.encode() + b'{"a":1}')
            connection.shutdown(socket.SHUT_WR)
            assert b"400" in connection.makefile("rb").readline()
        assert requests.get(f"{url}{NODE}/values", timeout=20).json() == {}


def test_tls(tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=IP:127.0.0.1",
            "-keyout",
            str(key),
            "-out",
            str(certificate),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )
    with serving(
        "--state", str(tmp_path / "state"), "--tls-cert", str(certificate), "--tls-key", str(key), "--workers", "1"
    ) as (url, _):
        assert url.startswith("https://127.0.0.1:")
        assert requests.get(url + "/components", verify=str(certificate), timeout=20).status_code == 401
    with pytest.raises(SettingsError, match=r"key\.pem|can't be used"):
        check_reach(Listen("127.0.0.1", 0), GunicornOptions(certificate, tmp_path / "nothing.pem"), unguarded=True)
    assert ssl.OPENSSL_VERSION


@pytest.mark.parametrize(
    ("host", "transport", "unguarded", "words"),
    [
        ("0.0.0.0", GunicornOptions(), False, "--behind-proxy"),
        ("::", GunicornOptions(), False, "--tls-cert"),
        ("example.org", GunicornOptions(), False, "--tls-cert"),
        ("0.0.0.0", GunicornOptions(behind_proxy=True), True, "--auth token"),
        ("127.0.0.1", GunicornOptions(behind_proxy=True), True, "--auth token"),
        ("127.0.0.1", GunicornOptions(certificate=Path("c")), True, "--tls-key"),
    ],
)
def test_it_is_never_open_to_others(host: str, transport: GunicornOptions, unguarded: bool, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check_reach(Listen(host, 0), transport, unguarded=unguarded)
    assert words in str(caught.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_may_be_open(host: str) -> None:
    check_reach(Listen(host, 0), GunicornOptions(), unguarded=True)
    check_reach(Listen(host, 0), GunicornOptions(behind_proxy=True), unguarded=False)


def test_what_to_listen_on() -> None:
    assert read_listen("127.0.0.1:0") == Listen("127.0.0.1", 0)
    assert read_listen("[::1]:8082").address() == "[::1]:8082"
    for wrong in ("", "127.0.0.1", ":80", "::1:80", "a:b", "a:65536", "a:-1", "a: 1", "[]:1"):
        with pytest.raises(SettingsError):
            read_listen(wrong)


def test_a_taken_address_and_bad_token_files_are_errors_that_name_them(tmp_path: Path) -> None:
    def fault(*arguments: str) -> str:
        found = CliRunner().invoke(configdb, ["serve", "--state", str(tmp_path / "state"), *arguments])
        assert isinstance(found.exception, ProductError), found.output
        return str(found.exception)

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}" in fault("--listen", f"127.0.0.1:{port}")
    token = tmp_path / "token"
    assert "No such file" in fault("--token-file", str(token))
    token.write_text("short")
    token.chmod(0o600)
    assert "16" in fault("--token-file", str(token))
    token.write_text("long-enough-but-open")
    token.chmod(0o640)
    assert "chmod 0600" in fault("--token-file", str(token))
    assert "--auth token" in fault("--auth", "none", "--listen", "0.0.0.0:0")


WRITER = """
import sys
from werkzeug.test import Client
from configdb_sync.configdb_server import create_app
application = create_app(sys.argv[1])
client = Client(application)
for number in range(15):
    key = f"{sys.argv[2]}-{number}"
    for body, path in (([[key, number]], "/values/keys/set"), ({key: 1}, f"/overrides")):
        answer = client.put(sys.argv[3] + path, json=body)
        assert answer.status_code == 204, answer.text
    assert client.get(sys.argv[3] + "/values?effective").status_code == 200
application.close()
"""


def test_processes_of_all_kinds_share_one_file(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serving("--state", str(state), "--auth", "none") as (url, _):
        fill(url)
        assert requests.put(f"{url}{NODE}/values", json={}, timeout=20).status_code == 204
        database = f"sqlite:///{state / 'configdb.sqlite'}"
        command = [sys.executable, "-W", "error", "-c", WRITER, database]
        others = [
            subprocess.Popen([*command, f"process{number}", NODE], stderr=subprocess.PIPE, text=True)
            for number in range(2)
        ]

        def over_http(number: int) -> int:
            body = [[f"http-{number}", number]]
            return requests.put(f"{url}{NODE}/values/keys/set", json=body, timeout=60).status_code

        with ThreadPoolExecutor(8) as pool:
            assert Counter(pool.map(over_http, range(30))) == {204: 30}
        for other in others:
            assert (other.communicate(timeout=60)[1], other.returncode) == ("", 0)
        expected = {f"http-{number}": number for number in range(30)}
        expected |= {f"process{who}-{number}": number for who in range(2) for number in range(15)}
        assert requests.get(f"{url}{NODE}/values", timeout=20).json() == expected
        application = create_app(database)
        try:
            assert Api(application).good("GET", NODE + "/values") == expected
        finally:
            application.close()


def test_two_workers_on_postgresql(cluster: Any) -> None:
    url = cluster.create("served")
    with serving("--auth", "none", "--configdb-database", url) as (address, _):
        fill(address)
        assert requests.put(f"{address}{NODE}/values", json={}, timeout=20).status_code == 204

        def put(number: int) -> int:
            body = [[f"k{number}", number]]
            return requests.put(f"{address}{NODE}/values/keys/set", json=body, timeout=60).status_code

        with ThreadPoolExecutor(20) as pool:
            assert Counter(pool.map(put, range(40))) == {204: 40}
        found = requests.get(f"{address}{NODE}/values", timeout=20).json()
        assert found == {f"k{number}": number for number in range(40)}
