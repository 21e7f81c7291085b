"""One client for the JSON APIs of all peers: transports, sessions with retries, tokens, and what answers hold."""
