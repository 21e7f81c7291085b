"""If-Match and If-None-Match (RFC 9110, 13.1), read strictly: a malformed header is 400, never no condition. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from werkzeug.datastructures import Headers

from configdb_sync.web.refusals import refuse
from configdb_sync.web.requests import Tags, read_tags


@dataclass(frozen=True)
class Conditions:
    """What a request asks of the present state; None where it has no such header."""

    match: Tags | None = None
    none_match: Tags | None = None

    def fails(self, digest: str, *, written: bool) -> bool:
        """Tell whether a change must be refused with 412.

        ``digest`` is the present document's. ``*`` means that the document was ever written: one that never was
        reads as ``{}`` and has the digest of that, so both ways to create it only once work.
        """
        if self.match is not None and not (written if self.match.any else digest in self.match.strong):
            return True
        return self.none_match is not None and (
            written if self.none_match.any else digest in self.none_match.strong | self.none_match.weak
        )

    def unchanged(self, digest: str) -> bool:
        """Tell whether a read is to be answered with 304."""
        return self.none_match is not None and (
            self.none_match.any or digest in self.none_match.strong | self.none_match.weak
        )


def read_conditions(headers: Headers) -> Conditions:
    """Return the conditions of a request. Raises ``RefusalError`` 400 for a malformed header."""
    return Conditions(
        match=_tags("If-Match", headers["If-Match"]) if "If-Match" in headers else None,
        none_match=_tags("If-None-Match", headers["If-None-Match"]) if "If-None-Match" in headers else None,
    )


def _tags(name: str, text: str) -> Tags:
    try:
        return read_tags(name, text)
    except ValueError as error:
        raise refuse(400, str(error)) from None
