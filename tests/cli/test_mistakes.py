"""Whatever a user mistypes: the error names the thing, the value (never a secret) and the way out, and nothing changes.

A row is a command line as a shell would take it (variables first; ``TOP`` is a folder with ``FILES`` and the example
cloud), its exit code, and the parts of its error.
"""

from __future__ import annotations

import dataclasses
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from configdb_sync.exits import Exit
from configdb_sync.http.transport import HttpAnswer, HttpRequest
from configdb_sync.settings import ENVIRON_PREFIX
from tests.support.product import Product, Result, make_product

CLOUD = Path(__file__).resolve().parents[2] / "examples/small-cloud"
CANARY = "CANARY"
USAGE, PARTIAL, ENVIRONMENT = Exit.USAGE, Exit.PARTIAL, Exit.ENVIRONMENT

HEAD = "version: 1\nname: t\nenvironment: 1\noverrides:\n"
ENTRY = "- {level: nodes=2, data_source: globals, key: debug, value: true}\n"
OPEN = 0o644


def entry(**fields: str) -> str:
    """Return an overrides file with one override, some of its fields others."""
    known = {"level": "nodes=2", "data_source": "globals", "key": "debug", "value": "true"} | fields
    return f"{HEAD}- {{{', '.join(f'{name}: {value}' for name, value in known.items())}}}\n"


FILES: dict[str, tuple[str, int]] = {
    name: found if isinstance(found, tuple) else (found, 0o600)
    for name, found in {
        "list.yaml": "- 1\n",
        "broken.yaml": "a: [\n",
        "version.yaml": "version: 2\noverrides: []\n",
        "twice.yaml": f"{HEAD}{ENTRY}{ENTRY}",
        "key-twice.yaml": "version: 1\nname: a\nname: b\noverrides: []\n",
        "loop.yaml": f"{HEAD}- {{data_source: globals, key: debug, value: &loop [*loop]}}\n",
        "field.yaml": entry(untill="2099-01-01"),
        "data-source.yaml": entry(data_source="global"),
        "key.yaml": entry(key="debgu"),
        "node.yaml": entry(level="nodes=22"),
        "type.yaml": entry(value="many"),
        "variable.yaml": entry(value="{env: NOT_SET}"),
        "reference.yaml": entry(value="{file: none.txt}"),
        "reference-type.yaml": entry(value="{env: HOME, type: int}"),
        "secret.yaml": entry(key="db_password", value="{file: secret.txt}"),
        "secret.txt": (f"{CANARY}\n", OPEN),
        "until.yaml": entry(until="tomorrow"),
        "no-environment.yaml": "version: 1\noverrides: []\n",
        "ok.yaml": f"{HEAD}{ENTRY}",
        "settings-open.yaml": ("tenant: a\n", OPEN),
        "settings-twice.yaml": "tenant: a\ntenant: b\n",
        "settings-unknown.yaml": "paralel: 3\n",
        "settings-value.yaml": "keep_versions: many\n",
        "settings-login.yaml": f"login: {{passwort: {CANARY}}}\n",
        "token-open": ("a" * 32, OPEN),
        "token-two-words": f"{CANARY} {CANARY}\n",
        "key-file": "no key\n",
        "backup-open.tgz": ("", OPEN),
        "no-database": "text " * 1000,
        "dump/environment.json": "{",
        "client.cfg": "connector = activemq\n",
    }.items()
}

O = "override --env 1 --level nodes=2 -r globals"  # noqa: E741 - the rows shall be short
TRUE = "--type bool --value true"
SERVER = "CONFIGDB_SYNC_CONFIGDB=http://127.0.0.1:9"
STATUS = "status --env 1"

