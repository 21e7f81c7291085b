"""Recognises nodes with nothing to do by digests alone: nothing is parsed, nothing is fetched. Pure.

A node's *state* is one digest over all that a decision on it rests on: its files, what ConfigDB holds at its level and
above (by the digests that the embedded server gives), the settings, the version of the product. As long as the state is
the one in which a run left the node in step, there is nothing to do. ``docs/decisions/unchanged-nodes.md``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from configdb_sync import __version__
from configdb_sync.configdb.model import Etags
from configdb_sync.jsonvalues import EMPTY_DIGEST, canonical, packed, unpacked
from configdb_sync.names import LevelPath
from configdb_sync.nodes.node_files import NodeRead


@dataclass(frozen=True)
class UnchangedNode:
    """A node with nothing to do: its state, and what a plan shows of it without examining it again."""

    state: str
    levels: LevelPath
    fqdn: str | None
    unchanged: tuple[str, ...]
    undeclared: tuple[str, ...]
    notes: tuple[str, ...]
    wanted: tuple[str, ...]


def encode(quiet: UnchangedNode) -> bytes:
    """Return it as bytes; ``decode`` gives it back."""
    return packed(asdict(quiet))


def decode(body: bytes) -> UnchangedNode:
    """Return what ``encode`` made the bytes of."""
    found = unpacked(body)
    levels = tuple((name, value) for name, value in found.pop("levels"))
    state, fqdn = found.pop("state"), found.pop("fqdn")
    return UnchangedNode(state=state, levels=levels, fqdn=fqdn, **{name: tuple(value) for name, value in found.items()})


def files_digest(
    read: NodeRead, levels: Sequence[tuple[str, str]], data_sources: Sequence[str | Mapping[str, Any]]
) -> str | None:
    """Return the part of the state that the node and the settings give; None for a node with unreadable files."""
    if read.faults:
        return None
    settings = [
        __version__,
        [list(level) for level in levels],
        [entry if isinstance(entry, str) else dict(entry) for entry in data_sources],
    ]
    files = {path: [file.sha256, file.target] for path, file in read.files.items()}
    whole: list[Any] = [settings, files]
    if read.hiera_yaml is not None:
        whole.append(hashlib.sha256(read.hiera_yaml).hexdigest())
    return hashlib.sha256(canonical(whole).encode("ascii")).hexdigest()


def state_of(files: str, etags: Sequence[Mapping[int, Etags]]) -> str:
    """Return a node's state; ``etags`` are those of each level over the node's and of its own, root first."""
    shown = [
        {
            str(definition): [found.values, found.overrides, found.effective]
            for definition, found in level.items()
            if {found.values, found.overrides, found.effective} != {EMPTY_DIGEST}
        }
        for level in etags
    ]
    return hashlib.sha256(canonical([files, shown]).encode("ascii")).hexdigest()
