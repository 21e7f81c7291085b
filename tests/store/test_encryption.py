"""U30: a database is encrypted in place, while it is used, on SQLite and PostgreSQL."""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from configdb_sync.configdb_server.app import create_app
from configdb_sync.configdb_server.schema import SCHEMA, open_configdb
from configdb_sync.errors import StateError
from configdb_sync.store import conversion, keyring, opening
from configdb_sync.store.database import Database, Lookup
from configdb_sync.store.encryption import REFUSED
from configdb_sync.store.engine import with_key_file
from configdb_sync.store.keyring import EncryptionKeyError
from configdb_sync.store.schema import RECORDS
from configdb_sync.tenants.registry import open_registry
from tests.peers.postgresql import Cluster
from tests.support.configdb_server import CLUSTER, NODE, ROOT, Api, Clock

CANARY = "canary-Passw0rd-in-no-file"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    keyring.make(tmp_path / "keys")
    return tmp_path / "keys"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'db' / 'configdb.sqlite'}"
    cluster: Cluster = request.getfixturevalue("cluster")
    return cluster.create(f"sealing_{hashlib.sha256(request.node.name.encode()).hexdigest()[:12]}")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Path:
    (tmp_path / "db").mkdir()
    return tmp_path / "db"


def serve(url: str) -> Api:
    return Api(create_app(url, clock=Clock()))


def fill(api: Api) -> None:
    api.good("POST", "/components", {"name": "fuel", "resource_definitions": [{"name": "globals"}]})
    api.good("POST", "/environments", {"id": 5, "components": ["fuel"], "hierarchy_levels": ["cluster", "nodes"]})
    for number in range(3):
        api.put(f"{ROOT}/values", {"password": CANARY, "number": number, "text": f"{CANARY} " * 300})
    api.put(f"{CLUSTER}/values", {"same": CANARY})
    api.put(f"{NODE}/values", {"same": CANARY})
    api.put(f"{NODE}/overrides", {"password": f"{CANARY}-2"})


def seen(api: Api) -> list[tuple[Any, str | None]]:
    """All that clients see."""
    paths = [
        f"{place}/{kind}" for place in (ROOT, CLUSTER, NODE) for kind in ("values", "overrides", "values?effective")
    ]
    paths += [f"{ROOT}/values/history", f"{ROOT}/values?version=1", "/environments/5/overrides"]
    paths.append("/environments/5/cluster/c1/nodes/n1/etags")
    answers = [api.get(path) for path in paths]
    assert {answer.status_code for answer in answers} == {200}, [answer.text for answer in answers]
    return [(answer.json, answer.headers.get("ETag")) for answer in answers]


def converted(url: str, *, clear: bool = False) -> int:
    with closing(open_configdb(url)) as database:
        return conversion.convert(database, SCHEMA, clear=clear)


def used(url: str) -> set[str | None]:
    with closing(Database(url, what="it")) as database:
        return {key for key, count in conversion.usage(database, SCHEMA).items() if count}


def bodies_hold(url: str, needle: str) -> bool:
    """Tell whether a digest or an address is to be found in clear in any row."""
    with closing(Database(url, what="it")) as database, database.reading() as connection:
        rows = [
            str(tuple(row))
            for table in ("contents", "documents", "versions")
            for row in connection.exec_driver_sql(f"SELECT * FROM {table}")
        ]
    return any(needle in row for row in rows)


@pytest.fixture
def running(url: str, keys: Path) -> Iterator[Api]:
    """A server with keys on a database in clear."""
    plain = serve(url)
    fill(plain)
    plain.application.close()
    api = serve(with_key_file(url, keys))
    yield api
    api.application.close()


