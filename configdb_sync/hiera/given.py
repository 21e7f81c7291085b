"""A document whose data comes as values, not as a file that anyone wrote."""

from __future__ import annotations

import json
from collections.abc import Mapping

from configdb_sync.hiera.documents import HieraDocument, Reader
from configdb_sync.hiera.entries import Entry
from configdb_sync.jsonvalues import Json, dumps, value_digest


def given(values: Mapping[str, Json]) -> HieraDocument:
    """Return the document of JSON values; nothing in it has a type that JSON lacks. It isn't for rewriting."""
    entries = {
        key: Entry(key, value, f"{json.dumps(key)}:{dumps(value)}", value_digest(value), None)
        for key, value in values.items()
    }
    return HieraDocument(b"", entries, (), Reader())
