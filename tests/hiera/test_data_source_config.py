"""The setting ``data_sources`` (U7)."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configdb_sync.errors import SettingsError
from configdb_sync.hiera.data_source_config import DEFAULT, parse_entries
from configdb_sync.hiera.data_sources import DataSource, problem_of_name, problem_of_path
from configdb_sync.hiera.layouts import Layout
from configdb_sync.jsonvalues import Json

BASE = (
    DataSource("plugins/*", "plugins/*"),
    DataSource("override/node", "override/node/%{fqdn}"),
    DataSource("globals", "globals"),
)


def names(sources: Sequence[DataSource]) -> list[str]:
    return [source.name for source in sources]


def test_no_entries_leave_the_defaults() -> None:
    assert parse_entries([], BASE) == BASE


def test_each_form_adds_to_the_defaults() -> None:
    found = parse_entries(
        [
            "extra",
            "mine=override/mine/%{::uid}",
            {"name": "a=b", "path": "odd/a=b"},
            {"name": "plain"},
            "more/*",
            " spaced = s/t ",
        ],
        BASE,
    )
    assert found == (
        *BASE,
        DataSource("extra", "extra"),
        DataSource("mine", "override/mine/%{::uid}"),
        DataSource("a=b", "odd/a=b"),
        DataSource("plain", "plain"),
        DataSource("more/*", "more/*"),
        DataSource("spaced", "s/t"),
    )


def test_a_minus_takes_one_out_a_family_too() -> None:
    assert names(parse_entries(["-globals", "-plugins/*"], BASE)) == ["override/node"]


def test_one_setting_serves_both_layouts() -> None:
    assert parse_entries(["-cluster"], DEFAULT[Layout.FUEL9]) == DEFAULT[Layout.FUEL9]
    assert "cluster" not in names(parse_entries(["-cluster"], DEFAULT[Layout.FUEL10]))


def test_a_known_name_keeps_its_place_and_takes_the_new_path() -> None:
    assert parse_entries(["override/node=nodes/%{uid}"], BASE)[1] == DataSource("override/node", "nodes/%{uid}")


def test_a_path_can_be_given_another_name_once_its_own_is_taken_out() -> None:
    assert parse_entries(["-globals", "all=globals"], BASE)[-1] == DataSource("all", "globals")


def test_the_same_entry_twice_is_one() -> None:
    assert parse_entries(["extra", "globals", "extra"], BASE) == (*BASE, DataSource("extra", "extra"))


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        ("", "the path is no path"),
        ("=", "the path is no path"),
        ("a=", "the path is no path"),
        ("=a", "the name is empty"),
        ("-", "no data source '' to take out"),
        ("-globls", "no data source 'globls' to take out"),
        ("/etc/hiera/globals", "the path is no path below /etc/hiera"),
        ("../secret", "the path is no path"),
        ("a//b", "the path is no path"),
        ("globals.yaml", "the path ends in .yaml"),
        ("a\x00b", "control characters"),
        ("a\\b", "backslash"),
        ("override/%{fqdn}", "a path with placeholders needs a name"),
        ("x=override/%{fqdn", "a placeholder isn't closed"),
        ("x=%{hiera('y')}", "no variable"),
        ("p=plugins/*", "a family is named by its path"),
        ("a*b", "has a * in another place"),
        ("*/a", "has a * in another place"),
        ("a/*/*", "has a * in another place"),
        ("%{uid}/*", "a family with a placeholder"),
        ("/*", "the path is no path"),
        ("2", "the name reads as a number"),
        ("+1_0=ten", "the name reads as a number"),
        ("٣", "the name reads as a number"),
        ("records", "the product's own records"),
        ("action/move", "ends in action/move"),
        ("x/action/move=x", "ends in action/move"),
        ("n" * 129 + "=n", "longer than 128"),
        ("all=globals", "globals has the same path"),
        ("mine=override/node/%{::fqdn}", "override/node has the same path"),
        (5, "none of the forms"),
        (None, "none of the forms"),
        (["globals"], "none of the forms"),
        ({}, "none of the forms"),
        ({"path": "x"}, "none of the forms"),
        ({"name": "x", "file": "y"}, "none of the forms"),
        ({"name": 5}, "none of the forms"),
        ({"name": "x", "path": None}, "none of the forms"),
        ({"name": "-x", "path": "x"}, "neither begins with -"),
        ({"name": "a*", "path": "x"}, "nor holds a *"),
        ({"name": "\ud800", "path": "x"}, "control characters"),
    ],
)
def test_a_bad_entry_is_named_with_its_fault_and_the_forms(entry: Json, why: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(why)) as caught:
        parse_entries([entry], BASE)
    text = str(caught.value)
    assert ascii(entry)[:100] in text
    assert 'an entry is a name, "name=path"' in text
    assert len(text) < 500


def test_two_paths_for_one_name_are_refused() -> None:
    with pytest.raises(SettingsError, match="x has the path a by an entry before it"):
        parse_entries(["x=a", "x=b"], BASE)


@pytest.mark.parametrize("entries", ["globals", {"globals": "x"}])
def test_what_is_no_list_is_refused(entries: Json) -> None:
    with pytest.raises(SettingsError, match="data_sources is no list"):
        parse_entries(entries, BASE)


@given(st.lists(st.text(max_size=12) | st.sampled_from(["-globals", "x=y/%{uid}", "q/*", "*"]) | st.none(), max_size=6))
def test_any_entries_give_sound_data_sources_or_a_settings_error(entries: list[Json]) -> None:
    try:
        found = parse_entries(entries, BASE)
    except SettingsError:
        return
    assert len(set(names(found))) == len(found)
    assert len({str(source.template) for source in found}) == len(found)
    for source in found:
        assert problem_of_path(source.path) is None
        assert source.is_family or problem_of_name(source.name) is None


RUBY = Path(__file__).resolve().parents[2] / "deployment_scripts/puppet/configdb/lib/configdb_hiera"


def ruby_words(file: str, constant: str) -> list[str]:
    """Return the words of a ``%w[...]`` in a file of the Hiera backend."""
    found = re.search(rf"\b{constant} = %w\[([^\]]*)\]", (RUBY / file).read_text(encoding="utf-8"))
    assert found is not None
    return found[1].split()


def test_the_hiera_backend_has_the_same_names() -> None:
    """``names.rb`` holds the paths with placeholders, and every name that these would give to another data source."""
    sources = {source.name: source.path for source in (*DEFAULT[Layout.FUEL9], *DEFAULT[Layout.FUEL10])}
    ruby = re.findall(r"^ +'(.+)' => '(.+)',?$", (RUBY / "names.rb").read_text(encoding="utf-8"), re.MULTILINE)
    patterns = {re.sub(r"%\{[^}]*\}", "*", path): name for name, path in sources.items() if "%{" in path}
    assert dict(ruby) == patterns

    def elsewhere(name: str) -> bool:
        return any(
            other != name and re.fullmatch(re.escape(pattern).replace(r"\*", "[^/]+"), name)
            for pattern, other in patterns.items()
        )

    literal = ruby_words("names.rb", "LITERAL")
    assert sorted(literal) == sorted(name for name in sources if elsewhere(name))


def test_the_hiera_backend_knows_the_same_base_files() -> None:
    """``setup/node.rb`` merges the base files in the other order: the last one wins there."""
    text = (RUBY / "setup/node.rb").read_text(encoding="utf-8")
    layouts = re.search(r"LAYOUTS = \[(.+)\]\.freeze", text)
    assert layouts is not None
    files = [words.split() for words in re.findall(r"%w\[([^\]]*)\]", layouts[1])]
    assert files == [[path.removesuffix(".yaml") for path in reversed(layout.base_files)] for layout in Layout]
    for layout in Layout:
        names = {source.name for source in DEFAULT[layout]}
        assert set(ruby_words("setup/node.rb", "FILES")) < names
