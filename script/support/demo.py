"""The main job on a copy of a folder of node trees: plan, synchronise, override, take the override away."""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from configdb_sync.hiera.data_source_config import DEFAULT
from configdb_sync.hiera.data_sources import map_node
from configdb_sync.hiera.documents import Reader
from configdb_sync.hiera.layouts import layout_of

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples/small-cloud"
NODES = "nodes"
HIERA_YAML = "hiera.yaml"
WIDTH = 96
# Data sources that hold the facts, in the order in which they are looked for: Fuel 9, then Fuel 10.
BASES = ("astute", "node", "cluster")
# Hiera asks globals first: a key that it has is hidden in the base files.
SEARCHED = ("globals", *BASES)
# Keys that a reader understands best, if the node has them.
WELL_KNOWN = ("debug", "verbose", "nova_report_interval")

INTRODUCTION = """
Fuel installs OpenStack clouds. It computes the settings of every server of a cloud, called a "node", and writes them
to YAML files in /etc/hiera on that node, where Puppet reads them. ConfigDB is a service that stores these settings and
lets people override them. configdb-sync uploads the nodes' settings to ConfigDB and writes the overrides to the nodes.

This demo works on a copy of {source}, which holds one folder for each node and stands for {count}.
ConfigDB runs inside the command, with its data in the same temporary folder.
"""


class DemoError(Exception):
    """The demonstration can't go on; the text says why."""


@dataclass(frozen=True)
class Choice:
    """The setting to override: on which node, in which data source, and the value to give it."""

    environment: str
    node: str
    data_source: str
    key: str
    before: Any
    after: Any

    @property
    def kind(self) -> str:
        return {bool: "bool", int: "int", float: "float"}.get(type(self.after), "str")

    @property
    def text(self) -> str:
        return self.after if isinstance(self.after, str) else json.dumps(self.after)


class Stage:
    """The temporary folder, and the commands that run in it."""

    def __init__(self, folder: Path, console: Console) -> None:
        self.nodes = folder / NODES
        self._folder = folder
        self._console = console
        settings = folder / "settings.yaml"
        settings.touch(mode=0o600)
        settings.write_text("{}\n", encoding="utf-8")
        ours = {
            "CONFIGDB_SYNC_SETTINGS": str(settings),
            "CONFIGDB_SYNC_STATE": str(folder / "state"),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
        }
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("CONFIGDB_SYNC_", "OS_"))}
        self.environ: Mapping[str, str] = kept | ours

    def say(self, text: str) -> None:
        width = min(WIDTH, self._console.width)
        for paragraph in text.strip("\n").split("\n\n"):
            self._console.print(textwrap.fill(" ".join(paragraph.split()), width), highlight=False, markup=False)
            self._console.print()

    def heading(self, text: str) -> None:
        self._console.rule(Text(text, style="bold"), align="left", style="dim")

    def command(self, *arguments: str) -> None:
        """Show a command, run it with its output going where ours goes. Raises DemoError if it fails."""
        self._console.print(f"$ {shlex.join(arguments)}", style="bold", highlight=False, markup=False, soft_wrap=True)
        sys.stdout.flush()
        done = subprocess.run(arguments, cwd=self._folder, env=self.environ, check=False)
        if done.returncode:
            raise DemoError(f"the command ended with exit code {done.returncode}")
        self._console.print()

    def ask(self, *arguments: str) -> Any:
        """Return what a command answers as JSON, without showing it."""
        done = subprocess.run(
            arguments, cwd=self._folder, env=self.environ, check=False, stdout=subprocess.PIPE, text=True
        )
        if done.returncode:
            raise DemoError(f"{shlex.join(arguments)} ended with exit code {done.returncode}")
        return json.loads(done.stdout)

    def shell_lines(self) -> list[str]:
        """Return the commands after which a user's shell is where these commands ran."""
        names = sorted(name for name in self.environ if name.startswith("CONFIGDB_SYNC_"))
        exports = [f"{name}={shlex.quote(self.environ[name])}" for name in names]
        path = f"PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH"
        return [f"cd {shlex.quote(str(self._folder))}", f"export {' '.join([*exports, path])}"]

    def changes(self, before: Mapping[str, bytes]) -> None:
        """Show the changed lines of the nodes' files since ``before``."""
        now = snapshot(self.nodes)
        changed = [name for name in sorted(before.keys() | now.keys()) if before.get(name) != now.get(name)]
        for name in changed:
            self._console.print(f"{NODES}/{name}", style="bold", highlight=False, markup=False, soft_wrap=True)
            for line in changed_lines(before.get(name, b""), now.get(name, b"")):
                style = "green" if line.startswith("+") else "red"
                self._console.print(f"  {line}", style=style, highlight=False, markup=False, soft_wrap=True)
        self._console.print(f"({len(now) - len(changed)} other files and links are unchanged.)\n", highlight=False)


