"""A move action (T10): the stored state of what a move would touch, as JSON and XML, each with its digest. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

from configdb_sync.tenants import etags
from configdb_sync.tenants.paths import Place
from configdb_sync.tenants.status import Counts, Status
from configdb_sync.web.requests import encoded

NAMESPACE = "http://service.openstack.com/actions"
_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")


@dataclass(frozen=True)
class Party:
    """A tenant as a move action shows it."""

    id: str
    status: Status | None
    size: int
    metadata: dict[str, str]


@dataclass(frozen=True)
class Item:
    """An environment or a data source of the move; ``home`` is told of environments."""

    path: str
    status: Status | None
    home: bool | None = None


@dataclass(frozen=True)
class Summary:
    """What stands for the list where that would be long: ``tag`` changes with anything that the list would tell."""

    tag: str
    counts: Counts


@dataclass(frozen=True)
class MoveAction:
    """What a move from one tenant to another would touch."""

    place: Place
    destination: str
    tenants: tuple[Party, Party]
    resources: Sequence[Item] | Summary

    def json(self) -> bytes:
        """Return the JSON form."""
        if isinstance(self.resources, Summary):
            resources: object = {"tag": self.resources.tag, **_counts(self.resources.counts)}
        else:
            resources = [_item(item) for item in self.resources]
        tenants = [
            {"id": one.id, "status": _word(one.status), "size": one.size, "metadata": one.metadata}
            for one in self.tenants
        ]
        move = {"dest": self.destination, "tenants": tenants, "resources": resources}
        return json.dumps({"move": move}, sort_keys=True).encode("ascii") + b"\n"

    def xml(self) -> bytes:
        """Return the XML form. A text that XML can't hold stands percent-encoded, marked by ``encoding``."""
        root = ET.Element("move", {"xmlns": NAMESPACE})
        _set(root, "dest", self.destination)
        tenants = ET.SubElement(root, "tenants")
        for party in self.tenants:
            element = ET.SubElement(tenants, "tenant")
            _set(element, "id", party.id)
            element.set("href", Place(party.id).url)
            element.set("size", str(party.size))
            _status(element, party.status)
            for key, value in party.metadata.items():
                meta = ET.SubElement(element, "meta")
                _set(meta, "key", key)
                _set(meta, "value", value)
        self._xml_resources(root)
        text: bytes = ET.tostring(root, encoding="UTF-8", xml_declaration=True)
        return text + b"\n"

    def _xml_resources(self, root: ET.Element) -> None:
        resources = ET.SubElement(root, "resources")
        if isinstance(self.resources, Summary):
            resources.set("tag", self.resources.tag)
            for name, value in _counts(self.resources.counts).items():
                resources.set(name, str(value))
            return
        for item in self.resources:
            element = ET.SubElement(resources, "resource")
            _set(element, "id", item.path)
            _status(element, item.status)
            if item.home is not None:
                element.set("home", "true" if item.home else "false")

    @property
    def etags(self) -> tuple[str, str]:
        """The entity tags of both forms."""
        return etags.of_body(self.json()), etags.of_body(self.xml())


def _word(status: Status | None) -> str | None:
    return None if status is None else status.shown


def _item(item: Item) -> dict[str, object]:
    found: dict[str, object] = {"id": item.path, "status": _word(item.status)}
    return found if item.home is None else {**found, "home": item.home}


def _counts(counts: Counts) -> dict[str, int]:
    return {"size": counts.size, "active": counts.active, "build": counts.build, "error": counts.error}


def _status(element: ET.Element, status: Status | None) -> None:
    if status is not None:
        element.set("status", status.shown)


def _set(element: ET.Element, name: str, text: str) -> None:
    if _NOT_XML.search(text):
        element.set(name, encoded(text))
        element.set(f"{name}-encoding", "percent")
    else:
        element.set(name, text)
