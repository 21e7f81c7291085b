"""Takes the Hiera backend off nodes, by the same Ruby code as the plugin's task ``configdb_hiera_off`` (U15).

The code is sent along, so that it doesn't matter which version of the plugin the node has, or whether it still has one.
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
from configdb_sync.nodes.remote.commands import Commands
from configdb_sync.nodes.remote.output import CommandOutput, fault

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
    """What is to be done: ``named`` says that somebody named these nodes, ``look`` that nothing may be changed."""

    environment: int
    named: bool
    look: bool

    @property
    def words(self) -> tuple[str, str, str]:
        """The arguments of the Ruby program, after the root."""
        return str(self.environment), "yes" if self.named else "no", "look" if self.look else "remove"


@dataclass(frozen=True)
class Removal:
    """What came of one node.

    ``found``: paths of what was there of the backend; it is gone now, unless the order was to look. ``own``: the
    settings file, if the operator wrote it; it stays. ``other``: the environment that the node is of, if it is another
    one; nothing was done then.
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
    """Take the backend off nodes; yield one item for each, as they come. Raises ``BusError``."""
    command = Commands(max(1, round(timeout))).ruby(code, "/", *order.words)
    for identity, output in Agents(rpc, timeout).run_all(command, identities):
        yield output if isinstance(output, NodeError) else _result(identity, output, order)


def remove_in_trees(
    root: Path, code: bytes, identities: Sequence[str], order: RemovalOrder
) -> Iterator[Removal | NodeError]:
    """Take the backend out of trees ``<root>/node-<id>``; yield one item for each. Raises ``SettingsError`` if this
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
    try:
        failed = fault(output)
        if failed is not None:
            raise NodeError(failed)
        return _judged(identity, output.stdout, order)
    except NodeError as error:
        error.node = identity
        return error


def _judged(identity: str, stdout: bytes, order: RemovalOrder) -> Removal:
    """Return what a node's answer says. Raises ``NodeError`` without the node."""
    environment, found, own, error = _answer(stdout)
    if error is not None:
        raise NodeError(error)
    if environment == order.environment or (environment is None and (order.named or not found)):
        return Removal(identity, found, own)
    if environment is None:
        raise NodeError(
            f"has the backend ({', '.join(found)}) and doesn't say of which environment it is",
            way_out=f"name it: --node {identity}",
        )
    if order.named:
        raise NodeError(f"is of environment {environment}", way_out="nothing of it was touched")
    return Removal(identity, other=environment)


def _answer(stdout: bytes) -> tuple[int | None, tuple[str, ...], str | None, str | None]:
    try:
        answer: Any = json.loads(stdout.removeprefix(_MAGIC)) if stdout.startswith(_MAGIC) else None
        environment, found = _checked(answer["environment"], int), _checked(answer["found"], list)
        own, error = _checked(answer["own"], str), _checked(answer["error"], str)
        paths = tuple(shown(_checked(path, str) or "") for path in found or ())
    except (ValueError, TypeError, KeyError, RecursionError):
        raise NodeError("its answer can't be understood") from None
    return environment, paths, None if own is None else shown(own), None if error is None else shown(error)


def _checked(value: Any, kind: type[_T]) -> _T | None:
    """Return a value of a kind, or None. Raises ``TypeError``."""
    if value is not None and (not isinstance(value, kind) or isinstance(value, bool)):
        raise TypeError
    return value