MISTAKES: list[tuple[str, Exit, str, str, str]] = [
    # Names of commands and options
    ("overide --env 1", USAGE, "command", "overide", "Did you mean 'override'?"),
    ("overrides exprt --env 1", USAGE, "command", "exprt", "Did you mean 'export'?"),
    (f"{O} --kee debug {TRUE}", USAGE, "option", "--kee", "--key"),
    ("get --env 1 --level nodes=2 -r globals --format xml", USAGE, "--format", "xml", "'yaml'"),
    ("lookup debug --env 1 --node 2 --merge deeper", USAGE, "--merge", "deeper", "'deep'"),
    ("plan --env 1", USAGE, "Missing option", "--from", "plan --help"),
    ("sync --env 1 --from TOP/cloud --stage late", USAGE, "--stage", "late", "'post'"),
    # Environments, levels, nodes
    (f"override --env one --level nodes=2 -r globals -k debug {TRUE}", USAGE, "--env", "'one'", "whole number"),
    (f"override --env 9 --level nodes=2 -r globals -k debug {TRUE}", USAGE, "environment", "9", "environments: 1"),
    (f"override --env 9 --node 2 -k debug {TRUE}", USAGE, "environment", "9", "environments: 1"),
    ("rm-override --env 9 --node 2 -r globals -k debug", USAGE, "environment", "9", "environments: 1"),
    ("get --env 9 -r globals", USAGE, "environment", "9", "environments: 1"),
    ("lookup debug --env 9 --node 2", USAGE, "environment", "9", "environments: 1"),
    ("find debug --env 9", USAGE, "environment", "9", "environments: 1"),
    ("compare --env one", USAGE, "--env", "'one'", "--env 1 or 1,2"),
    ("compare --env 1,9", USAGE, "environment", "9", "environments: 1"),
    ("dump --env 9 TOP/new", USAGE, "environment", "9", "environments: 1"),
    ("overrides export --env 9", USAGE, "environment", "9", "--env"),
    ("status --env 9", USAGE, "environment", "9", "`configdb-sync status` lists all"),
    ("runs last --env 9", USAGE, "environment", "9", "`configdb-sync runs` lists them"),
    ("plan --env 9 --from TOP/cloud", ENVIRONMENT, "environment 1 (fact deployment_id)", "not 9", "use --env 1"),
    (f"override --env 1 --level node=2 -r globals -k debug {TRUE}", USAGE, "level", "node", "outermost first: nodes"),
    (f"override --env 1 --level nodes -r globals -k debug {TRUE}", USAGE, "level", "'nodes'", "nodes=46"),
    (f"override --env 1 --level nodes=22 -r globals -k debug {TRUE}", USAGE, "node", "'22'", "did you mean 2?"),
    (f"override --env 1 --level nodes=node-22 -r globals -k debug {TRUE}", USAGE, "name", "'node-22'", "node-2"),
    (f"override --env 1 --node node-22 -k debug {TRUE}", USAGE, "name", "'node-22'", "did you mean node-2"),
    (f"override --env 1 --role computer -k debug {TRUE}", USAGE, "role", "'computer'", "did you mean compute?"),
    (f"{O} --node 2 -k debug {TRUE}", USAGE, "--level", "--node", "name the nodes with"),
    ("get --env 1 --level nodes=22 -r globals -k debug", USAGE, "node", "'22'", "did you mean 2?"),
    ("lookup debug --env 1 --node node-22", USAGE, "node", "'node-22'", "did you mean node-2"),
    ("find debug --env 1 --node 22", USAGE, "node", "'22'", "did you mean 2?"),
    ("find debug --env 1 --node ''", USAGE, "--node", "names no node", "omit it for all"),
    ("compare --env 1 --node 2", USAGE, "--node", "2", "--node 1,2"),
    ("plan --env 1 --from TOP/cloud --node 22", PARTIAL, "node", "22", "give ids or FQDNs"),
    (f"{O} --copy-from 3", USAGE, "globals", "/nodes/3/", "overrides --env 1` lists them"),
    # Data sources and keys
    (f"override --env 1 --level nodes=2 -r global -k debug {TRUE}", USAGE, "data source", "global", "globals?"),
    ("history --env 1 --level nodes=2 -r global", USAGE, "data source", "global", "did you mean globals?"),
    ("set --env 1 -r globls -k x --type int -v 1", USAGE, "data source", "globls", "did you mean globals?"),
    (f"{O[:-10]} {TRUE}", USAGE, "data source", "not named", "--data-source"),
    (f"override --env 1 --level nodes=2 -k debgu {TRUE}", USAGE, "key", "debgu", "did you mean debug?"),
    (f"{O} -k debug. {TRUE}", USAGE, "key", "'debug.'", '["a.b", "c"]'),
    (f"{O} -k '[\"a' {TRUE}", USAGE, "key", '["a', '["DEFAULT/x", "a.b"]'),
    ("get --env 1 --level nodes=2 -r globals -k debgu", USAGE, "key", "debgu", "did you mean debug?"),
    ("lookup debgu --env 1 --node 2", USAGE, "key", "debgu", "did you mean debug?"),
    ("compare --env 1 --key debgu", USAGE, "key", "debgu", "did you mean debug?"),
    ("find a..b --env 1", USAGE, "pattern", "'a..b'", "like debug"),
    ("del --env 1 --level nodes=2 -r globals -k debgu", USAGE, "globals at /nodes/2/", "debgu", "did you mean debug?"),
    ("del --env 1 -r globals", USAGE, "--key", "--all-keys", "all values"),
    ("rm-override --env 1 --level nodes=2 -r globals -k debug", USAGE, "/nodes/2/", "debug", "overrides` lists"),
    (
        "rm-override --env 1 --level nodes=2 -k debug",
        USAGE,
        "debug",
        "in no data source there",
        "overrides --env 1` lists",
    ),
    ("rm-override --env 1 --level nodes=2 --all-keys", USAGE, "data source", "not named", "--data-source"),
    ("rm-override --env 1 -k debug --all-nodes", USAGE, "data source", "not named", "--data-source"),
    ("rm-override --env 1 --level nodes=2 -r globals --all-keys", USAGE, "globals", "/nodes/2/", "overrides` lists"),
    ("rm-override --env 1 -r globals -k debug --all-nodes", USAGE, "standing", "debug of globals", "there are"),
    # Values, types and times
    (f"{O} -k debug --type boolean -v true", USAGE, "--type", "boolean", "'bool'"),
    (f"{O} -k debug --type bool -v yes", USAGE, "bool", "'yes'", "true or false"),
    (f"{O} -k max_pool_size --type int -v 1.5", USAGE, "int", "'1.5'", "such as 5"),
    (f"{O} -k max_pool_size --type str -v many", USAGE, "max_pool_size", "text", "--change-type"),
    (f"{O} -k debug --type json -v '{{a'", USAGE, "json", "'{a'", "texts in quotes"),
    (f"{O} -k debug -v true", USAGE, "type of the value", "missing", "--type null|int"),
    (f"{O} -k debug --type bool", USAGE, "value", "missing", "--value-file"),
    (f"{O} -k debug --type bool --value-file TOP/none", USAGE, "value file", "TOP/none", "--value-file"),
    (f"{O} -k db_password --type str -v {CANARY}", USAGE, "secret", "db_password", "--value-file"),
    (f"{O} -k db_password --type int -v {CANARY}", USAGE, "int", "--value", "such as 5"),
    (f"{O} -k debug {TRUE} --for '8 hours'", USAGE, "--for", "'8 hours'", "8h"),
    (f"{O} -k debug {TRUE} --until yesterday", USAGE, "--until", "'yesterday'", "2026-12-31"),
    (f"{O} -k debug {TRUE} --until 2020-01-01", USAGE, "--until", "'2020-01-01' is in the past", "later time"),
    (f"{O} -k debug {TRUE} --until 2099-01-01 --for 8h", USAGE, "--until", "--for", "one of them"),
    (f"{O} -k debug {TRUE} --all-nodes", USAGE, "--all-nodes", "--level", "one of them"),
    (f"override --env 1 -r globals -k debug {TRUE} --all-nodes --for 8h", USAGE, "--for", "--all-nodes", "--level"),
    (f"{O} --set debug", USAGE, "--set", "KEY=VALUE", "--set nova.debug=true"),
    (f"{O} --set db_password={CANARY}", USAGE, "secret", "db_password", "--value-file"),
    (f"{O} --copy-from 3 --for 8h", USAGE, "--for", "--copy-from", "keep their ends"),
    ("overrides --env 1 --expiring soon", USAGE, "--expiring", "'soon'", "7d"),
    # Files of overrides
    ("overrides apply -f TOP/none.yaml", USAGE, "overrides file", "TOP/none.yaml", "--file"),
    ("overrides apply -f TOP/list.yaml", USAGE, "TOP/list.yaml", "no mapping", "overrides-file.md"),
    ("overrides apply -f TOP/broken.yaml", USAGE, "TOP/broken.yaml", "line 2", "overrides-file.md"),
    ("overrides apply -f TOP/version.yaml", USAGE, "TOP/version.yaml", "version 2", "version 1"),
    ("overrides apply -f TOP/twice.yaml", USAGE, "TOP/twice.yaml", "debug of globals at nodes=2", "one of them"),
    ("overrides apply -f TOP/key-twice.yaml", USAGE, "TOP/key-twice.yaml", "key twice, line 3", ".md"),
    ("overrides apply -f TOP/loop.yaml", USAGE, "entry 1", "nested", "value"),
    ("overrides apply -f TOP/field.yaml", USAGE, "entry 1", "untill", "until"),
    ("overrides apply -f TOP/data-source.yaml", USAGE, "data source", "global", "did you mean globals?"),
    ("overrides apply -f TOP/key.yaml", USAGE, "key", "debgu", "did you mean debug?"),
    ("overrides apply -f TOP/node.yaml", USAGE, "node", "'22'", "did you mean 2?"),
    ("overrides apply -f TOP/type.yaml", USAGE, "debug", "text", "--change-type"),
    ("overrides apply -f TOP/variable.yaml", USAGE, "debug of globals", "NOT_SET", "set it"),
    ("overrides apply -f TOP/reference.yaml", USAGE, "file of a reference", "TOP/none.txt", "{file: ...}"),
    ("overrides apply -f TOP/reference-type.yaml", USAGE, "debug of globals at nodes=2", "int", "type"),
    ("overrides apply -f TOP/secret.yaml", USAGE, "TOP/secret.txt", "mode 0644", "chmod 0600 TOP/secret.txt"),
    ("overrides apply -f TOP/until.yaml", USAGE, "until", "'tomorrow'", "2026-12-31"),
    ("overrides apply -f TOP/no-environment.yaml", USAGE, "overrides file", "no environment", "--env"),
    ("overrides apply -f TOP/ok.yaml --env 2", USAGE, "environment 1", "--env is 2", "omit one of them"),
    ("overrides export --env 1 -o TOP/no/x.yaml", USAGE, "TOP/no/x.yaml", "No such file", "--output"),
    # Versions, runs, digests
    (
        "diff --env 1 --level nodes=2 -r globals --values --old 7",
        USAGE,
        "globals at /nodes/2/",
        "version 7",
        "kept: 1",
    ),
    ("diff --env 1 --level nodes=2 -r globals --old x", USAGE, "--old", "'x'", "diff --help"),
    ("revert --env 1 --level nodes=2 -r globals --to 7", USAGE, "overrides of globals", "version 7", "history"),
    ("revert --env 1 --level nodes=2 -r globals", USAGE, "globals at /nodes/2/", "no versions", "kept: none"),
    ("runs abc", USAGE, "run", "'abc'", "`configdb-sync runs` lists them"),
    ("approve xyz", Exit.UNSAFE, "digest", "'xyz'", "12 digits"),
    ("sync --env 1 --from TOP/cloud --digest 123", Exit.CHANGED, "digest", "123", "`configdb-sync plan`"),
    ("sync --env 1 --from TOP/cloud --force 123", Exit.UNSAFE, "digest", "123", "without --force"),
    # Files and folders of other commands
    ("plan --env 1 --from TOP/no", USAGE, "TOP/no", "No such file", "node-<id>/etc/hiera"),
    ("gc --env 1 --from TOP/no", USAGE, "TOP/no", "No such file", "node-<id>/etc/hiera"),
    ("gc --env 1", USAGE, "source", "of the nodes", "--from DIR"),
    ("lookup debug --env 1 --node 2 --hiera-yaml TOP/list.yaml", USAGE, "--hiera-yaml", "TOP/list.yaml", "node's"),
    ("plan --env 1 --from TOP/cloud --report TOP/x.xml", USAGE, "report", "x.xml", ".json, .md or .txt"),
    ("plan --env 1 --from TOP/cloud --report TOP/no/x.txt", USAGE, "report", "TOP/no/x.txt", "--report"),
    ("plan --env 1 --from nailgun", USAGE, "Nailgun's address", "not set", "--nailgun"),
    ("plan --env 1 --from mcollective --mco-config TOP/client.cfg", USAGE, "TOP/client.cfg", "'activemq'", "rabbitmq"),
    ("status --html /dev/null/x.html", USAGE, "page", "/dev/null/x.html", "--html"),
    ("dump --env 1 TOP/cloud", USAGE, "TOP/cloud", "isn't empty", "new folder"),
    ("load TOP/cloud", USAGE, "TOP/cloud", "environment.json", "`configdb-sync dump`"),
    ("load TOP/dump", PARTIAL, "TOP/dump/environment.json", "JSON", "`configdb-sync dump`"),
    ("backup TOP/ok.yaml", USAGE, "TOP/ok.yaml", "there already", "another file"),
    ("restore TOP/list.yaml", USAGE, "state", "configdb.sqlite", "--replace"),
    ("restore TOP/list.yaml --replace", USAGE, "backup", "TOP/list.yaml", "name another backup"),
    ("restore TOP/backup-open.tgz --replace", USAGE, "backup", "mode 0644", "chmod 0600 TOP/backup-open.tgz"),
    # Settings: options, variables, files
    ("sync --env 1 --from TOP/cloud --parallel 0", USAGE, "--parallel", "'0'", "1 to 64"),
    ("sync --env 1 --from TOP/cloud --unsafe-share 50%", USAGE, "--unsafe-share", "'50%'", "0 to 1"),
    ("sync --env 1 --from TOP/cloud --time-limit 5m", USAGE, "--time-limit", "'5m'", "1 to 86400"),
    ("sync --env 1 --from TOP/cloud --levels nodes", USAGE, "--levels", "'nodes'", "outermost first"),
    ("sync --env 1 --from TOP/cloud --levels nodes=%{uid", USAGE, "levels", "nodes=%{uid", "nodes=%{uid}"),
    ("sync --env 1 --from TOP/cloud --writable etc", USAGE, "--writable", "'etc'", "absolute paths"),
    ("doctor --configdb embeded", USAGE, "--configdb", "'embeded'", "embedded, catalog"),
    (f"doctor --configdb http://u:{CANARY}@h", USAGE, "--configdb", "not shown", "without credentials"),
    (f"{STATUS} --database mysql://u:{CANARY}@h/d", USAGE, "database", "mysql", "sqlite:// or postgresql://"),
    (f"{STATUS} --configdb-database sqlite:///TOP/no-database", USAGE, "TOP/no-database", "not a database", "URL"),
    (f"{STATUS} --key-file TOP/none", USAGE, "key file", "TOP/none", "keys make"),
    (f"{STATUS} --key-file TOP/key-file", USAGE, "key file", "line 1", "your copy"),
    (f"{ENVIRON_PREFIX}TENNANT=a {STATUS}", USAGE, "variable", "TENNANT'", "is CONFIGDB_SYNC_TENANT"),
    (f"CONFIGDB_SYNC_KEEP_VERSIONS=0 {STATUS}", USAGE, "CONFIGDB_SYNC_KEEP_VERSIONS", "'0'", "1 to 100000"),
    (f"CONFIGDB_SYNC_SETTINGS=TOP/none {STATUS}", USAGE, "settings file", "TOP/none", "--settings"),
    (f"{STATUS} --settings TOP/broken.yaml", USAGE, "TOP/broken.yaml", "line 2", "`name: value`"),
    (f"{STATUS} --settings TOP/list.yaml", USAGE, "TOP/list.yaml", "no mapping", "`name: value`"),
    (f"{STATUS} --settings TOP/settings-open.yaml", USAGE, "TOP/settings-open.yaml", "mode 0644", "chmod 0600"),
    (f"{STATUS} --settings TOP/settings-twice.yaml", USAGE, "settings-twice", "tenant twice, at line 2", "remove one"),
    (f"{STATUS} --settings TOP/settings-unknown.yaml", USAGE, "unknown setting", "'paralel'", "is parallel meant?"),
    (f"{STATUS} --settings TOP/settings-value.yaml", USAGE, "settings-value", "'many'", "1 to 100000"),
    (f"{STATUS} --settings TOP/settings-login.yaml", USAGE, "settings-login", "login", "password"),
    (f"{STATUS} --state TOP/cloud", USAGE, "state folder", "TOP/cloud", "chmod 0700 TOP/cloud"),
    (f"{STATUS} --state /dev/null/x", USAGE, "state folder", "/dev/null/x", "--state DIR"),
    # The way to ConfigDB
    (f"{SERVER} get --env 1 -r globals", Exit.CONFIGDB, "http://127.0.0.1:9/", "Connection refused", "is it running"),
    (f"{SERVER} get --env 1 -r globals --configdb-token-file TOP/none", USAGE, "token_file", "TOP/none", "a file"),
    (f"{SERVER} get --env 1 -r globals --configdb-token-file TOP/token-open", USAGE, "token", "0644", "chmod 0600"),
    (
        f"{SERVER} get --env 1 -r globals --configdb-token-file TOP/token-two-words",
        USAGE,
        "token",
        "two-words",
        "one line",
    ),
    ("CONFIGDB_SYNC_CONFIGDB=catalog get --env 1 -r globals", USAGE, "Keystone", "address", "OS_AUTH_URL"),
]


