"""What comes over the socket, whatever it is, is frames or a typed error (B01, B02)."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from configdb_sync.mcollective.bus_settings import Bounds
from configdb_sync.mcollective.transport import BrokerLostError, Inbox, PumpedTransport, StompConnection

pieces = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [
            b"MESSAGE\n",
            b"CONNECTED\nversion:1.1\n\n\0",
            b"RECEIPT\nreceipt-id:1\n\n\0",
            b"RECEIPT\n\n\0",
            b"ERROR\nmessage:x\n\nbody\0",
            b"heart-beat:a\n",
            b"content-length:3\n",
            b"subscription\\n:\\c\\x\n",
            b"\n\n",
            b"\0",
            b"\r\n",
            b":\n",
        ]
    ),
)


@given(sent=st.lists(pieces, max_size=8))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_frames_or_a_typed_error(sent: list[bytes]) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.setblocking(False)
        inbox = Inbox()
        transport = PumpedTransport(ours, "/", inbox, Bounds(), time.monotonic)
        StompConnection(transport)
        theirs.sendall(b"".join(sent))
        theirs.close()
        before = threading.active_count()
        try:
            with contextlib.suppress(BrokerLostError):
                for _ in range(3):
                    transport.pump(0)
            while (frame := inbox.take()) is not None:
                assert frame.body is None or isinstance(frame.body, bytes)
            assert inbox.size == 0
        finally:
            transport.close()
        assert threading.active_count() == before
