"""The client against real RabbitMQ and real MCollective daemons (U8, U10, U12, U14)."""

from __future__ import annotations

import hashlib
import json
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from configdb_sync.errors import BusError
from configdb_sync.mcollective.broker import LoginRefusedError, UnreachableError
from configdb_sync.mcollective.bus_settings import Tls
from configdb_sync.mcollective.client import BusRpc
from configdb_sync.mcollective.outcomes import ErrorReply, Missing, Outcome, Reply
from configdb_sync.mcollective.transport import BrokerLostError
from tests.lab.certificates import make_authority
from tests.lab.laboratory import Laboratory

ALL = ("1", "2", "3", "4")
SHELL = ("execute_shell_command", "execute")
PING = (sys.executable, "-m", "configdb_sync", "ping", "--mco-config")
UPLOAD = ("uploadfile", "upload")
SOON = 40.0
"""Seconds within which what needs one or two ends on a machine with much else to do; a wait without an end doesn't."""


@pytest.fixture
def rpc(laboratory: Laboratory) -> Iterator[BusRpc]:
    with BusRpc(laboratory.settings()) as found:
        yield found


def upload(path: str, content: bytes, **changes: object) -> dict[str, object]:
    """Return the inputs of an upload."""
    inputs: dict[str, object] = {"path": path, "content": content, "overwrite": True, "parents": False}
    return inputs | {"user_owner": "root", "group_owner": "root", "permissions": "0600"} | changes


def by_identity(outcomes: Iterator[Outcome]) -> dict[str, Outcome]:
    found = list(outcomes)
    assert len({one.identity for one in found}) == len(found)
    return {one.identity: one for one in found}


def run(rpc: BusRpc, command: bytes | str, identity: str = "1") -> dict[str, object]:
    (one,) = rpc.call(*SHELL, {"cmd": command}, [identity], timeout=60)
    assert isinstance(one, Reply), one
    return dict(one.data)


def test_all_nodes_answer_a_ping(rpc: BusRpc) -> None:
    start = time.monotonic()
    assert rpc.discover(timeout=60, expected=ALL) == list(ALL)
    assert time.monotonic() - start < SOON
    assert rpc.discover(timeout=3) == list(ALL)


def test_a_command_runs_on_each_node_with_its_own_folders(laboratory: Laboratory, rpc: BusRpc) -> None:
    for node in laboratory.nodes.values():
        (node.hiera / "astute.yaml").write_text(f"uid: '{node.identity}'\n")
    outcomes = by_identity(rpc.call(*SHELL, {"cmd": "cat /etc/hiera/astute.yaml"}, ALL, timeout=60))
    assert outcomes == {
        name: Reply(name, {"stdout": f"uid: '{name}'\n".encode(), "stderr": b"", "exit_code": 0}) for name in ALL
    }


def test_output_is_the_bytes_that_the_command_wrote(laboratory: Laboratory, rpc: BusRpc) -> None:
    """B01 with a real node: text, UTF-8, invalid UTF-8, every byte, megabytes with many zero bytes."""
    every = bytes(range(256)) * 4
    big = hashlib.sha256(b"x").digest() * 30_000 + bytes(500_000)
    for content in (b"plain\n", "naïve ∑\n".encode(), b"\xff\xfe", every, big):
        (laboratory.nodes["1"].hiera / "x").write_bytes(content)
        assert run(rpc, "cat /etc/hiera/x") == {"stdout": content, "stderr": b"", "exit_code": 0}


def test_how_commands_end(rpc: BusRpc) -> None:
    assert run(rpc, "echo no >&2; exit 3") == {"stdout": b"", "stderr": b"no\n", "exit_code": 3}
    assert run(rpc, "kill -9 $$")["exit_code"] == 137
    assert run(rpc, "/nonexistent/program")["exit_code"] == 42
    assert run(rpc, "")["exit_code"] == 42
    assert run(rpc, "echo 'quoted \"é\n' | cat; pwd")["stdout"] == 'quoted "é\n\n/tmp\n'.encode()


def test_an_upload_arrives_as_it_was_sent(laboratory: Laboratory, rpc: BusRpc) -> None:
    every = bytes(range(256)) * 1000
    requests = {name: upload("/etc/hiera/a file", every + name.encode(), permissions="0640") for name in ALL}
    outcomes = by_identity(rpc.call_each(*UPLOAD, requests, timeout=60))
    assert outcomes == {name: Reply(name, {"msg": b"File was uploaded!"}) for name in ALL}
    for name, node in laboratory.nodes.items():
        path = node.hiera / "a file"
        assert path.read_bytes() == every + name.encode()
        assert path.stat().st_mode & 0o7777 == 0o640


