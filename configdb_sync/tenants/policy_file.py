"""The operator's policy file: read strictly and refused with the line: a slip in it opens or shuts doors."""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

import yaml
from oslo_policy import policy

from configdb_sync.errors import SettingsError

_LARGEST = 1024 * 1024
_RULE = re.compile(r"rule:([^\s()]+)")
_REMOTE = re.compile(r"\bhttps?:", re.IGNORECASE)
_TARGET = re.compile(r"%\(([^)]*)\)")
_FILLED = re.compile(r"%\(own\)s|%%")
_DEEPEST = 50
"""Parentheses in a rule, and rules that one leads to: each is a step into the depth at every decision."""


def stamp(found: os.stat_result) -> tuple[int, ...]:
    """Return what changes with a file."""
    return (found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode, found.st_uid)


def named(text: str) -> list[str]:
    """Return the rules that a rule refers to."""
    return _RULE.findall(text)


def read(path: Path, defaults: Mapping[str, str]) -> tuple[dict[str, str], tuple[int, ...]]:
    """Return the rules of a policy file (YAML) and its stamp. ``defaults``: the rules that the calls need.

    Refused with the line: what isn't YAML, isn't a mapping of texts, names a rule twice, is no rule, is empty (which
    would allow everyone), asks over the network, names a call's rule or something of the target that there isn't, or
    refers to a rule that there isn't or to itself; and what is nested too deeply.
    Raises ``SettingsError``.
    """
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            _check_owner(path, found)
            content = file.read(_LARGEST + 1)
    except OSError as error:
        raise SettingsError(f"the policy file {path} can't be read: {error.strerror}") from None
    if len(content) > _LARGEST:
        raise SettingsError(f"the policy file {path} is larger than {_LARGEST} bytes")
    try:
        node = yaml.compose(content, Loader=yaml.SafeLoader)
    except RecursionError:
        raise _fault(path, 1, "it is nested too deeply") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise _fault(path, 1 if mark is None else mark.line + 1, "it isn't YAML") from None
    return _checked(path, node, defaults), stamp(found)


def _check_owner(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise SettingsError(f"the policy file {path} is no file")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise SettingsError(f"the policy file {path} can be changed by others", way_out=f"chmod go-w {path}")
    if found.st_uid not in {0, os.geteuid()}:
        raise SettingsError(
            f"the policy file {path} belongs to user {found.st_uid}", way_out="make it root's, or this user's"
        )


def _checked(path: Path, node: yaml.Node | None, defaults: Mapping[str, str]) -> dict[str, str]:
    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise _fault(path, node.start_mark.line + 1, "it is no mapping of rules")
    found: dict[str, str] = {}
    lines: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if key.tag != "tag:yaml.org,2002:str" or value.tag != "tag:yaml.org,2002:str":
            raise _fault(path, line, "a rule's name and the rule must be texts")
        name, text = str(key.value), str(value.value)
        if name in found:
            raise _fault(path, line, f"rule {name!r} stands twice, first in line {lines[name]}")
        fault = _fault_of(name, text, defaults)
        if fault is not None:
            raise _fault(path, line, fault)
        found[name], lines[name] = text, line
    everything = {**defaults, **found}
    for name, text in found.items():
        for other in named(text):
            if other not in everything:
                raise _fault(path, lines[name], f"rule {name!r} refers to {other!r}, which there isn't")
        reached = _reached(everything, name)
        if name in reached:
            raise _fault(path, lines[name], f"rule {name!r} refers to itself")
        if len(reached) > _DEEPEST:
            raise _fault(path, lines[name], f"rule {name!r} leads to more than {_DEEPEST} others")
    return found


def _fault_of(name: str, text: str, defaults: Mapping[str, str]) -> str | None:
    if ":" in name and name not in defaults:
        return f"no call needs a rule {name!r}; a rule of your own has no colon in its name"
    if not text.strip():
        return f"rule {name!r} is empty; write @ to allow everyone, ! to allow no one"
    fault = _fault_of_text(text)
    if fault is not None:
        return f"rule {name!r} {fault}"
    # oslo.policy takes what it can't read for "deny" and says so in its log alone.
    logging.getLogger("oslo_policy").setLevel(logging.CRITICAL)
    if str(policy.Rules.from_dict({"rule": text})["rule"]).count("!") != text.count("!"):
        return f"rule {name!r} can't be read: {text[:80]!r}"
    return None


def _fault_of_text(text: str) -> str | None:
    """Return what makes a rule fail or go astray when it is asked, long after the start."""
    if _REMOTE.search(text):
        return "would ask over the network"
    strange = [one for one in _TARGET.findall(text) if one != "own"]
    if strange:
        return f"compares with {strange[0]!r}; of the tenant only %(own)s is known"
    rest = _FILLED.sub("", text)
    if "%" in rest:
        return "has a % that is neither %(own)s nor %%"
    if rest.count("(") > _DEEPEST:
        return f"has more than {_DEEPEST} parentheses; give parts of it names of their own"
    return None


def _reached(texts: Mapping[str, str], name: str) -> set[str]:
    """Return the rules that one leads to."""
    reached, ahead = set[str](), [name]
    while ahead:
        for other in named(texts.get(ahead.pop(), "")):
            if other not in reached:
                reached.add(other)
                ahead.append(other)
    return reached


def _fault(path: Path, line: int, what: str) -> SettingsError:
    return SettingsError(
        f"the policy file {path}, line {line}: {what}",
        way_out="`configdb-sync tenants policy` prints all rules with their defaults",
    )
