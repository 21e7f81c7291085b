"""The ConfigDB client: the calls that the product makes, the same against all three servers (U6, U9, U13, U16, U17).

All methods raise the errors of ``calls.Caller.call`` beside those that they name.
"""

from __future__ import annotations

from configdb_sync.configdb.versions import Versions


class ConfigDBClient(Versions):
    """One server, one pool of connections; safe for several threads.

    ``Link`` finds out which server it is, ``Objects`` makes components and environments, ``Documents`` reads and writes
    values and overrides, ``Versions`` asks for their history.
    """