def snapshot(top: Path) -> dict[str, bytes]:
    """Return the content of every file below ``top`` (the target of a link), by path."""
    found = {}
    for path in sorted(top.rglob("*")):
        name = path.relative_to(top).as_posix()
        if path.is_symlink():
            found[name] = b"link to " + os.fsencode(path.readlink())
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


def checksum(files: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    for name, content in files.items():
        whole.update(f"{name} {hashlib.sha256(content).hexdigest()}\n".encode())
    return whole.hexdigest()


def changed_lines(before: bytes, after: bytes) -> Iterator[str]:
    one, other = (text.decode(errors="replace").splitlines() for text in (before, after))
    for line in difflib.unified_diff(one, other, lineterm="", n=0):
        if line[:1] in {"+", "-"} and not line.startswith(("+++", "---")):
            yield f"{line[0]} {line[1:]}"


def copy(source: Path, destination: Path) -> list[str]:
    """Copy node trees, links as they are, and let us write them; return the nodes' ids."""
    if not source.is_dir():
        raise DemoError(f"{source} is not a folder")
    folders = sorted(path for path in source.glob("node-*") if (path / "etc/hiera").is_dir())
    if not folders:
        raise DemoError(f"{source} has no node-<id>/etc/hiera in it")
    for folder in folders:
        shutil.copytree(folder, destination / folder.name, symlinks=True)
    for path in [destination, *destination.rglob("*")]:
        if not path.is_symlink():
            path.chmod(stat.S_IMODE(path.stat().st_mode) | (0o700 if path.is_dir() else 0o600))
    return sorted((folder.name.removeprefix("node-") for folder in folders), key=lambda text: (len(text), text))


def environment_of(nodes: Path) -> str:
    """Return the environment's number: the fact ``deployment_id`` in the first file that has it."""
    for name in BASES:
        for path in sorted(nodes.glob(f"node-*/etc/hiera/{name}.yaml")):
            found = re.search(rb"""^\s{0,4}deployment_id:\s*['"]?(\d+)""", path.read_bytes(), flags=re.MULTILINE)
            if found:
                return found[1].decode()
    raise DemoError("no file of these nodes has the fact deployment_id, which tells the environment's number")


def choose(stage: Stage, environment: str, ids: list[str]) -> Choice:
    """Pick a node (with others on both sides of it) and a setting of it that is no secret."""
    node = ids[len(ids) // 2]
    for data_source in SEARCHED:
        if not (stage.nodes / f"node-{node}/etc/hiera/{data_source}.yaml").is_file():
            continue
        document = stage.ask(
            *("configdb-sync", "get", "--env", environment, "--level", f"nodes={node}"),
            *("--data-source", data_source, "--format", "json"),
        )
        candidates = [*WELL_KNOWN, *sorted(key for key, value in document.items() if isinstance(value, bool))]
        for key in candidates:
            value = document.get(key)
            if isinstance(value, bool) and _read_from(stage, environment, node, key) == data_source:
                return Choice(environment, node, data_source, key, value, not value)
    raise DemoError(f"node {node} has no setting that is true or false, which this demonstration would turn over")


def _read_from(stage: Stage, environment: str, node: str, key: str) -> str:
    where = ("--env", environment, "--node", node)
    answer = stage.ask("configdb-sync", "lookup", key, *where, "--explain", "--format", "json")
    return str(answer["data_source"])


def show_answers(stage: Stage, choice: Choice) -> None:
    """Show what Puppet reads by ``lookup``, and by Hiera itself where it is installed."""
    stage.command(
        "configdb-sync", "lookup", choice.key, "--env", choice.environment, "--node", choice.node, "--explain"
    )
    if shutil.which("hiera", path=stage.environ["PATH"]):
        stage.say("Hiera on this machine, which Puppet asks, reads from the node's files:")
        hiera = stage.nodes / f"node-{choice.node}/etc/hiera"
        (stage.nodes.parent / HIERA_YAML).write_text(hiera_yaml(hiera), encoding="utf-8")
        stage.command("hiera", "--config", HIERA_YAML, choice.key)


def hiera_yaml(folder: Path) -> str:
    """Return a ``hiera.yaml`` with all files of a node, in the order in which Fuel has Puppet read them."""
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.yaml") if path.is_file()}
    layout = layout_of(files)
    facts = {name: Reader().read(files[name].read_bytes()).values for name in layout.base_files if name in files}
    read = {key: value for name in reversed(layout.base_files) for key, value in facts.get(name, {}).items()}
    paths = [path for path in map_node(DEFAULT[layout], read, files).sources.values() if path in files]
    hierarchy = [path.removesuffix(".yaml") for path in paths]
    datadir = json.dumps(str(folder))
    return f":backends: [yaml]\n:hierarchy: {json.dumps(hierarchy)}\n:yaml:\n  :datadir: {datadir}\n"


def run(stage: Stage, source: Path) -> None:
    ids = copy(source, stage.nodes)
    environment = environment_of(stage.nodes)
    where = ("--env", environment, "--from", NODES)
    start = snapshot(stage.nodes)
    shown = source.relative_to(ROOT) if source.is_relative_to(ROOT) else source
    stage.say(INTRODUCTION.format(source=shown, count=f"its {len(ids)} nodes" if len(ids) > 1 else "its one node"))

    stage.heading("1. The plan")
    stage.say(
        "A plan changes nothing. ConfigDB is still empty, so every file would be uploaded: each becomes a document, "
        'stored under its node and the name of the file (its "data source").'
    )
    stage.command("configdb-sync", "plan", *where)

    stage.heading("2. The first run")
    stage.say("This uploads every file. No file on a node changes, because nothing is overridden yet.")
    stage.command("configdb-sync", "sync", *where)

    choice = choose(stage, environment, ids)
    target = ("--env", environment, "--level", f"nodes={choice.node}", "--data-source", choice.data_source)
    stage.heading("3. An override")
    stage.say(
        f"Now `{choice.key}` is set to {choice.text} for node {choice.node} only. "
        "ConfigDB keeps the value that the node uploaded, and stores the override beside it."
    )
    stage.say("Before that, Puppet reads:")
    show_answers(stage, choice)
    stage.command(
        "configdb-sync", "override", *target, "--key", choice.key, "--value", choice.text, "--type", choice.kind
    )

    stage.heading("4. The second run writes it to the node")
    stage.say("It writes only the file that holds the setting, and changes only this setting in it.")
    stage.command("configdb-sync", "sync", *where)
    stage.say("These lines changed in the files:")
    stage.changes(start)
    stage.say("Now Puppet reads the override:")
    show_answers(stage, choice)

    stage.heading("5. The override is removed")
    stage.command("configdb-sync", "rm-override", *target, "--key", choice.key)
    stage.say("The third run restores the node's own value:")
    stage.command("configdb-sync", "sync", *where)

    end = snapshot(stage.nodes)
    stage.say(
        f"Checksum of the {len(start)} files and links at the start: {checksum(start)[:16]}, "
        f"and of the {len(end)} now: {checksum(end)[:16]}."
    )
    if end != start:
        stage.changes(start)
        raise DemoError("the files differ from what they were at the start")
    stage.say("All files are byte for byte the same as at the start.")


def main() -> int:
    parser = argparse.ArgumentParser(prog="script/demo", description=__doc__)
    parser.add_argument(
        "folder", nargs="?", type=Path, default=EXAMPLE, help="node trees: FOLDER/node-<id>/etc/hiera/..."
    )
    parser.add_argument("--keep", action="store_true", help="leave the copy, to try further commands on it")
    arguments = parser.parse_args()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH)
    temporary = Path(tempfile.mkdtemp(prefix="configdb-sync-demo-"))
    try:
        stage = Stage(temporary, console)
        run(stage, arguments.folder.resolve())
        if arguments.keep:
            stage.say("The copy stays. To go on with it:")
            for line in stage.shell_lines():
                console.print(f"  {line}", markup=False, soft_wrap=True)
    except (DemoError, OSError) as error:
        console.print(f"demo: {error}", style="red", markup=False, soft_wrap=True)
        return 1
    finally:
        if not arguments.keep:
            shutil.rmtree(temporary, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
