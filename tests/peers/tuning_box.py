"""PyPI's tuning-box 0.1.0, started for real on loopback: its own virtual environment under ``.cache``, made
on demand.

Run as a script by that environment's Python it is the server itself: ``tuning_box.py SQLALCHEMY_URL PORT
PREFIX``.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

REQUIREMENTS = (
    "tuning-box==0.1.0",
    "Flask<2",
    "Werkzeug<1",
    "Jinja2<3",
    "MarkupSafe<2.1",
    "itsdangerous<2.1",
    "SQLAlchemy<1.4",
    "Flask-SQLAlchemy<2.5",
    "Flask-RESTful<0.3.10",
    "alembic<1.7",
    "setuptools<70",
    "psycopg2-binary",
)
START = 60.0


def unavailable() -> str | None:
    """Return why the peer can't run here, or None."""
    if sys.version_info >= (3, 13):
        return "tuning-box 0.1.0 and its libraries don't run on Python 3.13"
    return None


def python() -> Path:
    """Return the Python of the peer's environment, made if it isn't there."""
    from tests.peers import environments  # which the server itself doesn't find

    return environments.interpreter("tuning-box", REQUIREMENTS)


@contextlib.contextmanager
def running(database_url: str, prefix: str = "") -> Iterator[str]:
    """Yield the address of a running server on this database (SQLAlchemy 1.3 URL), below ``prefix``."""
    # Late: as a script, by another environment's Python, this module finds none of the project.
    from tests.support.ports import free_port

    port = free_port()
    command = [str(python()), "-P", "-W", "ignore", __file__, database_url, str(port), prefix]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    with tempfile.TemporaryFile() as log:  # a pipe that nobody reads would stop it when full
        server = subprocess.Popen(command, env=environ, stderr=log, stdout=subprocess.DEVNULL)
        try:
            address = f"http://127.0.0.1:{port}{prefix}"
            try:
                _await(server, f"{address}/components")
            except RuntimeError as error:
                log.seek(0)
                raise RuntimeError(f"{error}: {log.read().decode()[-2000:]}") from None
            yield address
        finally:
            server.terminate()
            server.wait(timeout=10)


def _await(server: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + START
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise RuntimeError("tuning-box ended")
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError("tuning-box didn't answer in time")


def _serve(database_url: str, port: int, prefix: str) -> None:
    from tuning_box import app as box  # type: ignore[import-not-found]
    from tuning_box import db
    from werkzeug.serving import run_simple
    from werkzeug.wsgi import DispatcherMiddleware  # type: ignore[attr-defined]

    app = box.build_app()
    app.config["SQLALCHEMY_DATABASE_URI"] = database_url
    app.config["PROPAGATE_EXCEPTIONS"] = False
    with app.app_context():
        if database_url.startswith("sqlite"):
            db.fix_sqlite()
        db.db.create_all()
    mounted = DispatcherMiddleware(lambda _environ, start: _outside(start), {prefix: app}) if prefix else app
    run_simple("127.0.0.1", port, mounted, threaded=True)


def _outside(start: object) -> list[bytes]:
    start("404 Not Found", [("Content-Type", "text/html")])  # type: ignore[operator]
    return [b"<html>outside of the mount</html>"]


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), sys.argv[3])
