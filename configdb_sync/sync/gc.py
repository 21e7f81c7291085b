"""Finds and removes what ConfigDB and our records still hold of nodes that are gone.

A document under an override is kept whole unless that is asked for too: its values, its overrides and our record of
what is hidden belong together. Otherwise, if the node came back with its old files, the override would be taken
for the node's own value. Levels over the nodes' are never touched, nor is another environment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from configdb_sync.addresses import Seen
from configdb_sync.configdb.client import ConfigDBClient
from configdb_sync.configdb.model import DocumentAddress, DocumentEdit, Etags, OverrideNote, ServerKind
from configdb_sync.errors import ConflictError, ProductError, SettingsError
from configdb_sync.jsonvalues import EMPTY_DIGEST, Json, document_digest
from configdb_sync.names import LevelPath, natural_key, place_of
from configdb_sync.store.database import Database
from configdb_sync.store.records import Record, forget_documents, names_seen, remembered
from configdb_sync.sync.node_records import from_json
from configdb_sync.sync.remote_environment import RemoteEnvironment
from configdb_sync.sync.run_options import RunOptions


@dataclass(frozen=True)
class LeftDocument:
    """What is left of one document of a node: keys of its values and overrides, who set these, and our records of it.

    ``definition`` None: ConfigDB has no such data source. ``places`` are those whose records may go with it.
    ``hidden``: something of ours may be in the node's file.
    """

    data_source: str
    definition: int | None
    values: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    digests: Mapping[str, str] = field(default_factory=dict, repr=False)
    set_by: OverrideNote | None = None
    places: tuple[str, ...] = ()
    kept_digest: bool = False
    hidden: bool = False

    @property
    def covered(self) -> bool:
        """Whether it goes only with its overrides."""
        return bool(self.overrides) or self.hidden


@dataclass(frozen=True)
class GoneNode:
    """A node that is gone. ``seen_at``: places that knew it and weren't asked now."""

    identity: str
    fqdn: str | None
    levels: LevelPath
    documents: tuple[LeftDocument, ...]
    places: tuple[str, ...] = ()
    seen_at: tuple[str, ...] = ()


@dataclass(frozen=True)
class Leftovers:
    """All that is left in an environment. ``whole``: the environment itself is gone. ``notes``: what is unknown."""

    environment: int
    whole: bool
    nodes: tuple[GoneNode, ...]
    notes: tuple[str, ...] = ()

    def kept(self, *, overrides: bool) -> Iterator[tuple[GoneNode, LeftDocument]]:
        """Yield the documents that stay."""
        if not overrides:
            yield from ((node, one) for node in self.nodes for one in node.documents if one.covered)


@dataclass(frozen=True)
class Present:
    """The nodes that exist, with their FQDNs, as the ``places`` asked know them.

    ``all_places``: a node that they don't know exists nowhere (Nailgun was asked). ``environment``: whether it exists.
    """

    nodes: Seen
    places: Collection[str]
    all_places: bool
    environment: bool = True


