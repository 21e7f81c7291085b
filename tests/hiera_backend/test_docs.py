"""``docs/hiera.md`` is complete and true: every setting, and examples that work as they are printed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

import configdb_sync
from tests.hiera_backend.backend import MODULES, ROOT, Driver, private

TEXT = (ROOT / "docs/hiera.md").read_text(encoding="utf-8")
NONE = {"none", "must be given", "the system's"}


def test_every_setting_is_in_the_table_with_its_default(ruby: Driver) -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", TEXT.split("\n## Settings\n")[1], flags=re.MULTILINE)
    defaults = ruby.ok("defaults")
    assert [name for name, _ in rows] == list(defaults)
    for name, said in rows:
        if said in NONE or name in {"cache", "datadir"}:
            assert defaults[name] in (None, [], {}), name
        else:
            assert yaml.safe_load(said.strip("`")) == defaults[name] or said.strip("`") == defaults[name], name


def test_the_module_has_the_products_version() -> None:
    found = json.loads((MODULES / "configdb/metadata.json").read_text())
    assert found["version"] == configdb_sync.__version__


def blocks() -> list[Any]:
    found = re.findall(r"```yaml\n(.*?)```", TEXT, flags=re.DOTALL)
    return [yaml.safe_load(block) for block in found]


def test_the_examples(ruby: Driver, tmp_path: Path) -> None:
    settings, third, fifth, options = blocks()
    found = ruby.ok("settings", settings=str(private(tmp_path / "hiera.yaml", yaml.safe_dump(settings))))
    assert found["levels"] == [["nodes", "3"]]
    assert third[":backends"] == ["configdb"]
    (entry,) = fifth["hierarchy"]
    source = (MODULES / "configdb/lib/puppet/functions/configdb/data.rb").read_text()
    for name in (*entry["options"], *options["options"]):
        assert f"Optional[{name}]" in source
    assert entry["data_hash"] == "configdb::data"
    assert (MODULES / "configdb/lib/hiera/backend/configdb_backend.rb").is_file()