@pytest.mark.parametrize(
    ("inputs", "code", "text"),
    [
        (upload("/etc/hiera/there", b"x", overwrite=False), 1, "already exists"),
        (upload("/etc/hiera/none/x", b"x"), 1, "does not exist"),
        (upload("/etc/hiera/x", b""), 4, "content"),
        (upload("/etc/hiera/x", b"\n\n"), 4, "content"),
        (upload("/etc/hiera/$x", b"x"), 4, "path"),
        (upload("/etc/hiera/" + "x" * 250, b"x"), 4, "path"),
        (upload("/etc/hiera/x", b"x", permissions="600x"), 4, "permissions"),
        (upload("/etc/hiera/x", b"x", overwrite="true"), 4, "overwrite"),
        ({"path": "/etc/hiera/x"}, 4, "needs a content argument"),
        (upload("/etc/hiera/x", b"x", user_owner="nobody-here"), 5, "nobody-here"),
        (upload("/etc/hiera/folder", b"x"), 5, "Is a directory"),
    ],
)
def test_what_agents_refuse_is_a_failure_with_code_and_text(
    laboratory: Laboratory, rpc: BusRpc, inputs: dict[str, object], code: int, text: str
) -> None:
    (laboratory.nodes["2"].hiera / "there").write_text("old")
    (laboratory.nodes["2"].hiera / "folder").mkdir()
    (one,) = rpc.call(*UPLOAD, inputs, ["2"], timeout=60)
    assert isinstance(one, ErrorReply)
    assert one.code == code
    assert text in one.text
    assert (laboratory.nodes["2"].hiera / "there").read_text() == "old"


def test_an_action_that_is_not_there_is_a_failure_and_an_agent_is_silence(rpc: BusRpc) -> None:
    (one,) = rpc.call("execute_shell_command", "other", {"cmd": "true"}, ["1"], timeout=60)
    assert isinstance(one, ErrorReply)
    assert one.code == 4
    (one,) = rpc.call("nobody", "execute", {}, ["1"], timeout=1)
    assert isinstance(one, Missing)


def test_a_node_that_is_down_is_missing_and_the_others_answer(laboratory: Laboratory, rpc: BusRpc) -> None:
    laboratory.nodes["3"].process.kill()
    outcomes = by_identity(rpc.call(*SHELL, {"cmd": "true"}, [*ALL, "99"], timeout=8))
    assert {name for name, one in outcomes.items() if isinstance(one, Missing)} == {"3", "99"}
    assert {name for name, one in outcomes.items() if isinstance(one, Reply)} == {"1", "2", "4"}


def test_a_wrong_key_is_silence_on_our_side_and_a_line_on_the_nodes(laboratory: Laboratory) -> None:
    settings = laboratory.settings()
    wrong = replace(settings, signer=replace(settings.signer, psk=b"CANARY-wrong"))
    with BusRpc(wrong) as rpc:
        (one,) = rpc.call(*SHELL, {"cmd": "true"}, ["1"], timeout=1)
    assert isinstance(one, Missing)
    assert "psk" in one.hint
    assert "CANARY" not in one.hint
    assert "Received an invalid signature in message" in laboratory.nodes["1"].log


def test_a_request_from_the_future_or_without_ttl_as_nodes_see_it(laboratory: Laboratory) -> None:
    """B11: a ttl that is over by the node's clock is silence, with Fuel's ttl no clock matters."""
    settings = laboratory.settings()
    for ttl, expected in ((1, Missing), (settings.signer.ttl, Reply)):

        class Old:
            """A clock that is an hour behind the node's."""

            def now(self) -> object:
                from datetime import UTC, datetime, timedelta

                return datetime.now(UTC) - timedelta(hours=1)

            monotonic = staticmethod(time.monotonic)
            sleep = staticmethod(time.sleep)

        with BusRpc(replace(settings, signer=replace(settings.signer, ttl=ttl)), Old()) as rpc:  # type: ignore[arg-type]
            (one,) = rpc.call(*SHELL, {"cmd": "true"}, ["1"], timeout=2 if expected is Missing else 60)
        assert isinstance(one, expected), ttl


