"""U3, U12: a file that MCollective's settings name for TLS is looked at before a broker is tried."""

from __future__ import annotations

from pathlib import Path

import pytest

from configdb_sync.exits import Exit
from tests.support.product import Product

BROKER = """\
plugin.rabbitmq.pool.size = 1
plugin.rabbitmq.pool.1.host = 127.0.0.1
plugin.rabbitmq.pool.1.port = 1
plugin.rabbitmq.pool.1.user = mcollective
plugin.rabbitmq.pool.1.password = CANARY
plugin.psk = CANARY
connector = rabbitmq
securityprovider = psk
"""


@pytest.mark.parametrize("stage", [(), ("--stage", "main")])
@pytest.mark.parametrize(
    ("option", "content"),
    [("ca", None), ("ca", "no certificate"), ("cert", None), ("cert", "no certificate"), ("ciphers", None)],
)
def test_a_file_of_tls_that_cannot_be_used_is_a_usage_error(
    product: Product, tmp_path: Path, option: str, content: str | None, stage: tuple[str, ...]
) -> None:
    named = tmp_path / "tls.pem"
    if content is not None:
        named.write_text(content)
    file = tmp_path / "client.cfg"
    file.touch(mode=0o600)
    file.write_text(f"{BROKER}plugin.rabbitmq.pool.1.ssl = 1\nplugin.rabbitmq.pool.1.ssl.{option} = {named}\n")
    # A retry would be one of a hundred.
    way = ("--from", "mcollective", "--mco-config", file, "--mco-attempts", 100, "--mco-connect-limit", 3600)
    result = product("sync", "--env", 5, *way, *stage)
    said = result.out + result.err
    assert result.code == Exit.USAGE, said
    assert "plugin.rabbitmq.pool.1.ssl" in said
    assert str(file) in said
    assert option == "ciphers" or str(named) in said
    assert "CANARY" not in said


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--from", "mcollective", "--mco-config", "/nowhere/client.cfg"), "--mco-config: mco_config names /nowhere"),
        (
            ("--configdb", "https://127.0.0.1:1", "--configdb-ca", "/nowhere/ca"),
            "--configdb-ca: configdb_ca names /nowhere",
        ),
        (
            ("--configdb", "https://127.0.0.1:1", "--configdb-token-file", "/nowhere/t"),
            "--configdb-token-file: configdb_token_file names /nowhere",
        ),
        (
            ("--nailgun", "https://127.0.0.1:1", "--nailgun-ca", "/nowhere/ca"),
            "--nailgun-ca: nailgun_ca names /nowhere",
        ),
    ],
)
def test_a_file_that_a_setting_names_must_be_there(
    product: Product, tmp_path: Path, flags: tuple[str, ...], named: str
) -> None:
    (tmp_path / "trees/node-1/etc/hiera").mkdir(parents=True)
    place = () if "--from" in flags else ("--from", tmp_path / "trees")
    result = product("sync", "--env", 5, *place, *flags)
    assert result.code == Exit.USAGE, result.err
    assert named in result.err
