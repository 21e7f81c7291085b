"""Where messages go on RabbitMQ, as Fuel's nodes listen."""

from __future__ import annotations

import pytest

from configdb_sync.errors import BusError
from configdb_sync.mcollective.bus_settings import RabbitMQ


def test_destinations_are_mcollectives() -> None:
    connector = RabbitMQ("master", 4294957)
    replies = connector.replies("x")
    assert (replies.reply_to, replies.subscribe) == ("/temp-queue/mcollective_reply_x", None)
    headers = {"reply-to": "/temp-queue/mcollective_reply_x", "expiration": "4294967000", "mc_sender": "master"}
    one = connector.directed("17", replies)
    assert (one.destination, one.headers) == ("/exchange/mcollective_directed/17", headers)
    assert connector.broadcast("discovery", replies).destination == "/exchange/mcollective_broadcast/discovery"


def test_a_collective_and_one_address_for_all_broadcasts() -> None:
    connector = RabbitMQ("master", 60, collective="other", multiplex=True)
    assert connector.broadcast("discovery", connector.replies("x")).destination == "/exchange/other_broadcast"
    assert connector.directed("1", connector.replies("x")).headers["expiration"] == "70000"


@pytest.mark.parametrize("identity", ["", "a/b", "a b", "é", "1\n", "*"])
def test_what_is_no_identity_is_no_address(identity: str) -> None:
    connector = RabbitMQ("master", 60)
    with pytest.raises(BusError, match="is no identity"):
        connector.directed(identity, connector.replies("x"))