def test_a_clear_database_is_converted_while_servers_use_it(
    url: str, keys: Path, running: Api, caplog: pytest.LogCaptureFixture
) -> None:
    warned = [record.getMessage() for record in caplog.get_records("setup")]
    assert any("isn't encrypted, though key_file is set" in message for message in warned)
    before = seen(running)
    etag = running.get(f"{NODE}/values").headers["ETag"].strip('"')
    assert bodies_hold(url, etag)
    assert used(url) == {None}
    keyed, key = with_key_file(url, keys), keyring.read(keys)[0].id
    assert converted(keyed) > 0
    assert used(url) == {key}
    assert not bodies_hold(url, etag)
    assert seen(running) == before
    assert converted(keyed) == 0
    # The server of before learns by the refusal, and goes on.
    assert running.put(f"{NODE}/values", {"same": f"{CANARY}-3"}).status_code == 204
    assert running.put(f"{CLUSTER}/values", {"same": f"{CANARY}-3"}).status_code == 204
    assert running.post(f"{ROOT}/values/history/1/revert").status_code == 204
    assert running.good("GET", f"{ROOT}/values")["number"] == 0
    assert used(url) == {key}
    with closing(open_configdb(keyed)) as database, database.reading() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM contents").scalar() == 6


def test_the_database_refuses_what_is_in_clear_by_whatever_process(url: str, keys: Path, running: Api) -> None:
    without = serve(url)
    converted(with_key_file(url, keys))
    present = seen(running)
    answer = without.put(f"{NODE}/values", {"same": "in clear"})
    assert (answer.status_code, "no key file is set" in answer.text) == (503, True)
    assert without.get(f"{NODE}/values").status_code == 503
    without.application.close()
    with (
        closing(Database(url, what="it")) as database,
        pytest.raises(sa.exc.IntegrityError, match=REFUSED),
        database.transaction() as connection,
    ):
        connection.exec_driver_sql("UPDATE contents SET digest = 'clear'")
    # Encrypted, but found by a digest of the text: a transaction that began before and ended after.
    with (
        closing(Database(url, what="it")) as database,
        pytest.raises(sa.exc.IntegrityError, match=REFUSED),
        database.transaction() as connection,
    ):
        connection.exec_driver_sql(
            f"INSERT INTO contents SELECT '{'0' * 64}', digest, body, key_digests FROM contents LIMIT 1"
        )
    with pytest.raises(StateError, match=r"the ConfigDB database is encrypted with key .*, and no key file is set"):
        create_app(url)
    assert seen(running) == present


def test_another_key_is_an_error_that_names_the_one_that_is_missing(
    url: str, keys: Path, running: Api, tmp_path: Path
) -> None:
    converted(with_key_file(url, keys))
    keyring.make(tmp_path / "other")
    with pytest.raises(StateError, match=f"key {keyring.read(keys)[0].id}, which is not in {tmp_path}/other"):
        create_app(with_key_file(url, tmp_path / "other"))


def test_the_key_is_changed_while_a_server_runs(url: str, keys: Path, running: Api) -> None:
    keyed = with_key_file(url, keys)
    converted(keyed)
    before, first = seen(running), keyring.read(keys)[0].id
    second = keyring.add(keys)
    running.put(f"{NODE}/overrides", {"password": f"{CANARY}-4"})
    assert used(url) == {first, second.id}  # both are read side by side
    present = seen(running)
    assert present != before
    with closing(open_configdb(keyed)) as database, database.transaction() as connection:
        assert not conversion.check_unused(connection, SCHEMA, keyring.read(keys)[1])
    converted(keyed)
    assert used(url) == {second.id}
    with closing(open_configdb(keyed)) as database, database.transaction() as connection:
        assert conversion.check_unused(connection, SCHEMA, keyring.read(keys)[1])
        assert not conversion.check_unused(connection, SCHEMA, keyring.read(keys)[0])
    keyring.drop(keys, first, lambda: None)
    assert seen(running) == present
    assert running.put(f"{ROOT}/values", {"password": CANARY}).status_code == 204


def test_back_to_clear_while_a_server_runs(url: str, keys: Path, running: Api) -> None:
    keyed = with_key_file(url, keys)
    before = seen(running)
    converted(keyed)
    running.put(f"{NODE}/overrides", {"password": f"{CANARY}-2"})
    converted(keyed, clear=True)
    assert used(url) == {None}
    assert running.put(f"{ROOT}/values", {"password": "new"}).status_code == 204
    assert used(url) == {None}
    plain = serve(url)
    assert plain.get(f"{ROOT}/values").json == {"password": "new"}
    assert plain.post(f"{ROOT}/values/history/3/revert").status_code == 204
    assert [value for value, _ in seen(plain)[:2]] == [value for value, _ in before[:2]]
    plain.application.close()


