"""libyaml's events, the same that Psych builds on: the parser, and the kinds of events by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from yaml import events
from yaml._yaml import CParser

# Any: PyYAML's stubs call every mark and anchor optional, which they are not where they are asked for here.
SCALAR: Any = events.ScalarEvent
ALIAS: Any = events.AliasEvent
MAPPING: Any = events.MappingStartEvent
MAPPING_END: Any = events.MappingEndEvent
SEQUENCE: Any = events.SequenceStartEvent
SEQUENCE_END: Any = events.SequenceEndEvent
DOCUMENT_END: Any = events.DocumentEndEvent
STREAM_END: Any = events.StreamEndEvent


def events_of(text: str) -> Callable[[], Any]:
    """Return what gives the next event of a text (without a BOM) at each call, ``STREAM_END`` last.

    The call raises ``yaml.YAMLError`` for what isn't YAML.
    """
    return CParser(text).get_event
