"""MCollective's own ``client.cfg`` read as MCollective reads it, and where messages go on RabbitMQ (U12)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from configdb_sync.errors import BusError, SettingsError
from configdb_sync.mcollective.bus_settings import Bounds, BusSettings, Host, RabbitMQ, Tls, read_config

FUEL = """\
# made by Puppet
main_collective = mcollective
collectives = mcollective
libdir = /usr/share/mcollective/plugins
loglevel = debug
direct_addressing = 1
ttl = 4294957
identity = master
securityprovider = psk
plugin.psk = CANARY-psk=with=signs
connector = rabbitmq
plugin.rabbitmq.vhost = mcollective
plugin.rabbitmq.pool.size = 1
plugin.rabbitmq.pool.1.host = 10.20.0.2
plugin.rabbitmq.pool.1.port = 61613
plugin.rabbitmq.pool.1.user = mcollective
plugin.rabbitmq.pool.1.password = CANARY-password
plugin.rabbitmq.heartbeat_interval = 30
factsource = yaml
plugin.yaml = /etc/mcollective/facts.yaml
"""


def read(
    folder: Path, text: str = FUEL, environ: Mapping[str, str] | None = None, plugins: Mapping[str, str] | None = None
) -> BusSettings:
    file = folder / "client.cfg"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    for name, content in (plugins or {}).items():
        (folder / "plugin.d").mkdir(exist_ok=True)
        (folder / "plugin.d" / name).write_text(content)
    return read_config(file, environ or {}, identity="host.example.com", uid=0, bounds=Bounds())


def test_what_fuel_writes_is_read(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert found.hosts == (Host("10.20.0.2", 61613, "mcollective", "CANARY-password"),)
    assert found.signer.psk == b"CANARY-psk=with=signs"
    assert (found.signer.identity, found.signer.caller, found.signer.ttl) == ("master", "uid=0", 4294957)
    assert (found.vhost, found.heartbeat, found.base64, found.multiplex) == ("mcollective", 30, False, False)
    assert found.warnings == ()
    assert "CANARY" not in repr(found) + str(found) + repr(found.signer) + repr(found.hosts)
    assert set(found.secrets) == {"CANARY-psk=with=signs", "CANARY-password"}


def without(*names: str) -> str:
    return "".join(line for line in FUEL.splitlines(True) if not line.startswith(names))


def test_what_is_not_said_is_as_documented(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        without("identity", "ttl", "main_coll", "coll", "plugin.rabbitmq.vhost", "plugin.rabbitmq.pool.1.port").replace(
            "plugin.rabbitmq.heartbeat_interval = 30\n", ""
        ),
    )
    assert found.signer.identity == "host.example.com"
    assert found.signer.ttl == 4294957
    assert found.signer.collective == "mcollective"
    assert found.hosts[0].port == 61613
    assert (found.vhost, found.heartbeat) == ("/", 0)


def test_lines_are_taken_as_ruby_takes_them(tmp_path: Path) -> None:
    text = (
        FUEL.replace("ttl = 4294957", "ttl=77 \t").replace("plugin.psk = ", "plugin.psk   =   ").replace("\n", "\r\n")
    )
    found = read(tmp_path, "\n   \n#plugin.psk = no\nno sign\n" + text)
    assert found.signer.ttl == 77
    assert found.signer.psk == b"CANARY-psk=with=signs"


def test_a_key_may_be_any_bytes(tmp_path: Path) -> None:
    text = FUEL.replace("CANARY-psk=with=signs", "é\udcff\u2028x")
    assert read(tmp_path, text).signer.psk == "é\u2028x".encode().replace("\u2028".encode(), b"\xff\xe2\x80\xa8")


def test_the_last_of_two_lines_wins_and_files_of_plugins_win_over_it(tmp_path: Path) -> None:
    text = FUEL + "plugin.rabbitmq.vhost = one\nplugin.rabbitmq.vhost = two\n"
    assert read(tmp_path, text).vhost == "two"
    assert read(tmp_path, text, plugins={"rabbitmq.cfg": "# x\nvhost = three\n", "odd": "vhost = no"}).vhost == "three"


def test_variables_of_the_environment_come_first(tmp_path: Path) -> None:
    text = FUEL + "plugin.rabbitmq.pool.1.ssl = 1\nplugin.rabbitmq.pool.1.ssl.cert = /a\n"
    found = read(
        tmp_path,
        text,
        {
            "MCOLLECTIVE_PSK": "other",
            "STOMP_USER": "me",
            "STOMP_PASSWORD": "secret",
            "MCOLLECTIVE_RABBITMQ_POOL1_SSL_CERT": "/c",
            "MCOLLECTIVE_RABBITMQ_POOL1_SSL_KEY": "/k",
        },
    )
    assert found.signer.psk == b"other"
    assert (found.hosts[0].user, found.hosts[0].password) == ("me", "secret")
    assert found.hosts[0].tls == Tls(cert="/c", key="/k")


def test_a_pool_of_hosts_with_tls_for_each(tmp_path: Path) -> None:
    text = FUEL.replace("pool.size = 1", "pool.size = 3") + "".join(
        f"plugin.rabbitmq.pool.{place}.{line}\n"
        for place in (2, 3)
        for line in (f"host = mq{place}", "user = u", "password = p", "port = 61614", "ssl = true")
    )
    text += "plugin.rabbitmq.pool.2.ssl.ca = /ca/one, /ca/two\nplugin.rabbitmq.pool.2.ssl.fallback = 1\n"
    text += "plugin.rabbitmq.pool.2.ssl.ciphers = HIGH\nplugin.rabbitmq.pool.3.ssl.fallback = 1\n"
    found = read(tmp_path, text)
    assert [str(host) for host in found.hosts] == ["10.20.0.2:61613", "mq2:61614", "mq3:61614"]
    assert [host.tls for host in found.hosts] == [
        None,
        Tls(ca=("/ca/one", "/ca/two"), ciphers="HIGH"),
        Tls(verify=False),
    ]
    # U12: no verification is said aloud.
    assert len(found.warnings) == 1
    assert "mq3:61614: TLS without verification" in found.warnings[0]


def test_switches(tmp_path: Path) -> None:
    text = (
        FUEL + "plugin.rabbitmq.base64 = y\nplugin.rabbitmq.agents_multiplex = True\nplugin.psk.callertype = identity\n"
    )
    found = read(tmp_path, text.replace("interval = 30", "interval = 5"))
    assert (found.base64, found.multiplex, found.heartbeat) == (True, True, 30)
    assert found.signer.caller == "identity=master"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (without("connector"), "connector is 'activemq'"),
        (FUEL.replace("provider = psk", "provider = ssl"), "securityprovider is 'ssl'"),
        (without("plugin.psk"), "has no plugin.psk and no variable MCOLLECTIVE_PSK"),
        (without("plugin.rabbitmq.pool.size"), "has no plugin.rabbitmq.pool.size"),
        (without("plugin.rabbitmq.pool.1.host"), "has no plugin.rabbitmq.pool.1.host"),
        (
            without("plugin.rabbitmq.pool.1.pass"),
            "pool.1.password and no variable STOMP_PASSWORD",
        ),
        (FUEL + "plugin.rabbitmq.pool.size = 0\n", "plugin.rabbitmq.pool.size is '0'"),
        (FUEL + "plugin.rabbitmq.pool.size = 999999\n", "plugin.rabbitmq.pool.size is '999999'"),
        (FUEL + "plugin.rabbitmq.pool.1.port = 70000\n", "plugin.rabbitmq.pool.1.port is '70000'"),
        (FUEL + "plugin.rabbitmq.pool.1.ssl = maybe\n", "plugin.rabbitmq.pool.1.ssl is 'maybe'"),
        (FUEL + "plugin.rabbitmq.base64 = 2\n", "plugin.rabbitmq.base64 is '2'"),
        (FUEL + "ttl = -1\n", "ttl is '-1'"),
        (FUEL + "ttl = \u0661\n", "ttl is"),
        (FUEL + "identity = a/b\n", "identity is 'a/b'"),
        (FUEL + "plugin.rabbitmq.use_reply_exchange = 1\n", "use_reply_exchange is set"),
        ("", "connector is 'activemq'"),
    ],
)
def test_what_cannot_be_used_is_named_without_secrets(tmp_path: Path, text: str, named: str) -> None:
    with pytest.raises(SettingsError) as error:
        read(tmp_path, text)
    assert named in str(error.value)
    assert "client.cfg" in str(error.value)
    assert "CANARY" not in f"{error.value!s} {error.value!r}"


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.cfg can't be read: No such file or directory .name them with"):
        read_config(tmp_path / "none.cfg", {}, identity="x", uid=0, bounds=Bounds())


def test_destinations_are_mcollectives() -> None:
    connector = RabbitMQ("master", 4294957)
    replies = connector.replies("x")
    assert (replies.reply_to, replies.subscribe) == ("/temp-queue/mcollective_reply_x", None)
    headers = {"reply-to": "/temp-queue/mcollective_reply_x", "expiration": "4294967000", "mc_sender": "master"}
    one = connector.directed("17", replies)
    assert (one.destination, one.headers) == ("/exchange/mcollective_directed/17", headers)
    assert connector.broadcast("discovery", replies).destination == "/exchange/mcollective_broadcast/discovery"


def test_a_collective_and_one_address_for_all_broadcasts() -> None:
    connector = RabbitMQ("master", 60, collective="other", multiplex=True)
    assert connector.broadcast("discovery", connector.replies("x")).destination == "/exchange/other_broadcast"
    assert connector.directed("1", connector.replies("x")).headers["expiration"] == "70000"


@pytest.mark.parametrize("identity", ["", "a/b", "a b", "é", "1\n", "*"])
def test_what_is_no_identity_is_no_address(identity: str) -> None:
    connector = RabbitMQ("master", 60)
    with pytest.raises(BusError, match="is no identity"):
        connector.directed(identity, connector.replies("x"))