@pytest.mark.parametrize("changed", ["password", "user", "vhost"])
def test_a_refused_login_says_why_without_the_password(laboratory: Laboratory, changed: str) -> None:
    """B03 with a real broker."""
    settings = laboratory.settings()
    if changed == "vhost":
        settings = replace(settings, vhost="/mcollective")
    else:
        host = settings.hosts[0]
        password, user = ("CANARY-wrong", host.user) if changed == "password" else (host.password, "CANARY-user")
        settings = replace(settings, hosts=(replace(host, password=password, user=user),))
    start = time.monotonic()
    with BusRpc(settings) as rpc, pytest.raises(LoginRefusedError) as error:
        rpc.discover(timeout=1)
    assert time.monotonic() - start < SOON
    assert "denied" in str(error.value) if changed == "vhost" else "refused" in str(error.value)
    assert laboratory.broker.password not in f"{error.value!s} {error.value!r}"
    assert "CANARY-wrong" not in f"{error.value!s} {error.value!r}"


def test_an_exchange_that_is_not_there_is_the_brokers_word(laboratory: Laboratory) -> None:
    settings = laboratory.settings()
    other = replace(settings, signer=replace(settings.signer, collective="other"))
    with BusRpc(other) as rpc, pytest.raises(BrokerLostError, match="not_found") as error:
        list(rpc.call(*SHELL, {"cmd": "true"}, ["1"], timeout=5))
    assert "no exchange 'other_directed'" in str(error.value)


def test_tls_with_the_right_ca(laboratory: Laboratory) -> None:
    """U12."""
    big = bytes(range(256)) * 4000
    (laboratory.nodes["1"].hiera / "x").write_bytes(big)
    with BusRpc(laboratory.settings(tls=True)) as rpc:
        assert rpc.discover(timeout=60, expected=ALL) == list(ALL)
        assert run(rpc, "cat /etc/hiera/x")["stdout"] == big
        (one,) = rpc.call(*UPLOAD, upload("/etc/hiera/y", big * 3), ["1"], timeout=60)
    assert isinstance(one, Reply)
    assert (laboratory.nodes["1"].hiera / "y").read_bytes() == big * 3


def test_tls_with_a_wrong_ca_ends_before_the_password_is_sent(laboratory: Laboratory, tmp_path: Path) -> None:
    """U12."""
    other = make_authority(tmp_path, "other")
    settings = laboratory.settings(tls=True)
    host = replace(settings.hosts[0], tls=Tls(ca=(str(other.certificate),)))
    with (
        BusRpc(replace(settings, hosts=(host,))) as rpc,
        pytest.raises(UnreachableError, match="can't be verified") as error,
    ):
        rpc.discover(timeout=1)
    assert error.value.phase == "handshake"
    assert str(host) in str(error.value)
    # The system's own CAs don't know it either; not to look is explicit, and said.
    host = replace(host, tls=Tls())
    with BusRpc(replace(settings, hosts=(host,))) as rpc, pytest.raises(UnreachableError, match="can't be verified"):
        rpc.discover(timeout=1)
    host = replace(host, tls=Tls(verify=False))
    with BusRpc(replace(settings, hosts=(host,))) as rpc:
        assert rpc.discover(timeout=60, expected=ALL) == list(ALL)


def test_plain_where_tls_is_spoken_and_the_other_way_round(laboratory: Laboratory) -> None:
    plain, secure = laboratory.settings(), laboratory.settings(tls=True)
    crossed = replace(plain.hosts[0], port=secure.hosts[0].port), replace(secure.hosts[0], port=plain.hosts[0].port)
    for host in crossed:
        bounds = replace(plain.bounds, connect=2, attempts=1)
        start = time.monotonic()
        with BusRpc(replace(plain, hosts=(host,), bounds=bounds)) as rpc, pytest.raises(UnreachableError) as error:
            rpc.discover(timeout=1)
        assert time.monotonic() - start < SOON
        assert error.value.phase == "handshake"


def test_a_ca_file_that_is_not_there_is_named(laboratory: Laboratory) -> None:
    settings = laboratory.settings(tls=True)
    host = replace(settings.hosts[0], tls=Tls(ca=("/nonexistent/ca.pem",)))
    with (
        BusRpc(replace(settings, hosts=(host,))) as rpc,
        pytest.raises(UnreachableError, match=r"/nonexistent/ca\.pem"),
    ):
        rpc.discover(timeout=1)


