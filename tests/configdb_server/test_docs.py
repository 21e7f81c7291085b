"""Every endpoint, header and option of the server is documented."""

from __future__ import annotations

import re
from pathlib import Path

from configdb_sync.cli.serve import serve
from configdb_sync.configdb_server import app, messages

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_every_endpoint_is_in_the_table() -> None:
    table = (DOCS / "configdb-api.md").read_text("utf-8")
    for path, methods in app._TABLE.items():
        url = re.sub(r"<any\([a-z,]+\):operation>", "{operation}", path)
        url = url.replace("<id_or_name:level>", "{id or name}")
        url = re.sub(r"<number:\w+>", "{id}", url)
        for method in methods:
            assert re.search(rf"^\| `[^|]*\b{method}\b[^|]*{re.escape(url)}`", table, re.MULTILINE), (method, url)
    for text in ("etags", "/environments/{id}/overrides", "/values/history", "/revert`", "/overrides/keys/{operation}"):
        assert text in table


def test_every_header_is_there() -> None:
    text = (DOCS / "configdb-api.md").read_text("utf-8")
    for name in (
        messages.AUTHOR_HEADER,
        messages.RUN_HEADER,
        messages.COMMENT_HEADER,
        "X-Configdb-Version",
        "Server-Product",
    ):
        assert name in text


def test_every_option_is_in_the_operators_page() -> None:
    text = (DOCS / "operations.md").read_text("utf-8")
    for option in serve.params:
        assert any(f"`{name}" in text for name in option.opts), option.opts
