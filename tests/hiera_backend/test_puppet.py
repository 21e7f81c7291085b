"""U15: the programs that people call: `puppet apply` with Hiera 5 and with a hiera.yaml of Hiera 3, and `hiera`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.hiera_backend.backend import LIBRARY, LIMIT_S, MODULES, require, settings
from tests.hiera_backend.servers import Server

MANIFEST = """\
$nova = hiera_hash('nova')
$deep = lookup('nova', Hash, 'deep')
$site = lookup('site', Hash, 'deep')
file { '%s':
  content => "${lookup('debug')} ${nova['workers']} ${deep['workers']} ${lookup('rates')} ${site['list']} ${site['a']}",
}
"""
LEVELS = ["override/node/%{facts.fqdn}", "override/common", "globals", "astute"]


@pytest.fixture
def hiera(server: Server, tmp_path: Path) -> Path:
    """A folder for a node, whose file has a list that an override in ConfigDB makes shorter."""
    folder = tmp_path / "hiera"
    folder.mkdir()
    site = {"list": ["a", "b"], "a": 1}
    server.put("globals", {"rates": [1, 2.5], "site": site})
    server.put("globals", {"site": {"list": ["a"], "a": 1}}, "overrides")
    server.put("override/node", {"site": {"a": 2}})
    (folder / "globals.yaml").write_text(yaml.safe_dump({"rates": [1, 2.5], "site": site}))
    return folder


def puppet(folder: Path, hiera_yaml: dict[str, Any], manifest: str) -> subprocess.CompletedProcess[str]:
    """Apply a manifest with this hiera.yaml."""
    (folder / "hiera.yaml").write_text(yaml.safe_dump(hiera_yaml))
    (folder / "site.pp").write_text(manifest)
    # All that it would else keep in a user's home, or in the system's folders.
    places = ("confdir", "vardir", "publicdir", "logdir", "rundir")
    command = ["puppet", "apply", *(word for name in places for word in (f"--{name}", str(folder / name)))]
    command += [
        "--hiera_config",
        str(folder / "hiera.yaml"),
        "--modulepath",
        str(MODULES),
        "--detailed-exitcodes",
        "--strict",
        "warning",
    ]
    environ = {**os.environ, "RUBYLIB": f"{LIBRARY}:{os.environ.get('RUBYLIB', '')}", "FACTER_fqdn": "node-1"}
    environ["FACTER_node_id"] = "1"
    return subprocess.run(
        [*command, str(folder / "site.pp")],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_S,
    )


def version5(file: Path, **options: str) -> dict[str, Any]:
    entry = {"name": "ConfigDB", "data_hash": "configdb::data", "uris": LEVELS}
    return {"version": 5, "hierarchy": [{**entry, "options": {"config": str(file), **options}}]}


def version3(file: Path, datadir: Path) -> dict[str, Any]:
    """As Fuel writes it, but for ``:yaml:``: Puppet from 4.9 on takes no section of a backend that isn't listed."""
    levels = [level.replace("facts.", "::") for level in LEVELS]
    own = {":configdb": {":config": str(file), ":datadir": str(datadir)}, ":merge_behavior": "deeper"}
    return {":backends": ["configdb"], ":hierarchy": levels, **own}


def test_puppet_applies_a_manifest_that_looks_up(server: Server, hiera: Path, tmp_path: Path) -> None:
    require("puppet")
    file = settings(tmp_path, url=server.url, levels="nodes=another")
    options = {"levels": "nodes=%{facts.node_id}", "datadir": str(hiera)}
    done = puppet(tmp_path, version5(file, **options), MANIFEST % (tmp_path / "out"))
    assert done.returncode == 2, done.stdout + done.stderr
    assert (tmp_path / "out").read_text() == "false 4 4 [1, 2.5] [a] 2"


def test_and_with_a_hiera_yaml_of_hiera_3(server: Server, hiera: Path, tmp_path: Path) -> None:
    require("puppet", "hiera")
    file = settings(tmp_path, url=server.url)
    done = puppet(tmp_path, version3(file, hiera), MANIFEST % (tmp_path / "out"))
    assert done.returncode == 2, done.stdout + done.stderr
    assert (tmp_path / "out").read_text() == "false 4 4 [1, 2.5] [a] 2"


def test_what_keeps_a_lookup_from_an_answer_fails_the_catalog(server: Server, tmp_path: Path) -> None:
    require("puppet")
    file = settings(tmp_path, url=server.url, when_away="error")
    server.away = True
    done = puppet(tmp_path, version5(file), "notice(lookup('debug'))")
    assert done.returncode == 1
    assert "configdb: ConfigDB answers 503" in done.stderr


def run_hiera(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "RUBYLIB": f"{LIBRARY}:{os.environ.get('RUBYLIB', '')}"}
    command = ["hiera", "-f", "json", "-c", str(folder / "hiera3.yaml"), *words, "::fqdn=node-1"]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=LIMIT_S)


def test_the_command_hiera(server: Server, hiera: Path, tmp_path: Path) -> None:
    require("hiera")
    file = settings(tmp_path, url=server.url)
    (tmp_path / "hiera3.yaml").write_text(yaml.safe_dump(version3(file, hiera)))
    assert json.loads(run_hiera(tmp_path, "nova").stdout)["workers"] == 4
    # Merged from the top: the node's own level, then what an override made of globals. The file doesn't come back in.
    assert json.loads(run_hiera(tmp_path, "-h", "site").stdout) == {"a": 2, "list": ["a"]}
    assert json.loads(run_hiera(tmp_path, "-a", "rates").stdout) == [1, 2.5]
    assert run_hiera(tmp_path, "nothing").stdout.strip() in {"nil", "null"}
    server.away = True
    (tmp_path / "hiera3.yaml").write_text(yaml.safe_dump(version3(settings(tmp_path, url=server.url, ttl=0), hiera)))
    done = run_hiera(tmp_path, "-d", "-h", "site")
    assert json.loads(done.stdout[done.stdout.index("{") :]) == {"a": 2, "list": ["a"]}
    assert "what was last known of nodes/1 is used" in done.stdout + done.stderr
