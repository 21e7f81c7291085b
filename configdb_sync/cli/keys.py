"""``configdb-sync keys``: the key file, and what is encrypted with its keys (U30)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import click
from sqlalchemy.exc import DBAPIError

from configdb_sync.cli.options import Session, settings_options
from configdb_sync.configdb_server import schema as configdb_opening
from configdb_sync.errors import SettingsError, StateError
from configdb_sync.store import conversion, keyring, opening
from configdb_sync.store.connections import key_file_of, parsed
from configdb_sync.store.database import Database
from configdb_sync.store.opening import TableSet

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def keys() -> None:
    """Encrypt what the databases hold, with keys that lie in a file outside of them."""


@keys.command("make")
@click.argument("file", type=_FILE)
def make_command(file: Path) -> None:
    """Make FILE, a new key file of mode 0600, with one key.

    Keep a copy of it where no backup of the databases is. Without it nobody can read what is encrypted.
    """
    file = file.absolute()
    key = keyring.make(file)
    click.echo(f"{file} holds key {key.id}. Keep a copy elsewhere: no backup has it, and nothing replaces it.")
    click.echo(
        "Name it in the settings (key_file), then `configdb-sync services apply` and `configdb-sync keys convert`."
    )


@keys.command("add")
@settings_options("database", "configdb_database", "state")
def add_command(session: Session) -> None:
    """Add a new key to the key file: what is written from now on is encrypted with it. No restart is needed."""
    path = _file(session)
    key = keyring.add(path)
    click.echo(f"{path} holds the new key {key.id}. What older keys encrypted: `configdb-sync keys convert`.")


@keys.command("list")
@settings_options("database", "configdb_database", "state")
def list_command(session: Session) -> None:
    """Show the keys, and how many values in each database are encrypted with which."""
    path = session.settings.key_file
    known = [] if path is None else [key.id for key in keyring.read(path.absolute())]
    if path is None:
        click.echo("No key file is set (key_file).")
    for place, number in enumerate(known):
        click.echo(f"{number}  {'encrypts' if place == 0 else 'decrypts alone'}")
    for one in _databases(session):
        with closing(Database(one.bare, what=one.what)) as database:
            used = conversion.usage(database, one.schema)
        click.echo(f"{one.what}:")
        for id_, count in sorted(used.items(), key=lambda pair: pair[0] or ""):
            name = (
                "in clear" if id_ is None else f"with key {id_}{'' if id_ in known else ', which is not in the file'}"
            )
            click.echo(f"  {count} values {name}")
        if not used:
            click.echo("  nothing is stored")


@keys.command("convert")
@click.option("--to-clear", is_flag=True, help="Store everything in clear from now on.")
@settings_options("database", "configdb_database", "state")
def convert_command(session: Session, *, to_clear: bool) -> None:
    """Encrypt everything in the databases with the first key. Services and runs may be at work meanwhile.

    A call that was stopped is gone on with by the next.
    """
    _file(session)
    for one in _databases(session):
        with closing(one.opened(one.url)) as database:
            count = conversion.convert(database, one.schema, clear=to_clear)
        click.echo(f"{one.what} is {'in clear' if to_clear else 'encrypted'}: {count} rows were converted.")


@keys.command("drop")
@click.argument("key_id", metavar="ID")
@settings_options("database", "configdb_database", "state")
def drop_command(session: Session, *, key_id: str) -> None:
    """Take the key ID out of the key file. Refused while anything in the databases is encrypted with it."""
    path = _file(session)
    with ExitStack() as stack:

        def unused() -> None:
            key = next(key for key in keyring.read(path) if key.id == key_id)
            for one in _databases(session):
                database = stack.enter_context(closing(one.opened(one.url)))
                try:
                    # Open until the file is changed: nobody writes with that key meanwhile.
                    connection = stack.enter_context(database.transaction())
                    is_unused = conversion.check_unused(connection, one.schema, key)
                except DBAPIError as error:
                    raise database.unavailable() from error
                if not is_unused:
                    raise StateError(
                        f"{one.what} holds what is encrypted with key {key_id}",
                        way_out="`configdb-sync keys convert` encrypts it with the first key",
                    )

        keyring.drop(path, key_id, unused)
    click.echo(f"{path} no longer holds key {key_id}. Older backups and dumps may need it: keep it with them.")


@dataclass(frozen=True)
class _Database:
    """A database whose contents can be encrypted. ``bare``: its URL without the keys."""

    what: str
    url: str
    schema: TableSet
    opened: Callable[[str], Database]

    @property
    def bare(self) -> str:
        return key_file_of(parsed(self.url, self.what))[0].render_as_string(hide_password=False)

    @property
    def there(self) -> bool:
        url = parsed(self.url, self.what)
        return url.get_backend_name() != "sqlite" or Path(url.database or "").is_file()


def _databases(session: Session) -> Iterator[_Database]:
    """Yield those that are there: not every installation has a ConfigDB of its own."""
    each = (
        _Database("the product's own database", session.database, opening.STORE, opening.open_store),
        _Database(
            "the ConfigDB database",
            session.configdb_database,
            configdb_opening.SCHEMA,
            configdb_opening.open_configdb,
        ),
    )
    return (one for one in each if one.there)


def _file(session: Session) -> Path:
    path = session.settings.key_file
    if path is None:
        raise SettingsError(
            "no key file is set", way_out="`configdb-sync keys make FILE` makes one; name it by key_file or --key-file"
        )
    return path.absolute()