def test_the_broker_is_killed_and_restarted_in_the_middle_of_calls(laboratory: Laboratory) -> None:
    """B04, B17: a call that can wait has one outcome for each node; one that can't ends and says of what."""
    command = "test -e /etc/hiera/begun && exec echo done; touch /etc/hiera/begun; sleep 30"
    found: list[Outcome] = []
    errors: list[BusError] = []

    def ask(timeout: float) -> None:
        try:
            with BusRpc(laboratory.settings()) as rpc:
                found.extend(rpc.call(*SHELL, {"cmd": command}, ALL, timeout=timeout))
        except BusError as error:
            errors.append(error)

    patient = threading.Thread(target=ask, args=(120,))
    patient.start()
    deadline = time.monotonic() + 60
    while not all((node.hiera / "begun").exists() for node in laboratory.nodes.values()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    for node in laboratory.nodes.values():
        (node.hiera / "begun").unlink()
    hasty = threading.Thread(target=ask, args=(10,))
    hasty.start()
    while not all((node.hiera / "begun").exists() for node in laboratory.nodes.values()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    laboratory.broker.server.kill()
    hasty.join(60)
    assert not hasty.is_alive()
    assert [type(error) for error in errors] == [UnreachableError]
    assert errors[0].phase == "connect"
    assert f"127.0.0.1:{laboratory.broker.stomp}" in str(errors[0])
    assert "Connection refused" in str(errors[0])
    laboratory.broker.start()
    patient.join(240)
    assert not patient.is_alive()
    assert sorted(one.identity for one in found) == list(ALL)
    assert all(isinstance(one, Reply) and one.data["stdout"] == b"done\n" for one in found), found


def test_a_request_too_big_for_the_broker_is_refused_here(laboratory: Laboratory, rpc: BusRpc) -> None:
    content = b"x" * 3_900_000
    (one,) = rpc.call(*UPLOAD, upload("/etc/hiera/big", content), ["1"], timeout=60)
    assert isinstance(one, Reply)
    assert (laboratory.nodes["1"].hiera / "big").stat().st_size == len(content)


def test_no_secret_is_in_logs_errors_or_the_list_of_processes(
    laboratory: Laboratory, caplog: pytest.LogCaptureFixture
) -> None:
    """Key and password of the laboratory are the canaries."""
    caplog.set_level(logging.DEBUG)
    secrets = (laboratory.psk, laboratory.broker.password)
    with subprocess.Popen(
        [*PING, str(laboratory.config), "--mco-timeout", "5"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        listed = "".join(
            path.read_bytes().decode(errors="replace") for path in Path(f"/proc/{process.pid}").glob("cmdline")
        )
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.splitlines() == list(ALL)
    with BusRpc(laboratory.settings()) as rpc:
        list(rpc.call(*SHELL, {"cmd": "true"}, ["1", "99"], timeout=1))
    shown = listed + out + err + caplog.text + repr(laboratory.settings())
    assert not any(secret in shown for secret in secrets)


def test_ping_names_who_is_missing(laboratory: Laboratory) -> None:
    done = subprocess.run(
        [*PING, str(laboratory.config), "--node", "1,2,3,4,99", "--mco-timeout", "5", "--format", "json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 3, done.stderr
    assert json.loads(done.stdout) == {"version": 1, "answered": ["1", "2", "3", "4"], "missing": ["99"]}


def test_tls_as_the_masters_settings_say(laboratory: Laboratory, tmp_path: Path) -> None:
    """U12: verified with the CA that they name; without verification only where they say so, and then aloud."""
    plain = laboratory.config.read_text()
    secure = plain.replace(f".port = {laboratory.broker.stomp}", f".port = {laboratory.broker.tls}")
    secure += "\nplugin.rabbitmq.pool.1.ssl = 1\n"
    told = {
        "ca": (f"plugin.rabbitmq.pool.1.ssl.ca = {laboratory.broker.authority.certificate}\n", 0, "4 nodes answered"),
        "none": ("", 8, "can't be verified"),
        "fallback": ("plugin.rabbitmq.pool.1.ssl.fallback = 1\n", 0, "TLS without verification"),
    }
    for name, (lines, code, said) in told.items():
        file = tmp_path / f"{name}.cfg"
        file.write_text(secure + lines)
        done = subprocess.run(
            [*PING, str(file), "--node", ",".join(ALL)], capture_output=True, text=True, check=False, timeout=60
        )
        assert (done.returncode, said in done.stderr) == (code, True), done.stderr
        assert laboratory.psk not in done.stderr
