"""What requests for lists and parts have alike: ``limit``, ``marker``, ``fields``, conditions on reading."""

from __future__ import annotations

from collections.abc import Mapping

from configdb_sync.tenants import etags
from configdb_sync.tenants.answers import Answer, Headers
from configdb_sync.tenants.context import Context
from configdb_sync.tenants.requests import Request
from configdb_sync.web.refusals import refuse


def limit_of(context: Context, parameters: Mapping[str, str]) -> int:
    """Return how many items a page is to have. Raises ``RefusalError`` 400."""
    text = parameters.get("limit")
    if text is None:
        return context.limits.page
    if not (text.isascii() and text.isdigit()) or len(text) > 1000 or int(text) == 0:
        raise refuse(400, "limit must be a number from 1")
    return min(int(text), context.limits.longest)


def number_of(parameters: Mapping[str, str]) -> int | None:
    """Return the marker of a list that is ordered by numbers. Raises ``RefusalError`` 400."""
    text = parameters.get("marker")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 18:
        raise refuse(400, "marker must be a number")
    return int(text)


def place_of(parameters: Mapping[str, str]) -> tuple[int, str] | None:
    """Return the marker ``<environment>/<data source>``. Raises ``RefusalError`` 400."""
    text = parameters.get("marker")
    if text is None:
        return None
    number, slash, name = text.partition("/")
    if not (slash and number.isascii() and number.isdigit()) or len(number) > 18:
        raise refuse(400, "marker must be an environment's number, a slash and a data source")
    return int(number), name


def fields_of(parameters: Mapping[str, str]) -> frozenset[str] | None:
    """Return the fields asked for, None for all."""
    text = parameters.get("fields")
    return None if text is None else frozenset(one for one in text.split(",") if one)


def unchanged(request: Request, etag: str, headers: Headers) -> Answer | None:
    """Return 304 where If-None-Match says so. Raises ``RefusalError`` 412 where If-Match does, 400."""
    if not request.conditional:
        return None
    conditions = request.conditions()
    if not etags.matches(conditions.match, etag):
        raise refuse(412, "it isn't what If-Match names")
    return None if etags.none_matches(conditions.none_match, etag) else Answer(304, headers=headers)
