"""Nodes tried by ``doctor``: what each way of not working looks like (U8)."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from configdb_sync.mcollective.outcomes import ErrorReply, Missing, Outcome, Reply, ReplyCounts
from configdb_sync.nodes.mcollective import NodeCheck, check_over_bus

SOUND = b"configdb-sync 1\0t /etc/hiera\0/etc/hiera\0end"
THERE = ErrorReply("1", 1, "File / already exists and may not be overwritten")


class Agents:
    """Answers for node 1 with one outcome each."""

    def __init__(self, shell: Outcome, upload: Outcome) -> None:
        self.outcomes = {"execute_shell_command": shell, "uploadfile": upload}
        self.asked: list[tuple[str, Mapping[str, Any]]] = []
        self.counts = ReplyCounts()

    def call(
        self, agent: str, action: str, data: Mapping[str, Any], identities: Sequence[str], **_: Any
    ) -> Iterator[Outcome]:
        del action
        self.asked.append((agent, data))
        return iter([self.outcomes[agent]] if "1" in identities else [])

    def call_each(self, *_: Any, **__: Any) -> Iterator[Outcome]:
        raise NotImplementedError

    def discover(self, **_: Any) -> list[str]:
        raise NotImplementedError


def shell(stream: bytes = SOUND, code: int = 0, stderr: bytes = b"", sent: int = 0) -> Reply:
    packed = base64.b64encode(gzip.compress(stream))
    return Reply("1", {"stdout": packed if stream else b"", "stderr": stderr, "exit_code": code}, sent)


def tried(one: Outcome, other: Outcome = THERE) -> NodeCheck:
    (found,) = check_over_bus(Agents(one, other), ["1"], timeout=5, now=lambda: 1000.0)
    return found


def test_a_sound_node() -> None:
    assert tried(shell()) == NodeCheck("1")


def test_a_clock_that_is_ahead_or_behind() -> None:
    assert tried(shell(sent=1090)).ahead == 90
    assert tried(shell(sent=10)).ahead == -990


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        (Missing("1", "no reply"), THERE, "doesn't answer: no reply"),
        (ErrorReply("1", 5, "no method"), THERE, "its agent failed: no method"),
        (shell(b"", 42), THERE, "could not be started"),
        (shell(b"", 1, b"sh: gzip: not found"), THERE, "gzip: not found"),
        (shell(b"configdb-sync 1\0t /etc/hiera\0\0end"), THERE, "it has no folder /etc/hiera"),
        (shell(b"configdb-sync 1\0t /etc/hiera\0/etc/hiera\0u /etc/hiera/x\0end"), THERE, "1 folders below"),
        (shell(b"nonsense\0"), THERE, "doesn't begin as it should"),
        (shell(), Missing("1", "no reply"), "its agent uploadfile can't be used: doesn't answer"),
        (shell(), ErrorReply("1", 4, "no such input"), "its agent uploadfile can't be used: its agent failed"),
        (shell(), Reply("1", {"msg": b"File was uploaded!"}), "overwrote what it must not"),
    ],
)
def test_what_is_wrong_is_said(one: Outcome, other: Outcome, said: str) -> None:
    error = tried(one, other).error
    assert error is not None
    assert said in error.what
    assert error.node == "1"


def test_nothing_is_written_and_nobody_is_asked_in_vain() -> None:
    agents = Agents(shell(), THERE)
    list(check_over_bus(agents, ["1"], timeout=5, now=lambda: 0.0))
    assert agents.asked[1][1]["path"] == "/"
    assert agents.asked[1][1]["overwrite"] is False
