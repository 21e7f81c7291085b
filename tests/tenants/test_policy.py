"""The policy (T12): good defaults, the operator's file over them, own tenants decided in code, slips refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from configdb_sync.errors import SettingsError
from configdb_sync.tenants import app, openapi, policy
from configdb_sync.tenants.paths import ResourcePath, Route, RouteKind, route
from configdb_sync.tenants.policy import EVERY, Policy, rule_of
from configdb_sync.web.access import Caller
from tests.support.clocks import ManualClock
from tests.tenants.support import called

OPERATOR_RULE = policy.OPERATOR
OPERATOR = Caller("ann", admin=False, roles=frozenset({"Admin"}))
USER = Caller("bob", admin=False, project="p", roles=frozenset({"member"}))
NOBODY = Caller("eve", admin=False)
EXAMPLE = {"tenantId": "t", "environment": "1", "dataSource": "plugins/x", "run": "req-1"}


def written(tmp_path: Path, text: str, mode: int = 0o600) -> Path:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    path.chmod(mode)
    return path


def make_policy(path: Path | None = None, clock: ManualClock | None = None, role: str = "admin") -> Policy:
    return Policy(clock or ManualClock(), path, role)


def test_by_default_operators_have_all_of_the_admin_endpoint_and_no_one_else_anything() -> None:
    told = make_policy()
    for rule in (one.name for one in policy.rules() if one.name.startswith("admin:")):
        assert told.allows(rule, OPERATOR, own=False), "roles compare without case"
        for caller in (USER, NOBODY):
            assert not told.allows(rule, caller, own=False)
            assert not told.allows(rule, caller, own=True)


def test_by_default_a_tenants_user_reads_its_own_and_an_operator_no_more_than_that() -> None:
    told = make_policy()
    for rule in ("public:get", "public:get_values"):
        assert told.asks_for_own(rule)
        for caller in (OPERATOR, USER, NOBODY):
            assert told.allows(rule, caller, own=True)
            assert not told.allows(rule, caller, own=False)


def test_another_role_makes_the_operator() -> None:
    told = make_policy(role="cloud-admin")
    assert told.allows("admin:move", Caller("x", admin=False, roles=frozenset({"cloud-admin"})), own=False)
    assert not told.allows("admin:move", OPERATOR, own=False)


def test_the_metrics_have_a_role_of_their_own() -> None:
    reader = Caller("metrics", admin=False, roles=frozenset({policy.METRICS_ROLE}))
    allowed = [one.name for one in policy.rules() if make_policy().allows(one.name, reader, own=False)]
    assert allowed == ["admin:metrics"]


def test_the_file_holds_over_the_defaults(tmp_path: Path) -> None:
    text = '"auditor": "role:auditor"\n"admin:audit": "rule:operator or rule:auditor"\n"admin:delete_tenant": "!"\n'
    told = make_policy(written(tmp_path, text))
    auditor = Caller("al", admin=False, roles=frozenset({"auditor"}))
    assert told.allows("admin:audit", auditor, own=False)
    assert not told.allows("admin:list_tenants", auditor, own=False)
    assert not told.allows("admin:delete_tenant", OPERATOR, own=False)
    assert told.allows("admin:put_tenant", OPERATOR, own=False)
    assert not told.asks_for_own("admin:audit")


def test_a_rule_by_way_of_others_asks_for_own(tmp_path: Path) -> None:
    told = make_policy(written(tmp_path, '"mine": "rule:own_tenant"\n"admin:get": "rule:operator or rule:mine"\n'))
    assert told.asks_for_own("admin:get")
    assert told.allows("admin:get", USER, own=True)
    assert not told.allows("admin:get", USER, own=False)


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("a: b: c\n", 1, "isn't YAML"),
        ('"x": "@"\n\ty: "@"\n', 2, "isn't YAML"),
        ("- role:admin\n", 1, "no mapping"),
        ('"x": "@"\n"admin:mov": "@"\n', 2, "no call needs a rule 'admin:mov'"),
        ('"admin:move": ""\n', 1, "is empty"),
        ('\n\n"admin:move":\n', 3, "must be texts"),
        ('"admin:move": []\n', 1, "must be texts"),
        ('"admin:move": "role:admin or"\n', 1, "can't be read"),
        ('"admin:move": "role:admin or nonsense"\n', 1, "can't be read"),
        ('"admin:move": "(role:admin"\n', 1, "can't be read"),
        ('"x": "@"\n"admin:move": "rule:nobody"\n', 2, "'nobody', which doesn't exist"),
        ('"operator": "rule:admin:move"\n', 1, "refers to itself"),
        ('"x": "rule:y"\n"y": "rule:x"\n', 1, "refers to itself"),
        ('"x": "@"\n"x": "!"\n', 2, "stands twice, first in line 1"),
        ('"x": "@"\n"admin:get": "https://elsewhere/"\n', 2, "over the network"),
        ('"admin:get": "project_id:%(tenant_id)s"\n', 1, "'tenant_id'"),
        ('"admin:get": "role:100%"\n', 1, "a % that is neither"),
        ('"admin:get": "role:%d"\n', 1, "a % that is neither"),
        ('"admin:get": "role:%(own)d"\n', 1, "a % that is neither"),
        ("[" * 50_000, 1, "nested too deeply"),
        (f'"admin:get": "{"(role:a or " * 3000}role:x{")" * 3000}"\n', 1, "more than 50 parentheses"),
        ("".join(f'r{one}: "rule:r{one + 1}"\n' for one in range(5000)) + 'r5000: "@"\n', 1, "more than 50 others"),
    ],
)
def test_slips_are_refused_with_the_line(tmp_path: Path, text: str, line: int, what: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(SettingsError) as error:
        make_policy(path)
    assert f"{path}, line {line}: " in error.value.what
    assert what in error.value.what
    told = called("tenants", "policy", path)
    assert (told.code, f"line {line}: " in told.err) == (2, True)


@pytest.mark.parametrize("mode", [0o602, 0o620, 0o666])
def test_a_file_that_others_can_change_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(SettingsError, match="can be changed by others"):
        make_policy(written(tmp_path, "{}", mode))


def test_a_file_that_is_not_there_or_none_is_refused(tmp_path: Path) -> None:
    for path, what in ((tmp_path / "none", "can't be read"), (tmp_path, "can't be read|is no file")):
        with pytest.raises(SettingsError, match=what):
            make_policy(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="no root")
def test_a_strangers_file_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, "{}")
    os.chown(path, 12345, 12345)
    with pytest.raises(SettingsError, match="belongs to user 12345"):
        make_policy(path)


def test_a_changed_file_holds_after_a_while_and_a_broken_one_never(tmp_path: Path) -> None:
    clock, path = ManualClock(), written(tmp_path, '"admin:get": "@"\n')
    told = make_policy(path, clock)
    assert told.allows("admin:get", USER, own=False)
    written(tmp_path, '"admin:get": "!" \n')
    clock.advance(EVERY / 2)
    assert told.allows("admin:get", USER, own=False), "not looked at more often"
    clock.advance(EVERY)
    assert not told.allows("admin:get", OPERATOR, own=False)
    written(tmp_path, '"admin:get": "role:x or"\n')
    clock.advance(EVERY)
    assert not told.allows("admin:get", OPERATOR, own=False), "the rules before hold on"
    written(tmp_path, "{}", 0o666)
    clock.advance(EVERY)
    assert not told.allows("admin:get", OPERATOR, own=False)
    written(tmp_path, "{}")
    clock.advance(EVERY)
    assert told.allows("admin:get", OPERATOR, own=False)


def test_answers_are_kept_but_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("configdb_sync.tenants.policy._MOST", 10)
    told = make_policy()
    for number in range(100):
        assert not told.allows("admin:get", Caller(f"user {number}", admin=False), own=False)
    assert len(told._rules.answers) <= 10


def described() -> Mapping[tuple[str, str], set[str]]:
    found: dict[tuple[str, str], set[str]] = {}
    for one in policy.rules():
        for operation in getattr(one, "operations", None) or []:
            found.setdefault((operation["path"], operation["method"]), set()).add(one.name)
    return found


@pytest.mark.parametrize("path", [path for path in openapi.CALLS if path not in openapi.OPEN])
def test_the_rules_tell_each_call_that_needs_them(path: str) -> None:
    """What the sample says of a rule's calls is what the code asks for."""
    asked = route(tuple(path.format(**EXAMPLE)[1:].split("/")))
    source = asked.place is not None and asked.kind is RouteKind.PLACE and asked.place.data_source is not None
    for method in app.methods_of(asked):
        told = described().get((path, method), set())
        for query in (None, "level=nodes=1") if source and method == "GET" else (None,):
            assert rule_of(asked, method, query, public=False) in told, method
    public = {rule for rule in described().get((path, "GET"), set()) if rule.startswith("public:")}
    assert bool(public) is (asked.kind in app._PUBLIC and asked.place is not None)


