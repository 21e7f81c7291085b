"""The commands that save data as files: backup and restore of the whole state, dump and load of one environment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from configdb_sync.backup.archive import DATABASE, Manifest
from configdb_sync.cli.help import command
from configdb_sync.cli.options import CONNECTION, STATE, comment_option, env_option, what_option, with_session
from configdb_sync.clock import SystemClock
from configdb_sync.errors import SettingsError

if TYPE_CHECKING:
    from configdb_sync.backup.state_copy import StateFiles
    from configdb_sync.cli.command_session import Session

_FILE = click.Path(dir_okay=False, path_type=Path)
_FOLDER = click.Path(file_okay=False, path_type=Path)


@command("backup", example="configdb-sync backup /var/backups/configdb-sync.tgz")
@click.argument("file", type=_FILE)
@with_session(*STATE)
def backup(session: Session, *, file: Path) -> None:
    """Save the state to a file.

    Writes databases, tokens and keys into FILE, which must not exist. Services and runs may be active. FILE contains
    passwords and is readable only by its owner. The settings file is not part of it.
    """
    from configdb_sync.backup.state_copy import make

    made = make(file.absolute(), _places(session), SystemClock().now())
    click.echo(f"{file} holds {', '.join(made.parts)}.")
    _name_others(made, "in it", "pg_dump -Fc -f FILE")


@command("restore", example="configdb-sync restore /var/backups/configdb-sync.tgz")
@click.option("--replace", is_flag=True, help="Replace a state that is not empty.")
@click.argument("file", type=_FILE)
@with_session(*STATE, "wait")
def restore(session: Session, *, file: Path, replace: bool) -> None:
    """Restore the state from a file.

    Checks the whole backup FILE before it changes anything.
    """
    from configdb_sync.backup.state_copy import restore

    settings, state = session.settings, session.state
    found = restore(file, state.folder, _places(session), replace=replace, wait=settings.wait, clock=SystemClock())
    click.echo(f"{state.folder} has the state of {found.created} again: {', '.join(found.parts)}.")
    click.echo("Running services take new tokens after a restart: `configdb-sync services apply`.")
    _name_others(found, "restored", "pg_restore -d NAME FILE")


def _places(session: Session) -> StateFiles:
    from configdb_sync.backup.state_copy import state_files

    return state_files(session.state, session.database, session.configdb_database, session.settings.key_file)


def _name_others(manifest: Manifest, what: str, tool: str) -> None:
    for name, address in manifest.elsewhere.items():
        which = "the product's database" if name == DATABASE else "ConfigDB's database"
        click.echo(f"Not {what}: {which} at {address}. Use the database's own tools: {tool}.")


@command("dump", example="configdb-sync dump --env 1 /var/backups/environment-1")
@with_session(*CONNECTION)
@env_option(lowest=0)
@what_option(
    "--level",
    "levels",
    multiple=True,
    metavar="NAME=VALUE",
    help="For tuning-box 0.1.0, which cannot list its levels: also read this level. Repeat it.",
)
@click.option("--encrypt", is_flag=True, help="Encrypt the files with the first key of the key file.")
@click.argument("folder", type=_FOLDER)
def dump(session: Session, *, environment: int, levels: tuple[str, ...], encrypt: bool, folder: Path) -> None:
    """Export an environment to files.

    Writes all values and overrides into FOLDER, which must be new or empty. The files are readable only by their owner.
    Without --encrypt they contain passwords in clear text.
    """
    from configdb_sync.cli.targets import level_path
    from configdb_sync.configdb import dump as dumps

    if encrypt and session.keyring is None:
        raise SettingsError("--encrypt needs a key file", way_out="`configdb-sync keys make` makes one; set key_file")
    with session.client() as client:
        places = [level_path(session, client, environment, (text,)) for text in levels]
        source = dumps.EnvironmentExport(client, environment, places)
        writer = dumps.DumpWriter(folder, session.keyring if encrypt else None)
        count = 0
        for stored in source.documents():
            writer.document(stored)
            count += 1
        writer.outline(source.outline)
    click.echo(f"environment {environment}: {count} documents are in {folder}.")


@command("load", example="configdb-sync load /var/backups/environment-1 --replace")
@with_session(*CONNECTION)
@env_option("Number of the environment, if not that of the dump.", lowest=0, required=False)
@click.option("--replace", is_flag=True, help="Overwrite documents that exist and differ.")
@comment_option
@click.argument("folder", type=_FOLDER)
def load(session: Session, *, environment: int | None, replace: bool, comment: str | None, folder: Path) -> None:
    """Import an environment from a dump.

    Writes the dump in FOLDER into ConfigDB, and makes the environment if it does not exist.
    """
    from configdb_sync.configdb import dump as dumps

    outline, documents = dumps.read(folder, session.keyring)
    if environment is not None:
        outline = dumps.renumbered(outline, environment)
    with session.client(comment=comment) as client:
        done = dumps.EnvironmentImport(client, outline).load(documents, replace=replace)
    click.echo(f"environment {outline.env}: {done.written} documents written, {done.same} unchanged.")
