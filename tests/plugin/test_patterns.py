"""F3: a field's pattern lets the same values through in the Fuel UI (JavaScript) and in Nailgun (Python)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from configdb_sync.errors import SettingsError
from configdb_sync.plugin.fuel_settings import layer
from configdb_sync.settings import read_settings
from tests.peers import browser

ROOT = Path(__file__).resolve().parents[2]
ATTRIBUTES: dict[str, Any] = yaml.safe_load((ROOT / "environment_config.yaml").read_text(encoding="utf-8"))[
    "attributes"
]
PATTERNS = {name: one["regex"]["source"] for name, one in ATTRIBUTES.items() if "regex" in one}
GOOD = {
    "configdb_url": ["https://a:1/x"],
    "auth_url": ["", "http://10.20.0.2:5000"],
    "username": ["", "lcm"],
    "password": ["", "x", "a b", "p$ss'\"\\\\^", "\u2211"],
    "project": ["services", "a b"],
    "region": ["", "RegionOne"],
    "ca_file": ["", "/etc/a b.pem"],
    "tenant": ["a", "\u2211\u221e", "Bob's Tenant"],
    "parallel": ["1", "64"],
    "unsafe_share": ["0", "0.5", "1.0"],
    "page_url": ["", "https://a"],
    "hiera_username": ["", "reader"],
    "hiera_password": ["", "a b"],
}
ODD = ["\n", "\r", "\r\n", "\t", "\0", "\x1b", "\x7f", " ", "{", "}"]
SAMPLES = {
    name: [
        *good,
        *(f"{text}{odd}" for text in good if text for odd in ODD),
        *(f"{odd}{text}" for text in good if text for odd in ODD),
        *(f"{text[:1]}\n{text[1:]}" for text in good if text),
        "\n",
    ]
    for name, good in GOOD.items()
}


def test_every_text_field_has_a_pattern_that_is_anchored() -> None:
    texts = {name for name, one in ATTRIBUTES.items() if one.get("type") in {"text", "password"}}
    assert texts == PATTERNS.keys() == GOOD.keys()
    for name, pattern in PATTERNS.items():
        assert pattern.startswith("^"), name
        assert pattern.endswith(r"(?![\s\S])"), name
        # A bar outside of brackets would leave an end without its anchor.
        assert re.sub(r"\((?:[^()]|\([^()]*\))*\)", "", pattern).count("|") == 0, name


@pytest.mark.parametrize("name", PATTERNS)
def test_only_whole_values_pass_in_nailgun(name: str) -> None:
    passed = [text for text in SAMPLES[name] if re.compile(PATTERNS[name]).search(text)]
    assert passed == GOOD[name]
    for text in passed:
        more = {"configdb": "url", "configdb_url": "https://x"}
        read_settings({}, {}, None, [layer("here", more | {name: text}, {}, None)] if text else [])


@pytest.mark.parametrize("name", sorted(GOOD.keys() - {"hiera_username", "hiera_password"}))
def test_what_passes_by_the_api_is_trimmed_or_refused(name: str) -> None:
    """Nailgun checks no hidden field, so what its patterns refuse may come all the same."""
    for text in SAMPLES[name]:
        more = {"configdb": "url", "configdb_url": "https://x"}
        try:
            found = read_settings({}, {}, None, [layer("here", more | {name: text}, {}, None)])
        except SettingsError as error:
            assert f"here: {name} is" in str(error) or (name, text.strip()) == ("configdb_url", "")  # noqa: PT017
        else:
            values = [found.configdb, found.tenant, found.page_url or "", *found.login.values()]
            assert not any(set(value) & set("\r\n\t\0\x1b") for value in values)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    reason = browser.unavailable()
    if reason:
        pytest.skip(reason)
    with browser.running(tmp_path_factory.mktemp("profile")) as found:
        yield found


def test_only_whole_values_pass_in_the_browser(driver: Any) -> None:
    for name, pattern in PATTERNS.items():
        script = "return arguments[1].filter(text => new RegExp(arguments[0]).test(text))"
        assert driver.execute_script(script, pattern, SAMPLES[name]) == GOOD[name], name
