"""Status (S1-S3): its values, the status of a whole, and how long details may be. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

LONGEST_DETAILS = 4096
_CUT = " ... (cut)"


class Status(StrEnum):
    """The status of a resource; values as they are stored (S5). None: the backend reports none."""

    ACTIVE = "active"
    BUILD = "build"
    ERROR = "error"


def word_of(status: Status | None) -> str | None:
    """Return the API's word for a status."""
    return None if status is None else status.name


def cut(details: str | None) -> str | None:
    """Return details of at most 4096 characters; a cut text ends with a note (S3). NUL becomes U+FFFD."""
    if not details:
        return None
    details = details.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    return details if len(details) <= LONGEST_DETAILS else details[: LONGEST_DETAILS - len(_CUT)] + _CUT


@dataclass(frozen=True)
class StatusCounts:
    """How many data sources there are, and how many of them have which status."""

    size: int = 0
    active: int = 0
    build: int = 0
    error: int = 0

    @property
    def status(self) -> Status | None:
        """The status of the whole: ERROR if any is, else BUILD, else ACTIVE, else None (S1)."""
        if self.error:
            return Status.ERROR
        if self.build:
            return Status.BUILD
        return Status.ACTIVE if self.active else None

    @property
    def details(self) -> str | None:
        """How many of the parts have the status of the whole."""
        counts = {Status.ERROR: self.error, Status.BUILD: self.build, Status.ACTIVE: self.active}
        status = self.status
        return None if status is None else f"{counts[status]} of {self.size} data sources: {status.name}"

    def __add__(self, other: StatusCounts) -> StatusCounts:
        return StatusCounts(
            self.size + other.size, self.active + other.active, self.build + other.build, self.error + other.error
        )

    def __neg__(self) -> StatusCounts:
        return StatusCounts(-self.size, -self.active, -self.build, -self.error)


def counted(status: Status | None) -> StatusCounts:
    """Return the counts of one data source."""
    return StatusCounts(
        1, active=int(status is Status.ACTIVE), build=int(status is Status.BUILD), error=int(status is Status.ERROR)
    )
