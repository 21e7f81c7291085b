"""U20: what is the same on many nodes is shown once."""

from __future__ import annotations

import pytest

from configdb_sync.sync.decide import Write
from configdb_sync.sync.diff import LeafChange
from configdb_sync.sync.plan import Digests, DocumentChange, EnvironmentChange, NodePlan, Plan
from configdb_sync.sync.render.forms import lines

DIGESTS = Digests("f", "s", "e", "v", "t")
DEBUG = LeafChange(("debug",), "false", "true")


def node(name: str, *changes: DocumentChange, notes: tuple[str, ...] = ()) -> NodePlan:
    return NodePlan(name, changes=changes, notes=notes)


def written(*changes: LeafChange) -> DocumentChange:
    return DocumentChange("globals", "globals.yaml", False, (), Write.REPLACE, changes, DIGESTS)


def shown(*nodes: NodePlan, form: str = "text", brief: bool = False) -> str:
    return "\n".join(lines(Plan(5, EnvironmentChange(False, "", ()), nodes), form, brief=brief))


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_a_note_of_several_nodes_stands_once_with_them(form: str) -> None:
    nodes = [node(str(number), notes=("the same", f"own {number}")) for number in (1, 2)]
    text = shown(*nodes, node("3", notes=("the same",)), form=form)
    assert text.count("the same") == 1
    assert "the same (nodes 1, 2, 3)" in text
    assert text.index("own 1") < text.index("own 2") < text.index("the same")


def test_a_node_with_nothing_but_shared_notes_has_nothing_to_do() -> None:
    text = shown(node("1", notes=("the same",)), node("2", notes=("the same",)))
    assert "Nothing to do on 2 nodes: 1, 2" in text


def test_a_summary_has_a_change_once_and_the_most_frequent_first() -> None:
    new = DocumentChange("astute", "astute.yaml", True, (DEBUG,), Write.NONE, (), DIGESTS)
    own = [LeafChange(("ip",), None, f'"10.0.0.{number}"') for number in range(12)]
    nodes = [node(str(number), written(own[number], DEBUG), notes=("n",) * (number == 3)) for number in range(12)]
    text = shown(*nodes, node("12", new), brief=True)
    everybody = "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ... (12)"
    assert f"globals.yaml: write (nodes {everybody})\n    ~ debug: false -> true\n    + ip:" in text
    assert text.count("debug") == 1
    assert '    + ip: "10.0.0.7" (node 7)' in text
    assert "astute: upload, the first time (node 12)" in text
    assert "Notes:\n  n (node 3)" in text


def test_a_summary_tells_which_nodes_of_several_have_a_change() -> None:
    other = LeafChange(("syslog",), None, "1")
    text = shown(node("1", written(DEBUG)), node("2", written(DEBUG, other)), form="markdown", brief=True)
    assert "### `globals.yaml`: write\n\nNodes `1, 2`\n\n- `~ debug: false -> true`\n" in text
    assert "- `+ syslog: 1`, nodes `2`" in text
