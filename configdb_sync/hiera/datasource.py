"""What a data source is: a name that ConfigDB knows it by, and the file that it is on nodes."""

from __future__ import annotations

from dataclasses import dataclass

from configdb_sync.hiera import placeholders
from configdb_sync.hiera.placeholders import Template
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
        """The parts of ``path``. Raises ValueError as ``placeholders.parse`` does."""
        return placeholders.parse(self.path)


def problem_of_name(name: str) -> str | None:
    """Return why ConfigDB, the tenant API or our records can't have a data source of that name, or None.

    A name of digits would be taken for an id in ConfigDB's URLs, one that ends in
    ``action/move`` for a move in the tenant API's (T1).
    """
    problem = None
    if not name or any(step in {"", ".", ".."} for step in name.split("/")):
        problem = "is empty, or has an empty or dotted step"
    elif len(name) > NAME_LIMIT:
        problem = f"is longer than {NAME_LIMIT} characters"
    elif placeholders.has_odd_characters(name) or "\\" in name:
        problem = "holds control characters or a backslash"
    elif _reads_as_integer(name):
        problem = "reads as a number, which ConfigDB takes for an id"
    elif name == _MOVE or name.endswith("/" + _MOVE):
        problem = f"ends in {_MOVE}, which is a call of the tenant API"
    elif name == RECORDS:
        problem = "is the name of the product's own records"
    return problem


def problem_of_path(path: str) -> str | None:
    """Return why ``path`` can't be the path of a data source, family or not; None if it can."""
    problem = None
    family = path == "*" or path.endswith("/*")
    steps = path.split("/")[:-1] if family else path.split("/")
    if any(step in {"", ".", ".."} for step in steps):
        problem = "is no path below /etc/hiera"
    elif placeholders.has_odd_characters(path) or "\\" in path:
        problem = "holds control characters or a backslash"
    elif any("*" in step for step in steps):
        problem = "has a * in another place than at the end, after a folder"
    elif path.endswith(SUFFIX):
        problem = f"ends in {SUFFIX}, which is added to it"
    elif family and "%{" in path:
        problem = "is a family with a placeholder; families are plain folders"
    else:
        try:
            placeholders.parse(path)
        except ValueError as error:
            problem = str(error)
    return problem


def _reads_as_integer(name: str) -> bool:
    try:
        int(name)
    except ValueError:
        return False
    return True
