"""Which data sources there are: the defaults of each layout, changed by the setting ``data_sources`` (U7, F4).

The default hierarchies are those of the ``hiera.yaml`` of Fuel 9.0 to 11.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from configdb_sync.errors import SettingsError
from configdb_sync.hiera.data_sources import DataSource, problem_of_name, problem_of_path
from configdb_sync.hiera.layouts import Layout
from configdb_sync.jsonvalues import Json


def _hierarchy(*base: str) -> tuple[DataSource, ...]:
    entries: tuple[str | tuple[str, str], ...] = (
        "plugins/*",
        ("override/node", "override/node/%{fqdn}"),
        "override/class/*",
        "override/module/*",
        "override/plugins",
        "override/common",
        "override/configuration",
        ("override/configuration/node", "override/configuration/%{fqdn}"),
        "override/configuration/role",
        "override/configuration/cluster",
        "override/configuration/default_route",
        "override/configuration/remove_ovs_usage",
        ("override/hostname", "override/%{hostname}"),
        "class/*",
        "module/*",
        "deleted_nodes",
        "nodes",
        "old_admin_user",
        "globals",
        *base,
    )
    return tuple(DataSource(*entry) if isinstance(entry, tuple) else DataSource(entry, entry) for entry in entries)


DEFAULT: Mapping[Layout, tuple[DataSource, ...]] = {
    Layout.FUEL9: _hierarchy("astute"),
    Layout.FUEL10: _hierarchy("node", "cluster"),
}
"""The data sources of each layout, in Hiera's order.

Two are the source document's (``docs/decisions/which-files-are-data-sources.md``): ``override/configuration``, a folder
on nodes, and ``override/hostname`` for ``override/<hostname>.yaml``.
"""

_FORMS = 'an entry is a name, "name=path", {"name": ..., "path": ...}, a family "folder/*", or "-name"'
_KNOWN = frozenset(source.name for sources in DEFAULT.values() for source in sources)


def parse_entries(entries: Sequence[Json], base: Sequence[DataSource]) -> tuple[DataSource, ...]:
    """Return the data sources of ``base`` with the entries applied in order.

    A name alone is its own path. An existing name keeps its place and gets the new path. ``-name`` removes one; it may
    name a default data source of the other layout, as one setting serves both. Raises ``SettingsError`` that names the
    entry if it is malformed, gives a name two paths or a path two names, or has a name that ConfigDB can't have.
    """
    check_entries(entries)
    sources = {source.name: source for source in base}
    for entry in entries:
        name = _taken_out(entry)
        if name is not None:
            if name not in sources and name not in _KNOWN:
                raise _bad(entry, f"there is no data source {name!r} to take out")
            sources.pop(name, None)
            continue
        source = _parse(entry)
        sources[source.name] = source
        _check_alone(entry, source, sources)
    return tuple(sources.values())


def check_entries(entries: Sequence[Json]) -> None:
    """Raise ``SettingsError`` for entries that are wrong whatever data sources they are applied to."""
    if isinstance(entries, (str, Mapping)):
        raise SettingsError(f"data_sources is no list: {_shown(entries)}", way_out=_FORMS)
    given: dict[str, str] = {}
    for entry in entries:
        if _taken_out(entry) is None:
            source = _parse(entry)
            if given.setdefault(source.name, source.path) != source.path:
                raise _bad(entry, f"{source.name} has the path {given[source.name]} by an entry before it")


def _taken_out(entry: Json) -> str | None:
    text = entry.strip() if isinstance(entry, str) else ""
    return text[1:].strip() if text.startswith("-") else None


def _parse(entry: Json) -> DataSource:
    name, path = _name_and_path(entry)
    problem = problem_of_path(path)
    if problem:
        raise _bad(entry, f"the path {problem}")
    source = DataSource(name, path)
    if source.is_family:
        if name != path:
            raise _bad(entry, "a family is named by its path, and its members by theirs")
        return source
    if "%{" in name:
        raise _bad(entry, "a path with placeholders needs a name: name=path")
    if name.startswith("-") or "*" in name:
        raise _bad(entry, "a name neither begins with - nor holds a *")
    problem = problem_of_name(name)
    if problem:
        raise _bad(entry, f"the name {problem}")
    return source


def _name_and_path(entry: Json) -> tuple[str, str]:
    if isinstance(entry, str):
        name, equals, path = (part.strip() for part in entry.partition("="))
        return (name, path) if equals else (name, name)
    if isinstance(entry, Mapping) and "name" in entry and entry.keys() <= {"name", "path"}:
        name, path = entry["name"], entry.get("path", entry["name"])
        if isinstance(name, str) and isinstance(path, str):
            return name, path
    raise _bad(entry, "it has none of the forms")


def _check_alone(entry: Json, source: DataSource, sources: Mapping[str, DataSource]) -> None:
    for other in sources.values():
        if other is not source and str(other.template) == str(source.template):
            raise _bad(entry, f"{other.name} has the same path; take it out with -{other.name}")


def _bad(entry: Json, why: str) -> SettingsError:
    return SettingsError(f"data_sources has a bad entry {_shown(entry)}: {why}", way_out=_FORMS)


def _shown(entry: Json) -> str:
    text = ascii(entry)
    return text if len(text) <= 120 else text[:117] + "..."