@pytest.fixture(scope="module")
def top(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the rows."""
    found = tmp_path_factory.mktemp("mistakes")
    shutil.copytree(CLOUD, found / "cloud")
    (found / "cloud").chmod(0o755)
    for name, (text, mode) in FILES.items():
        path = found / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
    return found


@pytest.fixture(scope="module")
def shared(top: Path) -> Iterator[Product]:
    """Environment 1 with its three nodes, which no row changes."""
    with pytest.MonkeyPatch.context() as patch:
        product = make_product(top / "state", patch)
        assert product("sync", "--env", 1, "--from", top / "cloud").code == Exit.OK
        yield product


def run(product: Product, top: Path, line: str) -> Result:
    """Run a row's command line; its error is shown with ``TOP`` for the folder."""
    words = shlex.split(line.replace("TOP", str(top)))
    if "--state" in words:
        place = words.index("--state")
        product = dataclasses.replace(product, state=Path(words[place + 1]))
        del words[place : place + 2]
    with pytest.MonkeyPatch.context() as patch:
        while "=" in words[0]:
            patch.setenv(*words.pop(0).split("=", 1))
        done = product(*words)
    return Result(done.code, done.out.replace(str(top), "TOP"), done.err.replace(str(top), "TOP"))


def check(done: Result, code: Exit, parts: tuple[str, ...]) -> None:
    """Assert that an error has these parts, no secret, and the form of an error."""
    said = done.out + done.err
    assert done.code == code, said
    assert [part for part in parts if part not in said] == [], said
    assert CANARY not in said
    assert code in {PARTIAL, ENVIRONMENT} or re.match("configdb-sync: .*\n$|Usage: (.*\n)*\nError: .*\n$", done.err), (
        said
    )


@pytest.mark.parametrize(("line", "code", "thing", "value", "way_out"), MISTAKES, ids=[row[0][:70] for row in MISTAKES])
def test_a_mistake_names_the_thing_the_value_and_the_way_out(
    shared: Product, top: Path, line: str, code: Exit, thing: str, value: str, way_out: str
) -> None:
    shared.changing()
    check(run(shared, top, line), code, (thing, value, way_out))
    assert [request for request in shared.changing() if not request.path.endswith("/revert")] == []


@pytest.mark.parametrize(
    ("status", "code", "parts"),
    [
        (401, Exit.ACCESS, ("GET embedded:/environments/1", "401", "token")),
        (403, Exit.ACCESS, ("GET embedded:/environments/1", "403", "token")),
    ],
)
def test_a_refused_login_says_what_to_check(
    shared: Product, top: Path, status: int, code: Exit, parts: tuple[str, ...]
) -> None:
    def refuse(_: HttpRequest) -> HttpAnswer:
        return HttpAnswer(status, {"content-type": "text/plain"}, b"no")

    shared.fault = refuse
    try:
        check(run(shared, top, "get --env 1 -r globals"), code, parts)
    finally:
        shared.fault = None


MEANT = [
    ("--level nodes=2 -r globals -k debgu", "--new-key", "key debgu in globals", "did you mean debug?"),
    ("--level nodes=2 -r astute -k keystone.admin_tokn", "--new-key", "keystone.admin_tokn", "keystone.admin_token"),
    ("--level nodes=2 -r globals -k libvirt_type", "--new-key", "libvirt_type", "astute has it"),
    ("--all-nodes -r globals -k debgu", "--new-key", "debgu", "did you mean debug?"),
    ("--level nodes=2 -r globals -k max_pool_size", "--change-type", "integer", "boolean"),
    ("--level nodes=2 -r globals -k cinder_rate_limits", "--change-type", "mapping", "boolean"),
    ("-r globals -k apache_ports", "--change-type", "list", "boolean"),
    ("--level nodes=4 -r globals -k debug", "--new-node", "no node '4'", "known are 1, 2, 3"),
]


@pytest.mark.parametrize(("where", "let_through", "thing", "hint"), MEANT, ids=[row[0] for row in MEANT])
def test_an_override_that_looks_like_a_mistake_is_refused(
    shared: Product, top: Path, where: str, let_through: str, thing: str, hint: str
) -> None:
    """U25: refused with exit code 2, nothing changes, close matches are named, and an option lets it through."""
    others = {"--new-key", "--new-node", "--change-type"} - {let_through}
    shared.changing()
    for more in ("", *sorted(others)):
        check(run(shared, top, f"override --env 1 {where} {TRUE} {more}"), USAGE, (thing, hint, let_through))
    assert shared.changing() == []


def test_an_override_is_let_through_if_it_is_meant(product: Product, top: Path) -> None:
    assert product("sync", "--env", 1, "--from", top / "cloud").code == Exit.OK
    for where, let_through, *_ in MEANT:
        done = run(product, top, f"override --env 1 {where} {TRUE} {let_through}")
        assert done.code == Exit.OK, done.err
