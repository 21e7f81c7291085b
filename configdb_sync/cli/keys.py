"""``configdb-sync keys``: the key file, and what is encrypted with its keys (U30)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from configdb_sync.cli.help import CommandGroup
from configdb_sync.cli.options import STATE, with_session
from configdb_sync.errors import SettingsError, StateError

if TYPE_CHECKING:
    from configdb_sync.cli.command_session import Session
    from configdb_sync.store.database import Database
    from configdb_sync.store.opening import TableSet


@click.group(cls=CommandGroup)
def keys() -> None:
    """Manage the keys that encrypt the databases.

    The keys are in a file outside of the databases.
    """


@keys.command("make", example="configdb-sync keys make /etc/configdb-sync/keys")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
def make_command(file: Path) -> None:
    """Make a key file with one key.

    Makes FILE with mode 0600. Keep a copy of it apart from the backups of the databases: without the key, nobody can
    read what is encrypted.
    """
    from configdb_sync.store import keyring

    file = file.absolute()
    key = keyring.make(file)
    click.echo(f"{file} holds key {key.id}. Keep a copy elsewhere: no backup has it, and nothing replaces it.")
    click.echo(
        "Name it in the settings (key_file), then `configdb-sync services apply` and `configdb-sync keys convert`."
    )


@keys.command("add", example="configdb-sync keys add")
@with_session(*STATE)
def add_command(session: Session) -> None:
    """Add a key to the key file.

    From now on it encrypts everything that is written. No restart is needed.
    """
    from configdb_sync.store import keyring

    path = _file(session)
    key = keyring.add(path)
    click.echo(f"{path} holds the new key {key.id}. To convert older data: `configdb-sync keys convert`.")


@keys.command("list", example="configdb-sync keys list")
@with_session(*STATE)
def list_command(session: Session) -> None:
    """Show the keys and how much each has encrypted."""
    from configdb_sync.store import conversion, keyring
    from configdb_sync.store.database import Database

    path = session.settings.key_file
    known = [] if path is None else [key.id for key in keyring.read(path.absolute())]
    if path is None:
        click.echo("No key file is set (key_file).")
    for place, number in enumerate(known):
        click.echo(f"{number}  {'encrypts' if place == 0 else 'only decrypts'}")
    for one in _databases(session):
        with closing(Database(one.bare, what=one.what)) as database:
            used = conversion.usage(database, one.schema)
        click.echo(f"{one.what}:")
        for id_, count in sorted(used.items(), key=lambda pair: pair[0] or ""):
            unknown = "" if id_ in known else ", which is not in the file"
            click.echo(f"  {count} values {'in clear' if id_ is None else f'with key {id_}{unknown}'}")
        if not used:
            click.echo("  nothing is stored")


@keys.command("convert", example="configdb-sync keys convert")
@click.option("--to-clear", is_flag=True, help="Store everything in clear text from now on.")
@with_session(*STATE)
def convert_command(session: Session, *, to_clear: bool) -> None:
    """Encrypt the databases with the first key.

    Services and runs may be active. After an interruption, run the command again to continue.
    """
    from configdb_sync.store import conversion

    _file(session)
    for one in _databases(session):
        with closing(one.opened(one.url)) as database:
            count = conversion.convert(database, one.schema, clear=to_clear)
        click.echo(f"{one.what} is {'in clear' if to_clear else 'encrypted'}: {count} rows were converted.")


@keys.command("drop", example="configdb-sync keys drop 3f9c2a71")
@click.argument("key_id", metavar="ID")
@with_session(*STATE)
def drop_command(session: Session, *, key_id: str) -> None:
    """Remove a key from the key file.

    Refused while the databases hold anything that the key ID encrypted.
    """
    from sqlalchemy.exc import DBAPIError

    from configdb_sync.store import conversion, keyring

    path = _file(session)
    with ExitStack() as stack:

        def check_unused() -> None:
            key = next(key for key in keyring.read(path) if key.id == key_id)
            for one in _databases(session):
                database = stack.enter_context(closing(one.opened(one.url)))
                try:
                    # Open until the file is changed, so that nobody writes with that key in between.
                    connection = stack.enter_context(database.transaction())
                    unused = conversion.check_unused(connection, one.schema, key)
                except DBAPIError as error:
                    raise database.unavailable() from error
                if not unused:
                    raise StateError(
                        f"{one.what} holds data encrypted with key {key_id}",
                        way_out="`configdb-sync keys convert` encrypts it with the first key",
                    )

        keyring.drop(path, key_id, check_unused)
    click.echo(f"{path} no longer holds key {key_id}. Older backups and dumps may need it: keep it with them.")


@dataclass(frozen=True)
class _EncryptedDatabase:
    """A database whose contents can be encrypted. ``bare``: its URL without the keys."""

    what: str
    url: str
    bare: str
    schema: TableSet
    opened: Callable[[str], Database]


def _databases(session: Session) -> list[_EncryptedDatabase]:
    """Return the databases that exist: not every installation has a built-in ConfigDB."""
    from configdb_sync.configdb_server import schema as configdb_schema
    from configdb_sync.store import opening
    from configdb_sync.store.engine import key_file_of, parsed

    found = []
    for what, address, schema, opened in (
        ("the product's own database", session.database, opening.STORE, opening.open_store),
        ("the ConfigDB database", session.configdb_database, configdb_schema.SCHEMA, configdb_schema.open_configdb),
    ):
        url = parsed(address, what)
        if url.get_backend_name() != "sqlite" or Path(url.database or "").is_file():
            bare = key_file_of(url)[0].render_as_string(hide_password=False)
            found.append(_EncryptedDatabase(what, address, bare, schema, opened))
    return found


def _file(session: Session) -> Path:
    """Return the key file. Raises ``SettingsError`` if none is set."""
    path = session.settings.key_file
    if path is None:
        raise SettingsError(
            "no key file is set", way_out="`configdb-sync keys make FILE` makes one; name it by key_file or --key-file"
        )
    return path.absolute()
