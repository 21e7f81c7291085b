"""Keystone under this project's own gunicorn, two workers: run by Keystone's Python as ``keystone_server.py PORT``.

gunicorn comes from the environment named by ``CONFIGDB_SYNC_PACKAGES``, behind what Keystone's own has.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

PORT = int(sys.argv[1])
sys.argv = ["keystone"]  # it reads the command line when it is imported
sys.path += [str(Path(__file__).resolve().parents[1]), os.environ["CONFIGDB_SYNC_PACKAGES"]]

from configdb_sync.web.refusals import RefusalError  # noqa: E402
from configdb_sync.web.responses import ApiResponse  # noqa: E402
from configdb_sync.web.service import Gunicorn, GunicornOptions, Listen  # noqa: E402


def make(_ports: list[int]) -> tuple[Any, Any]:
    """Return Keystone's application, in a worker."""
    from keystone.wsgi.api import application  # type: ignore[import-not-found]

    return None, application


def refused(refusal: RefusalError) -> ApiResponse:
    """Return an answer that has a status alone."""
    return ApiResponse(refusal.status)


listen = [Listen("127.0.0.1", PORT)]
Gunicorn("keystone", listen, GunicornOptions(), make, refused=refused, body_limit=1024 * 1024).run()
