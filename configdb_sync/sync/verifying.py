"""Whether ConfigDB gives what was foreseen: nothing is written else (U10, U20)."""

from __future__ import annotations

from collections.abc import Collection

from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import DocumentAddress, Etags
from configdb_sync.errors import UnexpectedAnswerError
from configdb_sync.jsonvalues import Document, Json, document_digest, dumps
from configdb_sync.sync.decide import Decision


def check_effective(
    client: ConfigDBClient, place: DocumentAddress, decision: Decision, known: Etags | None, aside: Collection[str] = ()
) -> None:
    """Raise ``UnexpectedAnswerError`` if a document's effective data isn't what the decision foresaw.

    ``known`` are the document's digests where the server gives them; it is asked for the whole document if they differ.
    ``aside`` are keys that the decision says nothing of.
    """
    if known is not None and known.effective == decision.effective_digest:
        return
    found = client.effective(place.env, place.levels, place.definition)
    if document_digest(_without(found, aside)) != document_digest(_without(decision.effective, aside)):
        raise UnexpectedAnswerError(
            "ConfigDB's effective data is not what its values and overrides give:"
            f" {_differing(decision.effective, found)}",
            way_out="if someone changed an override just now, run again; the file was left alone",
        )


def _without(document: Document, aside: Collection[str]) -> dict[str, Json]:
    return {key: value for key, value in document.items() if key not in aside}


def _differing(foreseen: Document, found: Document) -> str:
    names = [key for key in {**foreseen, **found} if key not in foreseen or key not in found]
    names += [key for key in foreseen if key in found and dumps(foreseen[key]) != dumps(found[key])]
    shown = ", ".join(map(repr, names[:3]))
    return f"{len(names)} keys differ ({shown}{', ...' if len(names) > 3 else ''})"
