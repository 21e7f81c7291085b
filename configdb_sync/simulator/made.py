"""Small trees for nodes that have none of their own to copy."""

from __future__ import annotations

from configdb_sync.simulator.tree import Entry, File, Folder, Link

_ASTUTE = """\
---
uid: '{identity}'
fqdn: node-{identity}.domain.tld
deployment_id: {env}
role: compute
roles: [compute]
debug: false
nova:
  db_password: made-{identity}
  workers: 4
"""
_GLOBALS = """\
use_syslog: true
nova_hash:
  user_password: made
  rates: [1, 2]
"""


def made(identity: str, env: int) -> dict[str, Entry]:
    """Return the tree of a node of environment ``env``, with the links of Fuel 9."""
    cluster = f"/etc/fuel/cluster/{env}"
    folders = ("/etc", "/etc/hiera", "/etc/fuel", "/etc/fuel/cluster", cluster)
    found: dict[str, Entry] = {path: Folder(inode=number) for number, path in enumerate(folders, start=2)}
    found["/etc/hiera/astute.yaml"] = Link("/etc/astute.yaml", 10)
    found["/etc/astute.yaml"] = Link(f"{cluster}/astute.yaml", 11)
    found[f"{cluster}/astute.yaml"] = File(_ASTUTE.format(identity=identity, env=env).encode(), 0o640, inode=12)
    found["/etc/hiera/globals.yaml"] = File(_GLOBALS.encode(), 0o640, inode=13)
    return found
