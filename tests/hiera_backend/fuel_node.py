"""A Fuel node for the Hiera backend: its files, and the task's script run on them."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.hiera_backend import fake_keystone
from tests.hiera_backend.backend import LIMIT_S, ROOT, require
from tests.hiera_backend.fake_keystone import PASSWORD, FakeKeystone
from tests.hiera_backend.servers import Server
from tests.hiera_backend.test_hiera_yaml import FUEL
from tests.plugin.calling import section
from tests.support.product import contents
from tests.support.trees import GLOBALS

SCRIPT = ROOT / "deployment_scripts/hiera_backend"
LINKS = {
    "etc/astute.yaml": "fuel/cluster/{}/astute.yaml",
    "etc/hiera/astute.yaml": "../astute.yaml",
    "etc/puppet/hiera.yaml": "../hiera.yaml",
}
FUELS_OWN = ("etc/fuel/", "etc/hiera/")


@dataclass
class FuelNode:
    """A node's root folder: Fuel 9's files, Hiera's settings, and Puppet as old as there."""

    root: Path
    """Beside it lies what stands in for the node's Puppet."""
    server: Server
    keystone: FakeKeystone
    puppet: str = "3.8.7"
    environment: int = 5

    @property
    def settings(self) -> Path:
        return self.root / "etc/configdb-sync/hiera.yaml"

    @property
    def hiera_yaml(self) -> str:
        return (self.root / "etc/hiera.yaml").read_text()

    def configure(self, **changed: Any) -> None:
        """Write the plugin's settings into the node's own file, as Fuel does."""
        values = {
            "hiera_backend": True,
            "configdb": "url",
            "configdb_url": self.server.url,
            "auth_url": self.keystone.url,
            "username": "uploader",
            "password": "CANARY-uploader",
            "hiera_username": "reader",
            "hiera_password": PASSWORD,
        }
        metadata = changed.pop("metadata", {})
        own = section(**(values | changed))
        own["metadata"] |= metadata
        whole = {"uid": "1", "fqdn": "node-1.example.com", "master_ip": "127.0.0.1", "debug": True}
        whole["deployment_id"] = self.environment
        path = self.root / f"etc/fuel/cluster/{self.environment}/astute.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump({**whole, "configdb-sync": own}))

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run the task's script on it."""
        stub = self.root.parent / "puppet-stub/puppet"
        stub.mkdir(parents=True, exist_ok=True)
        (stub / "version.rb").write_text(f"module Puppet; def self.version; '{self.puppet}'; end; end\n")
        environ = {**os.environ, "RUBYLIB": f"{stub.parent}:{os.environ.get('RUBYLIB', '')}"}
        command = [str(SCRIPT), *words, "--root", str(self.root)]
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=LIMIT_S)
        assert "CANARY" not in done.stdout + done.stderr
        assert done.stderr == ""
        return done

    def last_line(self, *words: str, code: int = 0) -> str:
        done = self.run(*words)
        assert done.returncode == code, done.stdout
        return done.stdout.splitlines()[-1]

    def lay(self) -> None:
        """Lay Fuel's files and links into the root; ``etc`` may be there."""
        cluster = self.root / f"etc/fuel/cluster/{self.environment}"
        for folder in (cluster, self.root / "etc/hiera", self.root / "etc/puppet"):
            folder.mkdir(parents=True, exist_ok=True)
        (self.root / "etc/hiera/globals.yaml").write_text(GLOBALS)
        for link, target in LINKS.items():
            path = self.root / link
            path.unlink(missing_ok=True)
            path.symlink_to(target.format(self.environment))
        (self.root / "etc/hiera.yaml").write_text(FUEL)
        (self.root / "etc/hiera.yaml").chmod(0o640)
        self.configure()


@contextlib.contextmanager
def made(server: Server, *roots: Path) -> Iterator[list[FuelNode]]:
    """Give nodes of environment 5 in these folders; one Keystone knows their users."""
    require("ruby")
    with fake_keystone.running() as keystone:
        keystone.endpoint = server.url
        server.guard = keystone.takes
        found = [FuelNode(root, server, keystone) for root in roots]
        for node in found:
            node.lay()
        yield found


def secrets(root: Path) -> list[str]:
    """Return the files with something secret, but for those that Fuel itself wrote."""
    paths = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    found = [str(path.relative_to(root)) for path in paths if b"CANARY" in path.read_bytes()]
    return [name for name in found if not name.startswith(FUELS_OWN)]


def left(root: Path, before: dict[str, tuple[object, ...]]) -> list[str]:
    """Return what isn't as before, but for folders that hold nothing."""
    now = contents(root)
    new = [path for path, one in now.items() if before.get(path) != one]
    empty = [
        path for path in new if (root / path).is_dir() and not any(not one.is_dir() for one in _below(root / path))
    ]
    return [path for path in new if path not in empty] + [path for path in before if path not in now]


def _below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_symlink() or path.exists()]
