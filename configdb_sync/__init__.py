"""ConfigDB plugin for OpenStack Fuel: keeps the nodes' settings and ConfigDB in step."""

__version__ = "0.1.0"
