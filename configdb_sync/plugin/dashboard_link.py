"""The link to the status page on an environment's dashboard in the Fuel UI.

Nailgun keeps such links by environment (``/api/clusters/<env>/plugin_links``: title, url, description, hidden) and
shows them on its dashboard. Ours is recognised by its title: it exists once, with the current address, or not at all.
"""

from __future__ import annotations

from configdb_sync.nailgun.client import NailgunClient
from configdb_sync.nailgun.model import PluginLink

TITLE = "ConfigDB synchronisation"
DESCRIPTION = "How the settings of the nodes and ConfigDB stand: nodes, overrides, runs"


def page_of(base: str, env: int) -> str:
    """Return the address of an environment's status page at a service's address."""
    return f"{base.rstrip('/')}/status/environments/{env}"


def settle_link(client: NailgunClient, env: int, base: str | None, findings: int | None = None) -> bool:
    """Make the dashboard's link lead to the status page at ``base``, or remove it for None; return whether it changed.

    ``findings``: how many of the watch its text says are open; None leaves the text as it is.

    Raises ``NailgunError``, ``AccessError``, ``EnvironmentMismatchError``.
    """
    ours = [link for link in client.links(env) if link.title == TITLE]
    if base is None:
        kept, rest = None, ours
    else:
        url = page_of(base, env)
        kept = next((link for link in ours if link.url == url), ours[0] if ours else None)
        rest = [link for link in ours if link is not kept]
        text = DESCRIPTION if kept is None or findings == 0 else kept.description
        if findings:
            text = f"{DESCRIPTION}. {findings} finding{'s' if findings > 1 else ''} of the watch"
        wanted = PluginLink(TITLE, url, text, None if kept is None else kept.number)
        if kept == wanted:
            kept = None
        else:
            client.put_link(env, wanted)
            kept = wanted
    for link in rest:
        if link.number is not None:
            client.drop_link(env, link.number)
    return kept is not None or bool(rest)
