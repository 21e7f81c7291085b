"""How a service takes requests from sockets: whole requests only, within limits of time and memory (R4, R5)."""
