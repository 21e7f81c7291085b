"""The product's own commands, carried out on a tree in memory: what ``nodes/remote/scripts`` say, in other words.

It is no shell: a command that the product doesn't send is "not found". Tests hold it against a real shell.
"""

from __future__ import annotations

import functools
import shlex

from configdb_sync.nodes.remote.commands import script
from configdb_sync.nodes.remote.output import Output
from configdb_sync.simulator.reading import pieces, read
from configdb_sync.simulator.tree import Tree
from configdb_sync.simulator.writing import WRITING, SaidError

_SAME = {
    "true": Output(b"", b"", 0),
    # Simulated nodes have no Hiera backend, and the only Ruby program that is sent looks for it.
    "ruby": Output(b'configdb-sync 1 {"environment":null,"found":[],"own":null,"error":null}\n', b"", 0),
}
_NOT_FOUND = Output(b"", b"sh: 1: not found\n", 127)


def execute(tree: Tree, command: str) -> Output:
    """Carry out a command on a node's tree."""
    parsed = _parsed(command)
    if parsed is None:
        return _NOT_FOUND
    name, arguments = parsed
    if name in _SAME:
        return _SAME[name]
    if name == "read":
        return Output(read(tree, arguments), b"", 0)
    if name == "pieces":
        return Output(pieces(tree, arguments), b"", 0)
    try:
        WRITING[name](tree, list(arguments))
    except SaidError as said:
        return Output(said.text, b"", 0)
    return Output(b"", b"", 1)


@functools.lru_cache(maxsize=64)
def _parsed(command: str) -> tuple[str, tuple[str, ...]] | None:
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    if words == ["true"]:
        return "true", ()
    if len(words) < 8 or words[0] != "timeout" or words[4:6] != ["sh", "-c"]:
        return None
    name = words[7]
    known = name in {"read", "pieces", "ruby", *WRITING}
    return (name, tuple(words[8:])) if known and words[6] == script(name) else None
