"""Removes the Hiera backend from nodes, with the same Ruby code as the plugin's task ``configdb_hiera_off`` (U15).

The code is sent along, so that it works whichever version of the plugin the node has, and without any.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from configdb_sync.errors import NodeError, SettingsError
from configdb_sync.mcollective.outcomes import Rpc
from configdb_sync.nodes.node_files import is_plain, shown
from configdb_sync.nodes.remote.agents import Agents
from configdb_sync.nodes.remote.command_output import CommandOutput, fault
from configdb_sync.nodes.remote.commands import Commands

LIBRARY = Path("deployment_scripts/puppet/configdb/lib/configdb_hiera")
"""Where the Ruby code is, below the folder that holds this package."""

_PARTS = (
    "errors",
    "private_files",
    "settings",
    "yaml_files",
    "setup/hiera_yaml",
    "setup/installation",
    "setup/removal",
)
_CALL = "ConfigdbHiera::Setup::Removal.main(*ARGV)\n"
_MAGIC = b"configdb-sync 1 "
_LOCAL_LIMIT = 60
_T = TypeVar("_T")


@dataclass(frozen=True)
class RemovalOrder:
    """What to do: ``named`` says that the user named these nodes, ``look`` that nothing may be changed."""

    environment: int
    named: bool
    look: bool

    @property
    def words(self) -> tuple[str, str, str]:
        """The arguments of the Ruby program, after the root."""
        return str(self.environment), "yes" if self.named else "no", "look" if self.look else "remove"


@dataclass(frozen=True)
class Removal:
    """The result for one node.

    ``found``: paths of the backend's parts; they are removed now, unless the order was to look. ``own``: the
    settings file, if the operator wrote it; it stays. ``other``: the node's environment if it is another one; nothing
    was done then.
    """

    identity: str
    found: tuple[str, ...] = ()
    own: str | None = None
    other: int | None = None


def program(folder: Path) -> bytes:
    """Return the Ruby program; ``folder`` holds this package. Raises ``SettingsError`` if the code isn't there."""
    try:
        parts = [(folder / LIBRARY / f"{name}.rb").read_bytes() for name in _PARTS]
    except OSError as error:
        raise SettingsError(
            f"the Hiera backend's code isn't here: {error.filename}: {error.strerror}",
            way_out="use configdb-sync of the plugin or of its source folder",
        ) from error
    return b"\n".join([*parts, _CALL.encode()])


def remove_over_bus(
    rpc: Rpc, code: bytes, identities: Sequence[str], order: RemovalOrder, *, timeout: float
) -> Iterator[Removal | NodeError]:
    """Remove the backend from nodes; yield one item for each, as they come. Raises ``BusError``."""
    command = Commands(max(1, round(timeout))).ruby(code, "/", *order.words)
    for identity, output in Agents(rpc, timeout).run_all(command, identities):
        yield output if isinstance(output, NodeError) else _result(identity, output, order)


def remove_in_trees(
    root: Path, code: bytes, identities: Sequence[str], order: RemovalOrder
) -> Iterator[Removal | NodeError]:
    """Remove the backend from trees ``<root>/node-<id>``; yield one item for each. Raises ``SettingsError`` if this
    machine has no Ruby."""
    ruby = shutil.which("ruby")
    if ruby is None:
        raise SettingsError("there is no ruby on this machine", way_out="install it, or use --from mcollective")
    for identity in identities:
        tree = root / f"node-{identity}"
        if not is_plain(identity) or "/" in identity or tree.is_symlink() or not tree.is_dir():
            yield NodeError(f"{shown(str(tree))} is no folder of a node", node=identity)
            continue
        command = [ruby, "-", str(tree), *order.words]
        try:
            done = subprocess.run(  # noqa: S603  # our own program; a folder's name is an argument of it
                command, input=code, capture_output=True, check=False, timeout=_LOCAL_LIMIT
            )
        except subprocess.TimeoutExpired:
            yield NodeError("its files take too long", node=identity)
        else:
            yield _result(identity, CommandOutput(done.stdout, done.stderr, done.returncode), order)


def _result(identity: str, output: CommandOutput, order: RemovalOrder) -> Removal | NodeError:
    """Return what a node's answer says."""
    try:
        environment, found, own, error = _answer(output.stdout)
    except (ValueError, TypeError, KeyError, RecursionError):
        environment, found, own, error = None, (), None, "its answer can't be understood"
    error = fault(output) or error
    if error is not None:
        return NodeError(error, node=identity)
    if environment == order.environment or (environment is None and (order.named or not found)):
        return Removal(identity, found, own)
    if environment is None:
        return NodeError(
            f"has the backend ({', '.join(found)}) and doesn't say of which environment it is",
            way_out=f"name it: --node {identity}",
            node=identity,
        )
    if order.named:
        return NodeError(f"belongs to environment {environment}", way_out="nothing was changed on it", node=identity)
    return Removal(identity, other=environment)


def _answer(stdout: bytes) -> tuple[int | None, tuple[str, ...], str | None, str | None]:
    """Return environment, paths found, the operator's own file and the error of an answer. Raises for any other."""
    answer: Any = json.loads(stdout.removeprefix(_MAGIC)) if stdout.startswith(_MAGIC) else None
    environment, found = _checked(answer["environment"], int), _checked(answer["found"], list)
    own, error = _checked(answer["own"], str), _checked(answer["error"], str)
    paths = tuple(shown(_checked(path, str) or "") for path in found or ())
    return environment, paths, None if own is None else shown(own), None if error is None else shown(error)


def _checked(value: Any, kind: type[_T]) -> _T | None:
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise TypeError
    return value
