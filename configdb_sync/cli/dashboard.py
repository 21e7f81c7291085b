"""``configdb-sync dashboard-link``, and the task's own: the Fuel UI leads to an environment's status page, or not."""

from __future__ import annotations

import logging

import click

from configdb_sync.cli.options import ENVIRONMENT, NAILGUN, Session, settings_options
from configdb_sync.errors import ProductError, SettingsError
from configdb_sync.plugin.dashboard_link import page_of, settle_link

_LOG = logging.getLogger(__name__)


_TAKES = 75.0
"""Seconds that bringing the link in step may take at the worst: a slow Keystone and a slow Nailgun, each answering.
Seven calls: the version before and after the login, which are two, the links, the environment, the change."""


def keep_link(session: Session, environment: int, left: float) -> None:
    """Bring the link in step with the setting; what fails is logged: no deployment fails because of it.

    ``left``: seconds that the run has; it is left for another time where they may not suffice.
    """
    if left < _TAKES:
        return
    try:
        client = session.nailgun(hasty=True)
        if client is None:
            return
        with client:
            settle_link(client, environment, session.settings.page_url)
    except ProductError as error:
        _LOG.warning("the link in the Fuel UI isn't in step: %s", error)
    except Exception as error:
        # Whatever it is, the run's own work is done; its text may hold anything, and the log is open to all.
        _LOG.warning("the link in the Fuel UI isn't in step: %s", type(error).__name__)


@click.command("dashboard-link")
@settings_options("state", "page_url", *NAILGUN)
@click.option("--env", "environment", type=ENVIRONMENT, required=True, metavar="N", help="The environment's number.")
@click.option("--remove", is_flag=True, help="Take the link away.")
def dashboard_link(session: Session, *, environment: int, remove: bool) -> None:
    """Make the link on an environment's dashboard in the Fuel UI to its status page, or take it away."""
    base = session.settings.page_url
    if base is None and not remove:
        raise SettingsError("it isn't known where the status page is", way_out="give --page-url, or --remove")
    client = session.nailgun(hasty=True)
    if client is None:
        raise SettingsError(
            "it isn't known where Nailgun is, or there is no user for it",
            way_out="give --nailgun, and a login as OS_* or in the settings file",
        )
    with client:
        changed = settle_link(client, environment, None if remove else base)
    if remove or base is None:
        click.echo("the link is gone" if changed else "there was no link")
    else:
        click.echo(f"the dashboard leads to {page_of(base, environment)}")
