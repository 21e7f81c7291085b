"""U20: Markdown that can be pasted into a ticket, whatever keys, values and names hold."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from configdb_sync import errors
from configdb_sync.names import one_line
from configdb_sync.sync.decide import Write
from configdb_sync.sync.diff import LeafChange
from configdb_sync.sync.ineffective_overrides import IneffectiveOverride, IneffectiveReason
from configdb_sync.sync.plan import Digests, DocumentChange, EnvironmentChange, NodePlan, Plan
from configdb_sync.sync.render.forms import lines
from configdb_sync.sync.render.markdown import code, plan_markdown, report_markdown
from configdb_sync.sync.report import NodeReport, Report

HARMLESS = {
    *("heading_open", "heading_close", "paragraph_open", "paragraph_close", "inline", "text", "code_inline"),
    *("bullet_list_open", "bullet_list_close", "list_item_open", "list_item_close", "softbreak"),
}
hostile = st.one_of(
    st.text(max_size=40),
    st.text("`<>|*_[]()!#\\ \n&@-", max_size=20),
    st.sampled_from(
        ["`", "``a`", "</li><script>", "](http://x)", "@all", "\n# h", "\u2028x", " ` ", "a`", "---", "1. "]
    ),
)


def tokens(markdown: str) -> list[Token]:
    parser = MarkdownIt("commonmark").enable("table")
    found = []
    for token in parser.parse(markdown):
        found += [token, *(token.children or [])]
    return found


@given(hostile)
def test_a_code_span_holds_exactly_its_text(text: str) -> None:
    shown = one_line(text, 300) or " "
    inner = [token for token in tokens(f"- x {code(text)} y") if token.type == "code_inline"]
    assert [token.content for token in inner] == [shown]


@given(hostile, hostile, hostile)
def test_nothing_from_outside_becomes_markup(key: str, value: str, name: str) -> None:
    change = LeafChange((key,), "1", value)
    digests = Digests("f", "s", "e", "v", "t")
    document = DocumentChange(name, name, False, (change,), Write.REPLACE, (change,), digests)
    problem = errors.DocumentError(value, node=name, file=key)
    node = NodePlan(
        "1",
        fqdn=name,
        changes=(document,),
        undeclared=(name,),
        notes=(value,),
        problems=(problem,),
        ineffective=(IneffectiveOverride(name, "/", key, IneffectiveReason.EQUAL),),
    )
    environment = EnvironmentChange(True, name, (key,))
    done = NodeReport(node, (name,), (name,), (problem,))
    began = datetime(2026, 1, 1, tzinfo=UTC)
    report = Report("req-1", 5, began, 1.0, environment, (done,), stopped=problem, not_attempted=(name,))
    for text in ("\n".join(plan_markdown(Plan(5, environment, (node,)))), "\n".join(report_markdown(report))):
        found = tokens(text)
        assert {token.type for token in found} <= HARMLESS
        assert sum(token.type == "heading_open" for token in found) == 4
        # Outside of code spans stand our own words alone.
        plain = "".join(token.content for token in found if token.type == "text")
        assert not set(plain) & set("`<>*_[]#|@\\")


@given(hostile)
def test_no_form_lets_text_break_out_of_its_line(text: str) -> None:
    document = DocumentChange(text, text, True, (), Write.REPLACE, (), Digests("f", "s", "e", "v", "t"))
    node = NodePlan("1", changes=(document,), notes=(text,), undeclared=(text,), problems=(errors.NodeError(text),))
    plan = Plan(5, EnvironmentChange(False, "c", ()), (node,))
    for form in ("text", "markdown", "json"):
        assert all(line.isprintable() for line in lines(plan, form))


def test_a_report_shows_what_was_done_and_not_what_was_planned() -> None:
    digests = Digests("f", "s", "e", "v", "t")
    change = DocumentChange("astute", "astute.yaml", False, (LeafChange(("a",), "1", "2"),), Write.REPLACE, (), digests)
    began, nothing = datetime(2026, 1, 1, tzinfo=UTC), EnvironmentChange(False, "", ())
    for uploaded, written, upload, write in ((("astute",), (), True, False), ((), ("astute",), False, True)):
        node = NodeReport(NodePlan("1", changes=(change,)), uploaded, written)
        text = "\n".join(report_markdown(Report("req-1", 5, began, 1.0, nothing, (node,))))
        assert ("upload 1 change" in text, "`astute.yaml`: write" in text) == (upload, write)
