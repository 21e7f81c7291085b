"""Small node trees made for a test."""

from __future__ import annotations

from pathlib import Path

ASTUTE = """\
---
# made for a test
uid: '{node}'
fqdn: node-{node}.example.com
deployment_id: {env}
role: compute
debug: false
nova:
  debug: false
  workers: 4
  db_password: CANARY-old
roles: [compute, ceph-osd]
"""
GLOBALS = """\
use_syslog: true
nova_hash:
  user_password: CANARY-hash
  rates:
  - 1
  - 2
"""


def make_node(root: Path, node: str, env: int = 5, **files: str) -> Path:
    """Make a node in Fuel 9's layout, with more files by name (``__`` for ``/``); return its hiera folder."""
    hiera = root / f"node-{node}/etc/hiera"
    cluster = root / f"node-{node}/etc/fuel/cluster/{env}"
    for folder in (hiera, cluster):
        folder.mkdir(parents=True)
    (cluster / "astute.yaml").write_text(ASTUTE.format(node=node, env=env))
    (root / f"node-{node}/etc/astute.yaml").symlink_to(f"fuel/cluster/{env}/astute.yaml")
    (hiera / "astute.yaml").symlink_to("../astute.yaml")
    (hiera / "globals.yaml").write_text(GLOBALS)
    for name, text in files.items():
        path = hiera / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return hiera


def make_trees(root: Path, *nodes: str, env: int = 5) -> Path:
    """Make several nodes; return the folder."""
    for node in nodes:
        make_node(root, node, env)
    return root