def test_an_empty_database_is_encrypted_from_the_first_value_on(url: str, keys: Path) -> None:
    api = serve(with_key_file(url, keys))
    fill(api)
    assert used(url) == {keyring.read(keys)[0].id}
    api.application.close()


def test_rows_of_both_kinds_are_read_and_a_call_that_was_stopped_is_gone_on_with(
    url: str, keys: Path, running: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = seen(running)
    keyed = with_key_file(url, keys)
    monkeypatch.setattr(conversion, "_BATCH", 2)

    def stop(name: str) -> None:
        if name == "rows-converted":
            raise InterruptedError

    with monkeypatch.context() as patch:
        patch.setattr("configdb_sync.failpoints.here", stop)
        with pytest.raises(InterruptedError):
            converted(keyed)
    assert used(url) == {None, keyring.read(keys)[0].id}
    assert seen(running) == before
    assert running.put(f"{NODE}/values", {"same": CANARY}).status_code == 204
    assert converted(keyed) > 2
    assert used(url) == {keyring.read(keys)[0].id}
    assert seen(running) == before


@pytest.mark.parametrize("url", ["sqlite"], indirect=True)
def test_no_file_of_sqlite_holds_what_was_in_clear(url: str, keys: Path, running: Api, folder: Path) -> None:
    """Neither the rows' bytes (compressed, so no password is to be seen in them) nor digests and addresses."""

    def files() -> bytes:
        return b"".join(path.read_bytes() for path in folder.iterdir())

    with closing(Database(url, what="it")) as database, database.reading() as connection:
        rows = connection.exec_driver_sql("SELECT body, address, digest FROM contents WHERE length(body) < 200").all()
    clear = [part if isinstance(part, bytes) else part.encode() for row in rows for part in row]
    running.put(f"{ROOT}/values", {})  # and what was deleted
    assert len(clear) > 5
    assert all(part in files() for part in clear)
    converted(with_key_file(url, keys))
    assert not any(part in files() for part in clear)
    running.put(f"{NODE}/values", {"same": f"{CANARY}-5"})
    assert running.get(f"{NODE}/values").headers["ETag"].strip('"').encode() not in files()
    assert zlib.compress(f'{{"same":"{CANARY}-5"}}'.encode(), 1) not in files()


def test_a_lookup_of_sealed_columns_is_refused() -> None:
    with pytest.raises(AssertionError):
        Lookup(sa.select(RECORDS.c.body))


def test_convert_without_keys_says_how_to_get_them(tmp_path: Path) -> None:
    with (
        closing(opening.open_store(f"sqlite:///{tmp_path}/own.sqlite")) as database,
        pytest.raises(EncryptionKeyError, match="keys make"),
    ):
        conversion.convert(database, opening.STORE)


SHOWN = {("withheld", "digest"), ("runs", "digest"), ("tenant_ended_sessions", "digest")}
"""Short digests of plans and of withheld changes, which runs print: by them a person approves. Digests of cookies that
nobody can use any more say nothing of a document."""


def test_no_column_of_contents_or_digests_is_left_out(tmp_path: Path) -> None:
    """A new table with contents must be one of those that are sealed."""
    url = f"sqlite:///{tmp_path}/all.sqlite"
    for opened in (opening.open_store, open_registry, open_configdb):
        opened(url).close()
    with closing(Database(url, what="it")) as database, database.reading() as connection:
        inspector = sa.inspect(connection)
        secret = {
            (table, column["name"])
            for table in inspector.get_table_names()
            for column in inspector.get_columns(table)
            if isinstance(column["type"], sa.LargeBinary) or column["name"].endswith("digest")
        }
    sealed = {
        (table.name, column.name)
        for schema in (SCHEMA, opening.STORE)
        for table in schema.sealed
        for column in table.sealed
    }
    assert secret - SHOWN == sealed