class Collector:
    """Finds and removes what is left in one environment. Raises ``ConfigDBError`` as the client does."""

    def __init__(self, client: ConfigDBClient, database: Database, options: RunOptions) -> None:
        self._client = client
        self._database = database
        self._options = options
        self._addresses = options.addresses
        self._remote = RemoteEnvironment(client, options)

    def find(self, present: Present) -> Leftovers:
        """Return what is left of nodes that aren't present; nothing is changed.

        Raises ``SettingsError`` if it can't be told where a node that is there is in ConfigDB,
        ``EnvironmentMismatchError`` as ``RemoteEnvironment.load``.
        """
        name, template = self._options.levels[-1]
        if not self._addresses.by_name:
            raise SettingsError(
                f"nodes are kept at the level {name}={template}, and only a node's uid and fqdn can be compared",
                way_out="remove what is left of them with `configdb-sync rm-override` and `del`",
            )
        self._remote.load()
        env = self._options.environment
        known = remembered(self._database, env)
        names = names_seen(self._database, env)
        authors = {(one.data_source, one.place): one for one in self._authors()}
        outer, stored, notes = self._stored_nodes()
        nodes = []
        for identity, value in self._gone(present, known, stored, names):
            levels = None if outer is None or value is None else (*outer, (name, value))
            of_node = known.get(identity, {})
            places = tuple(sorted(place for place in of_node if present.all_places or place in present.places))
            documents = self._documents(identity, levels, of_node, places, authors)
            if documents or places:
                fqdn = next(iter(reversed(names.get(identity, ()))), None)
                elsewhere = tuple(sorted(set(of_node) - set(places)))
                nodes.append(GoneNode(identity, fqdn, levels or (), documents, places, elsewhere))
        return Leftovers(env, not present.environment, tuple(nodes), notes)

    def _gone(
        self, present: Present, known: Collection[str], stored: Collection[str], names: Seen
    ) -> list[tuple[str, str | None]]:
        """Return the nodes that are no more with the values of their level; a value that no run gave a node is one."""
        taken: set[str] = set()
        for node, fqdns in present.nodes.items():
            values = self._addresses.values_of(node, {node: (*fqdns, *names.get(node, ()))})
            if not values:
                raise SettingsError(
                    f"no run has seen the FQDN of node {node}, which exists: what is left may belong to it",
                    way_out="run `configdb-sync sync` first",
                )
            taken |= values
        found: list[tuple[str, str | None]] = []
        named: set[str] = set()
        for node in set(known) - set(present.nodes):
            values = self._addresses.values_of(node, names)
            free = sorted(values - taken)
            named |= values
            found += [(node, value) for value in free] or [(node, None)]
        found += [(value, value) for value in set(stored) - taken - named]
        return sorted(found, key=lambda one: (natural_key(one[0]), one[1] or ""))

    def _authors(self) -> list[OverrideNote]:
        """Return who set which overrides, as far as the server knows."""
        if not self._remote.exists or self._client.server() is not ServerKind.EMBEDDED:
            return []
        return self._client.overrides_of(self._options.environment)

    def _stored_nodes(self) -> tuple[LevelPath | None, tuple[str, ...], tuple[str, ...]]:
        """Return a path to the nodes' level (None: nothing is stored there), the nodes there, and notes."""
        names = [name for name, _ in self._options.levels]
        if not self._remote.reaches(tuple((name, "") for name in names)):
            return None, (), ()
        if self._client.server() is ServerKind.LEGACY:
            note = "this server can't list nodes: only nodes in this product's own records are checked"
            return (() if len(names) == 1 else None), (), (note,)
        *outer, nodes = ((name, self._client.level_values(self._options.environment, name)) for name in names)
        # A document of the last level is the same whatever values the levels over it have (``docs/configdb-api.md``).
        if not all(found for _, found in outer):
            return None, (), ()
        return tuple((name, found[0]) for name, found in outer), nodes[1], ()

    def _documents(
        self,
        identity: str,
        levels: LevelPath | None,
        known: Mapping[str, Mapping[str, Record]],
        places: tuple[str, ...],
        authors: Mapping[tuple[str, str], OverrideNote],
    ) -> tuple[LeftDocument, ...]:
        etags = None if levels is None else self._client.etags(self._options.environment, levels)
        kept = self._kept(levels, etags)
        documents = []
        for name in sorted({*self._remote.names, *kept, *(one for of in known.values() for one in of)}):
            records = [of[name] for of in known.values() if name in of]
            digests = from_json(kept.get(name))
            hidden = any(record.hidden or record.unsettled for record in records)
            found = LeftDocument(
                name,
                self._remote.definition(name),
                places=tuple(place for place in places if name in known[place]),
                kept_digest=name in kept,
                hidden=hidden or (digests is not None and bool(digests.hidden or digests.unsettled)),
            )
            found = self._with_contents(
                found, levels, etags, authors.get((name, place_of(() if levels is None else levels[-1:])))
            )
            if found.values or found.overrides or found.places or found.kept_digest:
                documents.append(found)
        return tuple(documents)

    def _kept(self, levels: LevelPath | None, etags: Mapping[int, Etags] | None) -> dict[str, Json]:
        definition = self._remote.records
        if levels is None or definition is None or _empty(etags, definition):
            return {}
        return self._client.values(self._options.environment, levels, definition)

    def _with_contents(
        self,
        document: LeftDocument,
        levels: LevelPath | None,
        etags: Mapping[int, Etags] | None,
        set_by: OverrideNote | None,
    ) -> LeftDocument:
        definition, env = document.definition, self._options.environment
        if levels is None or definition is None or _empty(etags, definition):
            return document
        values = self._client.values(env, levels, definition)
        overrides = self._client.overrides(env, levels, definition)
        return replace(
            document,
            values=tuple(values),
            overrides=tuple(overrides),
            digests={"values": document_digest(values), "overrides": document_digest(overrides)},
            set_by=set_by if overrides else None,
        )

    def remove(self, node: GoneNode, *, overrides: bool) -> tuple[tuple[str, ...], tuple[ProductError, ...]]:
        """Take away what is left of a node, documents under an override only with ``overrides``.

        Return the data sources that are gone and what went wrong; a document that fails stays whole, the others go on.
        Raises ``ConfigDBError`` if our records in ConfigDB can't be changed.
        """
        gone, problems = [], []
        for document in node.documents:
            if document.covered and not overrides:
                continue
            try:
                self._empty_document(node, document)
                gone.append(document.data_source)
            except ProductError as error:
                problems.append(error.located(node=node.identity, data_source=document.data_source))
        self._forget(node, gone)
        return tuple(gone), tuple(problems)

    def _empty_document(self, node: GoneNode, document: LeftDocument) -> None:
        definition, env = document.definition, self._options.environment
        for kind, put in (("overrides", self._client.put_overrides), ("values", self._client.put_values)):
            listed = document.digests.get(kind, EMPTY_DIGEST)
            if definition is None or listed == EMPTY_DIGEST:
                continue
            found, etag = self._client.tagged(env, node.levels, definition, kind)
            if document_digest(found) != listed:
                raise ConflictError(f"someone changed its {kind} meanwhile; they were left", way_out="run again")
            put(env, node.levels, definition, {}, if_match=etag)
            place = DocumentAddress(env, node.levels, document.data_source, definition, innermost=True)
            self._client.changed(DocumentEdit(place, kind, found, {}))

    def _forget(self, node: GoneNode, gone: Collection[str]) -> None:
        definition, env = self._remote.records, self._options.environment
        if definition is not None and any(one.kept_digest and one.data_source in gone for one in node.documents):
            kept, etag = self._client.tagged(env, node.levels, definition, "values")
            rest = {name: value for name, value in kept.items() if name not in gone}
            self._client.put_values(env, node.levels, definition, rest, if_match=etag)
        if node.places:
            forget_documents(self._database, env, node.identity, node.places, gone)


def _empty(etags: Mapping[int, Etags] | None, definition: int) -> bool:
    known = None if etags is None else etags.get(definition)
    return known is not None and known.values == known.overrides == EMPTY_DIGEST
