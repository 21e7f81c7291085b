"""The commands that make the services known elsewhere: ConfigDB in Keystone, the status page in the Fuel UI."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from configdb_sync.cli.help import CommandGroup, command
from configdb_sync.cli.options import NAILGUN, env_option, file_option, with_session
from configdb_sync.closed_files import read_closed
from configdb_sync.errors import SettingsError

if TYPE_CHECKING:
    from configdb_sync.cli.command_session import Session

_LONGEST = 4096
_ONE_LINE = "give a file with one line, the password"


@click.group(cls=CommandGroup)
def keystone() -> None:
    """Register ConfigDB in Keystone."""


@keystone.command(
    "register",
    example="configdb-sync keystone register --url https://10.20.0.2:8082 --user configdb --password-file secret",
)
@with_session("state")
@click.option("--url", required=True, metavar="URL", help="ConfigDB's address.")
@click.option("--region", metavar="NAME", help="Region.  [default: the login's, or the only one]")
@click.option(
    "--interface",
    "interfaces",
    type=click.Choice(["public", "internal", "admin"]),
    multiple=True,
    help="Interface of the endpoint. Repeat it for several.  [default: all three]",
)
@click.option(
    "--service-name", "service", default="configdb", show_default=True, metavar="NAME", help="Name of the service."
)
@click.option("--user", metavar="NAME", help="User for the task or the service.  [default: no user is changed]")
@file_option("--password-file", text="File with the user's password; - is standard input.", stdin=True)
@click.option("--new-password", "renew", is_flag=True, help="Change the password of an existing user to this one.")
@click.option("--project", default="services", show_default=True, metavar="NAME", help="The user's project.")
@click.option(
    "--user-role", "role", default="admin", show_default=True, metavar="ROLE", help="The user's role in the project."
)
@click.option("--domain", default="Default", show_default=True, metavar="NAME", help="Domain of user and project.")
def register(
    session: Session,
    *,
    url: str,
    region: str | None,
    interfaces: tuple[str, ...],
    password_file: Path | None,
    **given: Any,
) -> None:
    """Make the service, its endpoints and a user.

    Makes the service of type `config` and its endpoints, and with --user a user with a role. What exists already stays.
    Log in as an administrator of the cloud: OS_* variables, clouds.yaml, or login in the settings file.
    """
    # Late: keystoneauth takes longer to load than all the rest.
    from configdb_sync.configdb.connect import CONFIGDB
    from configdb_sync.http.transport import TransferLimits
    from configdb_sync.keystone import registration
    from configdb_sync.keystone.login import read_login

    if given["user"] is None and (password_file is not None or given["renew"]):
        raise SettingsError("a password is given without a user", way_out="give --user NAME")
    login = read_login(session.environ, limits=TransferLimits(connect=5.0, read=30.0, total=60.0))
    wanted = registration.Registration(
        CONFIGDB.base_url(url),
        interfaces=tuple(dict.fromkeys(interfaces)) or registration.INTERFACES,
        region=region or login.cloud.region,
        password=None if password_file is None else _password(password_file),
        **given,
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
            content = read_closed(path, "the password file", limit=_LONGEST + 1, way_out=_ONE_LINE)
        text = content.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise SettingsError(f"the password file {path} can't be read: {error.strerror}", way_out=_ONE_LINE) from None
    except UnicodeDecodeError:
        raise SettingsError(f"the password file {path} is not UTF-8 text", way_out=_ONE_LINE) from None
    if not text or "\n" in text or len(content) > _LONGEST:
        raise SettingsError(f"the password file {path} is empty, too long, or has several lines", way_out=_ONE_LINE)
    return text


@command("dashboard-link", example="configdb-sync dashboard-link --env 1 --page-url https://10.20.0.2:8083")
@with_session("state", "page_url", *NAILGUN)
@env_option()
@click.option("--remove", is_flag=True, help="Remove the link.")
def dashboard_link(session: Session, *, environment: int, remove: bool) -> None:
    """Link the Fuel UI to the status page.

    Makes the link on an environment's dashboard, or removes it.
    """
    from configdb_sync.plugin.dashboard_link import page_of, settle_link

    base = session.settings.page_url
    if base is None and not remove:
        raise SettingsError("the address of the status page is not set", way_out="give --page-url, or --remove")
    client = session.nailgun(hasty=True)
    if client is None:
        raise SettingsError(
            "Nailgun's address is not set, or there is no login for it",
            way_out="give --nailgun, and a login as OS_* or in the settings file",
        )
    with client:
        changed = settle_link(client, environment, None if remove else base)
    if remove or base is None:
        click.echo("the link is gone" if changed else "there was no link")
    else:
        click.echo(f"the dashboard leads to {page_of(base, environment)}")
