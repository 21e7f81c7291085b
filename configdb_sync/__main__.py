"""``python -m configdb_sync``."""

from configdb_sync.cli.main import main

main()