def test_no_spelling_of_level_gets_round_its_rule() -> None:
    asked = Route(RouteKind.PLACE, ResourcePath("t", 1, "astute"))
    for query in ("level=", "%6Cevel=nodes=1", "fields=id&lev%65l=", "%6c%65%76%65%6c", "show=history"):
        assert rule_of(asked, "HEAD", query, public=True) == "public:get_values"
    assert rule_of(asked, "GET", "fields=id", public=True) == "public:get"


def test_the_sample_is_that_of_oslo_policys_own_tool_and_can_be_used(tmp_path: Path) -> None:
    told = called("tenants", "policy")
    tool = Path(sys.executable).with_name("oslopolicy-sample-generator")
    command = [str(tool), "--namespace", policy.NAMESPACE]
    sample = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert (told.code, told.out) == (0, sample)
    path = written(tmp_path, sample.replace('#"', '"'))
    assert called("tenants", "policy", path).out == f"{path}: {len(policy.rules())} rules can be used\n"


def test_the_documents_example_can_be_used(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/tenants.md").read_text(encoding="utf-8")
    path = written(tmp_path, re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)[0])
    assert called("tenants", "policy", path).code == 0


ONE_PROJECT = Path(__file__).resolve().parents[2] / "examples/policy-one-project.yaml"


def test_operators_of_one_project_by_the_example(tmp_path: Path) -> None:
    text = ONE_PROJECT.read_text()
    (project,) = re.findall(r"project_id:(\w+)", text)
    told = make_policy(written(tmp_path, text))
    admin = frozenset({"admin"})
    theirs, others = Caller("ann", False, project, None, admin), Caller("eve", False, "p", None, admin)
    without, member = (
        Caller("bob", False, None, None, admin),
        Caller("cid", False, project, None, frozenset({"member"})),
    )
    for rule in (OPERATOR_RULE, *(one.name for one in policy.rules() if one.name.startswith("admin:"))):
        assert told.allows(rule, theirs, own=False)
        for caller in (others, without, member):
            assert not told.allows(rule, caller, own=False), (rule, caller)
    assert make_policy().allows(OPERATOR_RULE, others, own=False), "by default the role on any project does"
    assert told.allows("public:get", others, own=True), "the public endpoint is as before"


def test_the_documents_show_the_example() -> None:
    (rule,) = [line for line in ONE_PROJECT.read_text().splitlines() if line.startswith('"')]
    assert rule in (ONE_PROJECT.parents[1] / "docs/tenants.md").read_text()
