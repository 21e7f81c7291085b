"""Answers: JSON with a line end, the one error shape, and the server's name on every one."""

from __future__ import annotations

import hashlib
from http import HTTPStatus

from werkzeug.wrappers import Response

from configdb_sync import __version__, jsonvalues
from configdb_sync.configdb_server.preconditions import Conditions
from configdb_sync.configdb_server.refusals import RefusalError

PRODUCT_HEADER = "Server-Product"
PRODUCT = f"configdb-sync/{__version__}"
VERSION_HEADER = "X-Configdb-Version"


def json_answer(value: jsonvalues.Json, status: int = 200) -> Response:
    """Return ``value`` as JSON."""
    return text_answer(jsonvalues.dumps(value), status)


def text_answer(text: str, status: int = 200) -> Response:
    """Return a JSON text that is at hand already."""
    return Response(f"{text}\n", status, mimetype="application/json")


def listing(value: jsonvalues.Json, conditions: Conditions) -> Response:
    """Return ``value`` as JSON with the digest of its text as ETag, or 304 if the reader has it."""
    text = jsonvalues.dumps(value)
    digest = hashlib.sha256(text.encode("ascii")).hexdigest()
    return not_modified(digest) if conditions.unchanged(digest) else tagged(text_answer(text), digest)


def tagged(response: Response, digest: str, version: int | None = None) -> Response:
    """Return ``response`` with the document's strong ETag, and the number of its version where it has one."""
    response.headers["ETag"] = f'"{digest}"'
    if version is not None:
        response.headers[VERSION_HEADER] = str(version)
    return response


def no_content() -> Response:
    """Return 204."""
    return _bare(204)


def not_modified(digest: str) -> Response:
    """Return 304."""
    return tagged(_bare(304), digest)


def refused(refusal: RefusalError) -> Response:
    """Return a refusal in the one shape; both names for its text, since tuning-box's two modes use one each."""
    response = json_answer(
        {"msg": refusal.what, "message": refusal.what, "status": refusal.status}, HTTPStatus(refusal.status)
    )
    response.headers.extend(refusal.headers)
    return response


def _bare(status: int) -> Response:
    response = Response(status=status)
    response.headers.pop("Content-Type", None)
    return response
