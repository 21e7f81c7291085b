"""Data sources: their names and paths, and which file each is on one node (U7): one to one, and reversible."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from configdb_sync.errors import NodeFileError
from configdb_sync.hiera import path_template
from configdb_sync.hiera.path_template import Template
from configdb_sync.jsonvalues import Json
from configdb_sync.names import NAME_LIMIT, RECORDS

SUFFIX = ".yaml"
_MOVE = "action/move"


@dataclass(frozen=True)
class DataSource:
    """One data source, or a family of them.

    ``path`` is below ``/etc/hiera``, without ``.yaml``, with placeholders (``override/node/%{fqdn}``). A
    family has the same name and path, ``plugins/*``: every file right in that folder is a data source whose
    name is its path.
    """

    name: str
    path: str

    @property
    def is_family(self) -> bool:
        """Whether it stands for every file of a folder."""
        return self.path == "*" or self.path.endswith("/*")

    @property
    def folder(self) -> str:
        """The folder of a family, ``plugins`` for ``plugins/*``, empty for ``*``."""
        return self.path[:-2]

    @property
    def template(self) -> Template:
        """The parts of ``path``. Raises ValueError as ``path_template.parse`` does."""
        return path_template.parse(self.path)


def problem_of_name(name: str) -> str | None:
    """Return why ConfigDB, the tenant API or our records can't have a data source of that name, or None.

    ConfigDB's URLs would take a name of digits for an id; the tenant API's would take one that ends in
    ``action/move`` for a move (T1).
    """
    return _first(
        (_has_odd_step(name.split("/")), "is empty, or has an empty or dotted step"),
        (len(name) > NAME_LIMIT, f"is longer than {NAME_LIMIT} characters"),
        (_has_odd_characters(name), "holds control characters or a backslash"),
        (_reads_as_integer(name), "reads as a number, which ConfigDB takes for an id"),
        (name == _MOVE or name.endswith("/" + _MOVE), f"ends in {_MOVE}, which is a call of the tenant API"),
        (name == RECORDS, "is the name of the product's own records"),
    )


def problem_of_path(path: str) -> str | None:
    """Return why ``path`` can't be the path of a data source, family or not; None if it can."""
    family = DataSource(path, path).is_family
    steps = path.split("/")[:-1] if family else path.split("/")
    problem = _first(
        (_has_odd_step(steps), "is no path below /etc/hiera"),
        (_has_odd_characters(path), "holds control characters or a backslash"),
        (any("*" in step for step in steps), "has a * in another place than at the end, after a folder"),
        (path.endswith(SUFFIX), f"ends in {SUFFIX}, which is added to it"),
        (family and "%{" in path, "is a family with a placeholder; families are plain folders"),
    )
    if problem is None:
        try:
            path_template.parse(path)
        except ValueError as error:
            problem = str(error)
    return problem


def _first(*problems: tuple[bool, str]) -> str | None:
    return next((text for there, text in problems if there), None)


def _has_odd_step(steps: Sequence[str]) -> bool:
    return any(step in {"", ".", ".."} for step in steps)


def _has_odd_characters(text: str) -> bool:
    return path_template.has_odd_characters(text) or "\\" in text


def _reads_as_integer(name: str) -> bool:
    try:
        int(name)
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class NodeMap:
    """The data sources of one node and their files, by paths below ``/etc/hiera`` with ``.yaml``.

    ``sources``: name to path, for every declared data source that has a path on this node (the file itself may be
    missing) and for every member of a family that was seen. ``undeclared``: files of no data source. ``faults``: files
    in a family's folder that can't be data sources, by path. ``notes``: by name, why a declared data source has no path
    on this node. ``families``: the folders of the families. ``declared``: all declared names.
    """

    sources: Mapping[str, str]
    undeclared: tuple[str, ...]
    faults: Mapping[str, NodeFileError]
    notes: Mapping[str, str]
    families: frozenset[str] = field(repr=False)
    declared: frozenset[str] = field(repr=False)

    @cached_property
    def files(self) -> Mapping[str, str]:
        """Path to name: the reverse of ``sources``."""
        return {path: name for name, path in self.sources.items()}

    def path_of(self, name: str) -> str | None:
        """Return the path of a data source's file on this node, None if it has none.

        A family's member that isn't on this node has a path too: an override of it creates the file.
        """
        if name in self.sources:
            return self.sources[name]
        path = name + SUFFIX
        return path if self.source_of(path) == name else None

    def source_of(self, path: str) -> str | None:
        """Return the name of a file's data source on this node, whether the file exists or not; None if it has none."""
        if path in self.files:
            return self.files[path]
        name = path.removesuffix(SUFFIX)
        if not _in_family(path, self.families) or _member_problem(name, self.declared):
            return None
        return name


def map_node(sources: Sequence[DataSource], facts: Mapping[str, Json], files: Collection[str]) -> NodeMap:
    """Return the map of a node with these facts and files.

    If two declared data sources have the same path on this node, the more literal one gets the file: the one with fewer
    placeholders, then with more literal text, then the one declared first. Every declared one comes before a family.
    """
    owners: dict[str, str] = {}
    notes: dict[str, str] = {}
    singles = [source for source in sources if not source.is_family]
    for source in sorted(singles, key=_literalness):
        try:
            path = path_template.expand(source.template, facts) + SUFFIX
        except ValueError as error:
            notes[source.name] = str(error)
            continue
        if path in owners:
            notes[source.name] = f"its file {path} is that of {owners[path]} on this node"
        else:
            owners[path] = source.name
    declared = frozenset(source.name for source in singles)
    families = frozenset(source.folder for source in sources if source.is_family)
    undeclared: list[str] = []
    faults: dict[str, NodeFileError] = {}
    for path in sorted(set(files) - owners.keys()):
        name = path.removesuffix(SUFFIX)
        if not _in_family(path, families):
            undeclared.append(path)
            continue
        problem = _member_problem(name, declared)
        if problem:
            faults[path] = NodeFileError(f"can't be a data source: the name {problem}", file=path)
        else:
            owners[path] = name
    found = {name: path for path, name in owners.items()}
    return NodeMap(
        sources={name: found[name] for name in _in_order(sources, found)},
        undeclared=tuple(undeclared),
        faults=faults,
        notes=notes,
        families=families,
        declared=declared,
    )


def _literalness(source: DataSource) -> tuple[int, int]:
    template = source.template
    return len(template.facts), -template.literal_length


def _in_family(path: str, families: frozenset[str]) -> bool:
    folder, _, file = path.rpartition("/")
    # A hidden file is an editor's or a copy's: it is reported as undeclared.
    return folder in families and file.endswith(SUFFIX) and file != SUFFIX and not file.startswith(".")


def _member_problem(name: str, declared: frozenset[str]) -> str | None:
    if name in declared:
        return "is that of a data source with another file"
    return problem_of_name(name)


def _in_order(sources: Sequence[DataSource], found: Mapping[str, str]) -> list[str]:
    """Return the names in ``found`` in the order of declaration, a family's members by name in its place."""
    members: dict[str, list[str]] = {}
    singles = {source.name for source in sources if not source.is_family}
    for name in sorted(found.keys() - singles):
        members.setdefault(name.rpartition("/")[0], []).append(name)
    order: list[str] = []
    for source in sources:
        if source.is_family:
            order += members.pop(source.folder, [])
        elif source.name in found:
            order.append(source.name)
    return order
