"""stomp.py, without what it does by itself: it looks up host names when it is imported, and it logs frames.

Its debug log shows bodies whole and hides a passcode only in one of the forms in which it prints it.
"""

from __future__ import annotations

import logging
import os

os.environ.setdefault("STOMP_SKIP_HOSTNAME_SCAN", "1")

from stomp.connect import BaseConnection
from stomp.exception import StompException
from stomp.listener import ConnectionListener
from stomp.protocol import Protocol11
from stomp.transport import BaseTransport
from stomp.utils import Frame, parse_frame

logging.getLogger("stomp.py").disabled = True

__all__ = [
    "BaseConnection",
    "BaseTransport",
    "ConnectionListener",
    "Frame",
    "Protocol11",
    "StompException",
    "parse_frame",
]
