"""``configdb-sync backup`` and ``restore``: the whole state as one file, and back."""

from __future__ import annotations

from pathlib import Path

import click

from configdb_sync.backup.archive import DATABASE, Manifest
from configdb_sync.backup.state_copy import Places, places_of
from configdb_sync.cli.options import Session, settings_options
from configdb_sync.clock import SystemClock

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("backup")
@click.argument("file", type=_FILE)
@settings_options("database", "configdb_database", "state")
def backup_command(session: Session, *, file: Path) -> None:
    """Write the state into FILE, a new one: databases, tokens and keys. Services and runs may be at work meanwhile.

    It holds passwords and is for its owner alone. The settings file isn't in it.
    """
    from configdb_sync.backup.state_copy import make

    made = make(file.absolute(), _places(session), SystemClock().now())
    click.echo(f"{file} holds {', '.join(made.parts)}.")
    _tell_elsewhere(made, "in it", "pg_dump -Fc -f FILE")


@click.command("restore")
@click.option("--replace", is_flag=True, help="Put the backup in the place of a state that isn't empty.")
@click.argument("file", type=_FILE)
@settings_options("database", "configdb_database", "state", "wait")
def restore_command(session: Session, *, file: Path, replace: bool) -> None:
    """Make the state what the backup FILE says. Nothing is changed before all of it was found good."""
    from configdb_sync.backup.state_copy import restore

    places = _places(session)
    found = restore(
        file,
        session.state.folder,
        places,
        replace=replace,
        wait=session.settings.wait,
        clock=SystemClock(),
    )
    click.echo(f"The state in {session.state.folder} is that of {found.created}: {', '.join(found.parts)}.")
    click.echo("Services that run take new tokens when they are restarted: `configdb-sync services apply`.")
    _tell_elsewhere(found, "restored", "pg_restore -d NAME FILE")


def _places(session: Session) -> Places:
    return places_of(session.state, session.database, session.configdb_database, session.settings.key_file)


def _tell_elsewhere(manifest: Manifest, what: str, by: str) -> None:
    for name, address in manifest.elsewhere.items():
        which = "the product's database" if name == DATABASE else "ConfigDB's database"
        click.echo(f"Not {what}: {which} at {address}. Do it with the database's own tools: {by}.")
