"""U15, F4: Fuel's nodes have Hiera 1 and Ruby 1.9 to 2.3, which can't be had here: what can be held of them is."""

from __future__ import annotations

import re
from pathlib import Path

from tests.hiera_backend.backend import HERE, LIBRARY, ROOT, require, run_ruby, settings
from tests.hiera_backend.servers import Server

# Of Ruby 2.0 and later, as far as one would use it by habit.
NEWER = re.compile(
    r"&\.\w|(?<![-\w])->|<<~|%i\[|\brequire_relative\b|[({,]\s*[a-z_]\w*: (?!:)|"
    r"\.(sum|then|dig|to_h|filter_map|match\?|delete_prefix|delete_suffix|unpack1|transform_\w+|yield_self|lazy|b|itself"
    r"|positive\?|negative\?|min_by!|clamp|each_entry|tally|compact!?\?|freeze\?|byteslice|scrub|bsearch|sum!?)\b(?!=)"
)


def code(text: str) -> str:
    """Without comments, texts and expressions."""
    lines = [re.sub(r"(?<!\S)#.*$", "", line) for line in text.splitlines()]
    return re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|%r\{.*?\}", "''", "\n".join(lines))


def test_nothing_newer_than_ruby_1_9_is_used() -> None:
    files = [*(ROOT / "deployment_scripts").rglob("*.rb"), ROOT / "deployment_scripts/hiera_backend"]
    files = [path for path in files if "functions" not in path.parts]  # Puppet 4 brings a newer one
    assert len(files) > 15
    for path in files:
        found = NEWER.search(code(path.read_text(encoding="utf-8")))
        assert found is None, f"{path.name}: {found[0]}"
    assert NEWER.search(code("a&.b"))
    assert NEWER.search(code("x = {a: 1}"))


def test_as_hiera_1_calls_it(server: Server, tmp_path: Path) -> None:
    require("ruby")
    (tmp_path / "hiera").mkdir()
    (tmp_path / "hiera/class.yaml").write_text("own: yes\nnova: {workers: 1, own: 2}\n")
    file = settings(tmp_path, url=server.url, levels="nodes=%{uid}")
    asked = {"settings": str(file), "levels": ["class", "globals", "astute"], "datadir": str(tmp_path / "hiera")}
    found = run_ruby(HERE / "hiera1.rb", asked, "-I", str(LIBRARY))
    assert found == {
        "debug": True,
        "all": [[1, 2.5]],
        "nova": {"workers": 1, "own": 2, "password": "CANARY"},
        "first": False,
        "file": True,
        "nothing": None,
    }
