"""``configdb-sync`` as ever, but each request is written to the file named first: method, path, body as a JSON list."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from configdb_sync.cli.main import main
from configdb_sync.http.connections import HttpTransport
from configdb_sync.http.transport import HttpAnswer, HttpRequest

_send = HttpTransport.send
_lock = threading.Lock()
_file = Path(sys.argv[1]).open("w", encoding="utf-8")  # noqa: SIM115 open until the process ends


def _recorded(self: HttpTransport, request: HttpRequest) -> HttpAnswer:
    body = None if request.body is None else request.body.decode("utf-8")
    with _lock:
        _file.write(json.dumps([request.method, request.path, body]) + "\n")
        _file.flush()
    return _send(self, request)


HttpTransport.send = _recorded  # type: ignore[method-assign]
main(sys.argv[2:])
