"""The commands that carry a whole environment from one ConfigDB server to another: dump, load."""

from __future__ import annotations

from pathlib import Path

import click

from configdb_sync.cli import arguments
from configdb_sync.cli.options import STORED_ENVIRONMENT, Session, configdb_options
from configdb_sync.configdb import dump
from configdb_sync.errors import SettingsError

_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command("dump")
@click.option("--env", type=STORED_ENVIRONMENT, required=True, help="The environment's number.")
@click.option(
    "--level",
    "levels",
    multiple=True,
    metavar="NAME=VALUE",
    help="For tuning-box 0.1.0, which doesn't list its nodes: a place to read beside the root. Repeat it.",
)
@click.option("--encrypt", is_flag=True, help="Encrypt the files with the first key of the key file (key_file).")
@click.argument("folder", type=_FOLDER)
@configdb_options
def dump_command(session: Session, *, env: int, levels: tuple[str, ...], encrypt: bool, folder: Path) -> None:
    """Write all values and overrides of an environment into FOLDER, which must be new or empty.

    The files are for their owner alone. Without --encrypt they hold passwords in clear.
    """
    if encrypt and session.keyring is None:
        raise SettingsError("--encrypt needs a key file", way_out="`configdb-sync keys make` makes one; set key_file")
    with session.client() as client:
        places = [arguments.level_path(session, client, env, (text,)) for text in levels]
        source = dump.EnvironmentExport(client, env, places)
        writer = dump.DumpWriter(folder, session.keyring if encrypt else None)
        count = 0
        for stored in source.documents():
            writer.document(stored)
            count += 1
        writer.outline(source.outline)
    click.echo(f"environment {env}: {count} data sources at their places are in {folder}.")


@click.command("load")
@click.option("--env", type=STORED_ENVIRONMENT, help="Another number for the environment than the dump's.")
@click.option("--replace", is_flag=True, help="Overwrite what is there already and differs.")
@arguments.comment_option
@click.argument("folder", type=_FOLDER)
@configdb_options
def load_command(session: Session, *, env: int | None, replace: bool, comment: str | None, folder: Path) -> None:
    """Write a dump of FOLDER into ConfigDB; the environment is made if it isn't there."""
    outline, documents = dump.read(folder, session.keyring)
    if env is not None:
        outline = dump.renumbered(outline, env)
    with session.client(comment=comment) as client:
        done = dump.EnvironmentImport(client, outline).load(documents, replace=replace)
    click.echo(f"environment {outline.env}: {done.written} documents written, {done.same} were so already.")


COMMANDS = (dump_command, load_command)
