"""Questions about an environment's settings: what Puppet reads, where a key is, how nodes differ."""
