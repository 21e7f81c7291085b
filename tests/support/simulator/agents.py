"""The two agents of a Fuel node on a tree in memory, with the rules of their declarations (B19)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.simulator import scripts
from tests.support.simulator.tree import File, Folder, Tree

_UPLOAD_INPUTS = ("path", "content", "overwrite", "parents", "user_owner", "group_owner", "permissions")
_REFUSED = re.compile(rb"[`$;|<>]|&&")
_LONGEST_PATH = 256


@dataclass(frozen=True)
class AgentReply:
    """What an agent replies: status code, text, outputs."""

    code: int
    text: str = "OK"
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)


def ask(tree: Tree, agent: str, action: object, data: Mapping[str, Any]) -> AgentReply | None:
    """Return what a node's agent answers; None for an agent that nodes don't have."""
    found = _AGENTS.get(agent)
    if found is None:
        return None
    name, act = found
    if action != name:
        return AgentReply(4, f"Attempted to call action {action} for {agent} but it's not declared in the DDL")
    return act(tree, data)


def _shell(tree: Tree, data: Mapping[str, Any]) -> AgentReply:
    command = data.get("cmd")
    if command is None:
        return AgentReply(4, "Action execute needs a cmd argument", _nothing())
    if not isinstance(command, bytes):
        return AgentReply(4, "Cannot validate input cmd: value should be a string", _nothing())
    if not command or b"\0" in command:
        return AgentReply(0, data={"stdout": "", "stderr": "", "exit_code": 42})
    output = scripts.execute(tree, command.decode("utf-8", "surrogateescape"))
    return AgentReply(0, data={"stdout": told(output.stdout), "stderr": told(output.stderr), "exit_code": output.code})


def told(content: bytes) -> str | bytes:
    """Return an output as Ruby sends it: plain ASCII as text, anything else as bytes."""
    return content.decode("ascii") if content.isascii() else content


def _nothing() -> dict[str, None]:
    return dict.fromkeys(("stdout", "stderr", "exit_code"))


def _upload(tree: Tree, data: Mapping[str, Any]) -> AgentReply:
    refusal = _refusal(data)
    if refusal is not None:
        return AgentReply(4, refusal, {"msg": None})
    path = data["path"].decode("utf-8", "surrogateescape")
    real = tree.real(path)
    there = tree.find(path)
    if there is not None and not data["overwrite"]:
        return AgentReply(1, f"File {path} already exists and may not be overwritten", {"msg": None})
    if real is None or not isinstance(tree.find(posixpath.dirname(path)), Folder):
        return AgentReply(1, f"Folder {posixpath.dirname(path)} does not exist", {"msg": None})
    if isinstance(there, Folder):
        return AgentReply(5, f"Is a directory @ rb_sysopen - {path}", {"msg": None})
    mode = int(data["permissions"], 8)
    now = tree.tick()
    old = there if isinstance(there, File) else File(b"", inode=now)
    tree.put(real, replace(old, content=data["content"], mode=mode, owner=0, group=0, time=now))
    return AgentReply(0, data={"msg": "File was uploaded!"})


def _refusal(data: Mapping[str, Any]) -> str | None:
    for name in _UPLOAD_INPUTS:
        if data.get(name) is None:
            return f"Action upload needs a {name} argument"
        if isinstance(data[name], bool) != (name in {"overwrite", "parents"}):
            return f"Cannot validate input {name}: value should be a {'boolean' if name == 'overwrite' else 'string'}"
    rules = {
        f"path: Input string is longer than {_LONGEST_PATH} character(s)": len(data["path"].decode("utf-8", "replace"))
        <= _LONGEST_PATH,
        "path: value should not have shell characters in it": not _REFUSED.search(data["path"]),
        "content: value should match ^.+$": data["content"].strip(b"\n"),
        "permissions: value should match ^[0-7]{3,4}$": re.fullmatch(rb"[0-7]{3,4}", data["permissions"]),
    }
    return next((f"Cannot validate input {rule}" for rule, kept in rules.items() if not kept), None)


_AGENTS: Mapping[str, tuple[bytes | str, Callable[[Tree, Mapping[str, Any]], AgentReply]]] = {
    "execute_shell_command": ("execute", _shell),
    "uploadfile": ("upload", _upload),
}
