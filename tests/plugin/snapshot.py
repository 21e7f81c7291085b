"""What Fuel's support snapshot takes of a master: ``DUMP`` in Nailgun's settings, of 9.0 to newton, as shotgun reads it
(a folder with all below it, files by pattern, ``exclude`` taken away again)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

TAKEN = (
    *("etc/nailgun", "etc/astute", "etc/fuel", "etc/fuel_build_id", "etc/fuel_build_number", "etc/dnsmasq.conf"),
    *("etc/cobbler*", "etc/*-release", "etc/sysconfig/network-scripts", "root/*.log", "var/log"),
    "var/www/nailgun/bootstraps/active_bootstrap/metadata.yaml",
)
EXCLUDED = ("var/log/atop/", "var/log/dump/")


def taken(root: Path) -> Iterator[Path]:
    """Yield the files of a master below ``root`` that the snapshot holds."""
    for pattern in TAKEN:
        for found in root.glob(pattern):
            for path in [found, *(found.rglob("*") if found.is_dir() else ())]:
                if path.is_file() and not str(path.relative_to(root)).startswith(EXCLUDED):
                    yield path
