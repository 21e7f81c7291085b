"""``configdb-sync ping`` as a user sees it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from configdb_sync.exits import Exit
from configdb_sync.mcollective import client
from configdb_sync.mcollective.marshal import dumps
from tests.mcollective.fake import PASSWORD, PSK, USER, Peer, answering, broker
from tests.mcollective.test_broker import refuse
from tests.support.clocks import Hasty
from tests.support.product import Product


def config(folder: Path, port: int) -> Path:
    file = folder / "client.cfg"
    pool = "plugin.rabbitmq.pool"
    file.write_text(
        f"connector = rabbitmq\nsecurityprovider = psk\nplugin.psk = {PSK}\nidentity = master\n"
        f"plugin.rabbitmq.vhost = mcollective\n{pool}.size = 1\n{pool}.1.host = 127.0.0.1\n{pool}.1.port = {port}\n"
        f"{pool}.1.user = {USER}\n{pool}.1.password = {PASSWORD}\n"
    )
    return file


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Hasty:
    """The bus's clock."""
    clock = Hasty()
    monkeypatch.setattr(client, "SystemClock", lambda: clock)
    return clock


def pongs(clock: Hasty | None = None) -> Callable[[Peer], None]:
    """Nodes 10 and 9 answer; then, with ``clock``, there are two of 60 seconds left to listen for others."""

    def script(peer: Peer) -> None:
        peer.welcome()
        for heard in peer.requests():
            for name in ("10", "9"):
                peer.answer(heard, sender=name, body=dumps("pong"))
            if clock is not None:
                clock.forward(58)

    return script


def test_who_answers_is_printed(product: Product, tmp_path: Path, clock: Hasty) -> None:
    with broker(pongs(clock), pongs()) as fake:
        file = config(tmp_path, fake.port)
        found = product("ping", "--mco-config", file, "--mco-timeout", "60")
        assert (found.code, found.out, found.err) == (Exit.OK, "9\n10\n", "2 nodes answered\n")
        assert product("ping", "--mco-config", file, "--node", "9, 10").code == Exit.OK


def test_who_should_have_answered_is_named(product: Product, tmp_path: Path, clock: Hasty) -> None:
    with broker(pongs(clock)) as fake:
        options = ("--mco-config", config(tmp_path, fake.port), "--mco-timeout", "60", "--node", "9,3", "--node", "4")
        found = product("ping", *options)
        assert (found.code, found.err) == (Exit.PARTIAL, "2 nodes answered, missing: 3, 4\n")
        found = product("ping", *options, "--format", "json")
        assert json.loads(found.out) == {"version": 1, "answered": ["9", "10"], "missing": ["3", "4"]}


def test_debug_shows_the_bus_and_no_secret(
    product: Product, tmp_path: Path, clock: Hasty, caplog: pytest.LogCaptureFixture
) -> None:
    with broker(pongs(clock)) as fake:
        options = ("--mco-config", config(tmp_path, fake.port), "--mco-timeout", "60")
        assert product("ping", "--debug", "-q", *options).err == ""
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [f"connected to broker 127.0.0.1:{fake.port}", "2 nodes answered a ping of all"]
    assert not {PSK, PASSWORD} & {*caplog.text.split()}


def test_nobody_answers(product: Product, tmp_path: Path) -> None:
    def silent(peer: Peer) -> None:
        peer.welcome()
        peer.read()
        peer.read()

    with broker(silent) as fake:
        found = product("ping", "--mco-config", config(tmp_path, fake.port), "--mco-timeout", "0.3")
    assert (found.code, found.err) == (Exit.NODES, "0 nodes answered\n")


@pytest.mark.parametrize("script", [refuse, answering])
def test_no_secret_is_shown(
    product: Product, tmp_path: Path, script: object, capfd: pytest.CaptureFixture[str]
) -> None:
    with broker(script) as fake:  # type: ignore[arg-type]
        found = product("ping", "--mco-config", config(tmp_path, fake.port), "--mco-timeout", "0.3")
    assert found.code == (Exit.NODES if script is refuse else Exit.OK)
    assert "CANARY" not in found.out + found.err + "".join(capfd.readouterr())


def test_no_settings_of_mcollective(product: Product, tmp_path: Path) -> None:
    found = product("ping", "--mco-config", tmp_path / "none.cfg")
    assert found.code == Exit.USAGE
    assert "none.cfg, which is no file" in found.err
