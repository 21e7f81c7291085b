"""``configdb-sync keystone``: what ConfigDB needs of Keystone."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from configdb_sync.cli.options import Session, settings_options
from configdb_sync.closed_files import read_closed
from configdb_sync.configdb.connect import CONFIGDB
from configdb_sync.errors import SettingsError
from configdb_sync.http.transport import TransferLimits

_LIMITS = TransferLimits(connect=5.0, read=30.0, total=60.0)
_LONGEST = 4096


@click.group()
def keystone() -> None:
    """Make ConfigDB known to Keystone."""


@keystone.command()
@settings_options("state")
@click.option("--url", required=True, metavar="URL", help="Where ConfigDB answers.")
@click.option("--region", metavar="NAME", help="Default: the login's, or the only one that there is.")
@click.option(
    "--interface",
    "interfaces",
    type=click.Choice(["public", "internal", "admin"]),
    multiple=True,
    help="Whose endpoint it is; may be given several times (default: all three).",
)
@click.option("--service", default="configdb", show_default=True, metavar="NAME", help="The service's name.")
@click.option("--user", metavar="NAME", help="A user for the task or the service. Default: no user is touched.")
@click.option(
    "--password-file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="A file with the user's password; - is standard input.",
)
@click.option("--new-password", is_flag=True, help="Give a user that is there with another password this one.")
@click.option("--project", default="services", show_default=True, metavar="NAME", help="The user's project.")
@click.option("--role", default="admin", show_default=True, metavar="NAME", help="The user's role there.")
@click.option("--domain", default="Default", show_default=True, metavar="NAME", help="Of user and project.")
def register(
    session: Session,
    *,
    url: str,
    region: str | None,
    interfaces: tuple[str, ...],
    service: str,
    user: str | None,
    password_file: Path | None,
    new_password: bool,
    project: str,
    role: str,
    domain: str,
) -> None:
    """Make the service of type `config`, its endpoints and, with --user, a user with a role. What is there stays.

    Log in as an administrator of the cloud: OS_*, clouds.yaml, or login in the settings file.
    """
    # Late: keystoneauth takes longer to load than all the rest.
    from configdb_sync.keystone import registration
    from configdb_sync.keystone.login import read_login

    if user is None and (password_file is not None or new_password):
        raise SettingsError("a password is given, and no user", way_out="give --user NAME")
    login = read_login(session.environ, limits=_LIMITS)
    wanted = registration.Registration(
        CONFIGDB.base_url(url),
        tuple(dict.fromkeys(interfaces)) or registration.INTERFACES,
        region or login.cloud.region,
        service,
        user,
        None if password_file is None else _password(password_file),
        new_password,
        project,
        role,
        domain,
    )
    changed = 0
    for step in registration.register(login, wanted):
        changed += step.done is not None
        click.echo(f"{step.what}: {step.done or 'there already'}")
    click.echo(f"{changed} changed." if changed else "Nothing was changed.")


def _password(path: Path) -> str:
    """Return the password of a file or of standard input, without the end of its line. Raises ``SettingsError``."""
    try:
        if str(path) == "-":
            content = sys.stdin.buffer.read(_LONGEST + 1)
        else:
            content = read_closed(path, "the password file", limit=_LONGEST + 1)
        text = content.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise SettingsError(f"the password file {path} can't be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"the password file {path} isn't UTF-8") from None
    if not text or "\n" in text or len(content) > _LONGEST:
        raise SettingsError(f"the password file {path} must hold one line, the password")
    return text
