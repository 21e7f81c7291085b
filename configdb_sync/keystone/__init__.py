"""Keystone: how to log in, tokens, the service catalog, and the registration of ConfigDB. All by keystoneauth1."""
