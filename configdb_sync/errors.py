"""The one tree of errors. Each class stands for one meaning; its text is made from its fields.

A class says what kind of fault it is; ``exits`` maps the kinds to exit codes. A package that needs a finer
meaning derives its own class from one of these, beside its code.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field


@dataclass(eq=False)
class ProductError(Exception):
    """Any error that the product itself finds.

    ``what`` names the thing and its value and never holds a secret; ``way_out`` tells the user what to do.
    The other fields say where it happened: the node's identity, the file below ``/etc/hiera`` (or a path), the
    data source, the phase of a run and the request id of the peer that answered.
    """

    what: str
    way_out: str | None = None
    node: str | None = None
    file: str | None = None
    data_source: str | None = None
    phase: str | None = None
    request_id: str | None = None

    def __str__(self) -> str:
        place = ", ".join(
            f"{name} {value}"
            for name, value in (
                ("node", self.node),
                ("file", self.file),
                ("data source", self.data_source if self.file is None else None),
                ("while", self.phase),
                ("request", self.request_id),
            )
            if value is not None
        )
        text = f"{place}: {self.what}" if place else self.what
        return f"{text} ({self.way_out})" if self.way_out else text

    def located(
        self,
        *,
        node: str | None = None,
        file: str | None = None,
        data_source: str | None = None,
        phase: str | None = None,
    ) -> ProductError:
        """Return the same error with those of the given places that it doesn't have itself."""
        found = dataclasses.replace(
            self,
            node=self.node or node,
            file=self.file or file,
            data_source=self.data_source or data_source,
            phase=self.phase or phase,
        )
        found.__cause__ = self.__cause__
        return found


@dataclass(eq=False)
class SettingsError(ProductError):
    """A flag, a variable or a setting is missing, malformed or contradicts another (U3). It always has a way out."""

    way_out: str = field()


@dataclass(eq=False)
class StateError(ProductError):
    """The state folder or the product's own database can't be used. It always has a way out."""

    way_out: str = field()


class EnvironmentMismatchError(ProductError):
    """The requested environment is not the one that the facts name (U4), or it has unknown levels (U6)."""


class NodeError(ProductError):
    """One node as a whole can't be worked on: unreachable, contradicting facts, no base file (U4, U7)."""


class DocumentError(ProductError):
    """A document can't be read, isn't a mapping or can't be carried without loss (U11, U19)."""


class AmbiguousError(ProductError):
    """A leaf differs from all known values; it is neither uploaded nor written until the user decides (U18)."""


class NodeFileError(ProductError):
    """A node's file can't be read or written."""


class FileChangedError(NodeFileError):
    """A node's file is no longer what was read in this run; it was left alone."""


class UnsafeError(ProductError):
    """The safety gate withheld a change (F5, S01)."""


class BusyError(ProductError):
    """Another run holds the lock."""


class OutOfTimeError(ProductError):
    """The run's time limit leaves no time for more; the next run does the rest."""


class PlanChangedError(ProductError):
    """The plan of now differs from the one that ``--digest`` names; nothing was changed."""


class BusError(ProductError):
    """The message bus that leads to the nodes can't be used: not reached, login refused, lost, or misused (U8)."""


class NailgunError(ProductError):
    """Nailgun can't be reached, or its answer makes the request fail (U4, U21)."""


class ConfigDBError(ProductError):
    """ConfigDB's answer makes the request fail."""


class AccessError(ConfigDBError):
    """Credentials were refused or are missing (401, 403); Keystone's and Nailgun's refusals count too."""


class UnavailableError(ConfigDBError):
    """ConfigDB can't be reached or keeps failing."""


class UnexpectedAnswerError(ConfigDBError):
    """An answer that doesn't fit the request: wrong type, cut, contradicting."""


class MissingError(ConfigDBError):
    """ConfigDB says 404: the environment, level or data source isn't there."""


class UnknownNameError(MissingError):
    """ConfigDB doesn't have the environment, data source or version that the user named."""


class RefusedError(ConfigDBError):
    """The server refused the request itself (400, 405, 413, 415, 422 and other 4xx without a class of their own)."""


class ConflictError(ConfigDBError):
    """The server says 409: it exists already, another writer was there, or it isn't valid; only a GET can tell."""


class PreconditionError(ConfigDBError):
    """The document is no longer the one whose ETag was sent (412)."""


class UnsupportedError(ConfigDBError):
    """This kind of server can't do what was asked (PyPI's 0.1.0)."""


class ConnectionLostError(UnavailableError):
    """The connection broke or timed out; whether the request was carried out isn't known."""


class ThrottledError(UnavailableError):
    """The server keeps asking to come back later (429, or 503 with a wait beyond what is waited for)."""


class TLSError(UnavailableError):
    """The peer's certificate can't be verified; nothing was sent."""


class NailgunAwayError(NailgunError):
    """Nailgun can't be reached, its certificate can't be verified, or it keeps failing."""


class NailgunAnswerError(NailgunError):
    """An answer that isn't Nailgun's: another type, cut, too large, or one that leads elsewhere."""
